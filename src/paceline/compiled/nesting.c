/* Nesting: how many watched functions of torch.distributed a thread is in. What torch calls inside one of them is not the
 * user's call. And OutermostCall, which hands such inner calls on without a detour through Python. */

#include "watching.h"

typedef struct {
    PyObject_HEAD
    Py_tss_t *depth;
} Nesting;

PyTypeObject *nesting_type;

int64_t nesting_depth(PyObject *nesting) {
    return (int64_t)(intptr_t)PyThread_tss_get(((Nesting *)nesting)->depth);
}

int set_nesting_depth(PyObject *nesting, int64_t depth) {
    if (PyThread_tss_set(((Nesting *)nesting)->depth, (void *)(intptr_t)depth) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static PyObject *get_depth(PyObject *self, void *nothing) {
    (void)nothing;
    return PyLong_FromLongLong(nesting_depth(self));
}

static int set_depth(PyObject *self, PyObject *value, void *nothing) {
    (void)nothing;
    long long depth = value ? PyLong_AsLongLong(value) : 0;
    return depth == -1 && PyErr_Occurred() ? -1 : set_nesting_depth(self, depth);
}

static PyObject *new_nesting(PyTypeObject *type, PyObject *args, PyObject *named) {
    if (PyTuple_Size(args) || (named && PyDict_Size(named))) {
        PyErr_SetString(PyExc_TypeError, "it takes no arguments");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Nesting *self = (Nesting *)allocate(type, 0);
    if (self) {
        self->depth = PyThread_tss_alloc();
        if (!self->depth || PyThread_tss_create(self->depth) != 0) {
            PyErr_NoMemory();
            Py_DECREF((PyObject *)self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static void free_nesting(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (((Nesting *)self)->depth) {
        PyThread_tss_free(((Nesting *)self)->depth); /* which also deletes the key */
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

int add_nesting_type(PyObject *module) {
    static PyGetSetDef attributes[] = {{"depth", get_depth, set_depth, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)new_nesting},
        {Py_tp_dealloc, (void *)free_nesting},
        {Py_tp_getset, attributes},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.Nesting",
        .basicsize = sizeof(Nesting),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };
    if (!nesting_type) {
        nesting_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return nesting_type ? PyModule_AddType(module, nesting_type) : -1;
}

/* -------------------------------------------------------------------------------------------- inner calls */

static PyTypeObject *outermost_call_type;

static PyObject *call_outermost(PyObject *self, PyObject *args, PyObject *named) {
    WatchedCall *call = (WatchedCall *)self;
    return PyObject_Call(nesting_depth(call->nesting) ? call->function : call->in_python, args, named);
}

static PyObject *new_outermost(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"nesting", "function", "in_python", NULL};
    PyObject *nesting, *function, *in_python;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!OO", keywords, nesting_type, &nesting, &function, &in_python)) {
        return NULL;
    }
    WatchedCall *call = make_call(type, Py_None, function, in_python, 0, in_python);
    if (call) {
        call->nesting = Py_NewRef(nesting);
    }
    return (PyObject *)call;
}

int add_outermost_call_type(PyObject *module) {
    return add_call_type(
        module, &outermost_call_type, "paceline.compiled.extension.OutermostCall", sizeof(WatchedCall), new_outermost,
        call_outermost);
}
