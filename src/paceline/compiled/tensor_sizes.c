/* TensorSizes: element type, bytes and elements of tensors whose element type is known; Python is asked for all others. */

#include "watching.h"

typedef struct {
    PyObject_HEAD
    PyObject *known, *in_python; /* element type -> its code and the bytes of an element; what reads all others */
} TensorSizes;

static PyTypeObject *tensor_sizes_type;

/* Return code and bytes of the element type of a tensor, borrowed; NULL, perhaps without an exception. */
static PyObject *find_known(TensorSizes *self, PyObject *tensor) {
    PyObject *dtype = PyObject_GetAttr(tensor, names.dtype);
    PyObject *found = dtype ? PyDict_GetItemWithError(self->known, dtype) : NULL;
    Py_XDECREF(dtype);
    return found;
}

static PyObject *size_of(PyObject *object, PyObject *tensor) {
    TensorSizes *self = (TensorSizes *)object;
    PyObject *known = find_known(self, tensor), *counted = NULL;
    long long code, item_bytes, count = -1;
    if (known && PyArg_ParseTuple(known, "LL", &code, &item_bytes)) {
        counted = PyObject_CallMethodObjArgs(tensor, names.numel, NULL);
        count = counted ? PyLong_AsLongLong(counted) : -1;
        Py_XDECREF(counted);
    }
    if (PyErr_Occurred() || count < 0) {
        PyErr_Clear(); /* Python meets the same, and knows what it means */
        return PyObject_CallFunctionObjArgs(self->in_python, tensor, NULL);
    }
    return Py_BuildValue("LLL", code, count * item_bytes, count);
}

static PyObject *new_sizes(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"known", "in_python", NULL};
    PyObject *known, *in_python;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!O", keywords, &PyDict_Type, &known, &in_python)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    TensorSizes *self = (TensorSizes *)allocate(type, 0);
    if (self) {
        self->known = Py_NewRef(known);
        self->in_python = Py_NewRef(in_python);
    }
    return (PyObject *)self;
}

static int visit(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((TensorSizes *)object)->known);
    Py_VISIT(((TensorSizes *)object)->in_python);
    return 0;
}

/* There is no tp_clear: it is needed as long as it can be called, and whoever holds it can be cleared. */
static void release(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_CLEAR(((TensorSizes *)object)->known);
    Py_CLEAR(((TensorSizes *)object)->in_python);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(object);
    Py_DECREF(type);
}

int add_tensor_sizes_type(PyObject *module) {
    static PyMethodDef methods[] = {{"size", size_of, METH_O, NULL}, {NULL, NULL, 0, NULL}};
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)new_sizes},
        {Py_tp_methods, methods},
        {Py_tp_traverse, (void *)visit},
        {Py_tp_dealloc, (void *)release},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.TensorSizes",
        .basicsize = sizeof(TensorSizes),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    if (!tensor_sizes_type) {
        tensor_sizes_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return tensor_sizes_type ? PyModule_AddType(module, tensor_sizes_type) : -1;
}
