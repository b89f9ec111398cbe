/* PostedFields: what is kept of a request that was posted, for PostedRequest of guard/rank/posted_request.py, which has
 * the methods. It is called back when nobody has the request any more. */

#include "watching.h"

PyTypeObject *posted_fields_type;

/* -------------------------------------------------------------------------------------------- the request's object */

int stand_for(PostedFields *posted, PyObject *request, PyObject *table) {
    PyObject *key = PyLong_FromVoidPtr(request);
    PyObject *reference = key ? PyWeakref_NewRef(request, (PyObject *)posted) : NULL;
    if (!reference || PyDict_SetItem(table, key, (PyObject *)posted) < 0) {
        Py_XDECREF(key);
        Py_XDECREF(reference);
        return -1;
    }
    posted->key = key;
    posted->reference = reference;
    posted->table = Py_NewRef(table);
    return 0;
}

static PyObject *call_stand_for(PyObject *self, PyObject *args) {
    PyObject *request, *table;
    if (!PyArg_ParseTuple(args, "OO!", &request, &PyDict_Type, &table)) {
        return NULL;
    }
    if (((PostedFields *)self)->key) {
        PyErr_SetString(PyExc_ValueError, "it stands for a request already");
        return NULL;
    }
    return stand_for((PostedFields *)self, request, table) < 0 ? NULL : Py_NewRef(Py_None);
}

/* The weak reference calls this when the request is gone. */
static PyObject *forget(PyObject *self, PyObject *args, PyObject *named) {
    (void)args;
    (void)named;
    PostedFields *posted = (PostedFields *)self;
    PyObject *reference = posted->reference, *key = posted->key, *table = posted->table;
    posted->reference = posted->key = posted->table = NULL;
    int done = 0;
    if (table && PyDict_GetItemWithError(table, key) == self) {
        done = PyDict_DelItem(table, key);
    } else if (PyErr_Occurred()) {
        done = -1;
    }
    Py_XDECREF(table);
    Py_XDECREF(key);
    Py_XDECREF(reference);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

PostedFields *find_posted(PyObject *table, PyObject *request) {
    PyObject *key = PyLong_FromVoidPtr(request);
    PyObject *found = key ? PyDict_GetItemWithError(table, key) : NULL;
    Py_XDECREF(key);
    return found && PyObject_TypeCheck(found, posted_fields_type) ? (PostedFields *)Py_NewRef(found) : NULL;
}

/* -------------------------------------------------------------------------------------------- fields */

PostedFields *make_posted(PyObject *type, PyObject *recorder, int request, int64_t record) {
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    PostedFields *posted = (PostedFields *)allocate((PyTypeObject *)type, 0);
    if (posted) {
        posted->recorder = Py_NewRef(recorder);
        posted->request = request;
        posted->record = record;
        posted->is_active = 1;
    }
    return posted;
}

static int set_up(PyObject *self, PyObject *args, PyObject *named) {
    static char *keywords[] = {"recorder", "request", "record", "is_active", NULL};
    PyObject *recorder;
    int request, is_active = 1;
    long long record;
    if (!PyArg_ParseTupleAndKeywords(args, named, "OiL|$p", keywords, &recorder, &request, &record, &is_active)) {
        return -1;
    }
    PostedFields *posted = (PostedFields *)self;
    PyObject *before = posted->recorder;
    posted->recorder = Py_NewRef(recorder);
    posted->request = request;
    posted->record = record;
    posted->is_active = (char)is_active;
    Py_XDECREF(before);
    return 0;
}

static PyObject *get_receives(PyObject *self, void *nothing) {
    (void)nothing;
    PostedFields *posted = (PostedFields *)self;
    if (!posted->communicator) {
        return Py_NewRef(Py_None);
    }
    return Py_BuildValue(
        "OLLLK", posted->communicator, (long long)posted->peer, (long long)posted->tag, (long long)posted->nth,
        (unsigned long long)posted->size);
}

static int set_receives(PyObject *self, PyObject *value, void *nothing) {
    (void)nothing;
    PostedFields *posted = (PostedFields *)self;
    PyObject *communicator = NULL, *before = posted->communicator;
    long long peer = 0, tag = 0, nth = 0;
    unsigned long long size = 0;
    if (value && value != Py_None
        && (!PyTuple_Check(value) || !PyArg_ParseTuple(value, "OLLLK", &communicator, &peer, &tag, &nth, &size))) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "what a request receives is a tuple");
        }
        return -1;
    }
    Py_XINCREF(communicator);
    posted->communicator = communicator;
    posted->peer = peer;
    posted->tag = tag;
    posted->nth = nth;
    posted->size = size;
    Py_XDECREF(before);
    return 0;
}

static PyObject *get_memory(PyObject *self, void *nothing) {
    (void)nothing;
    PyObject *memory = ((PostedFields *)self)->memory;
    return memory ? Py_NewRef(memory) : PyTuple_New(0);
}

static int set_memory(PyObject *self, PyObject *value, void *nothing) {
    (void)nothing;
    if (!value || !PyTuple_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "the memory of a request is a tuple");
        return -1;
    }
    PyObject *before = ((PostedFields *)self)->memory;
    ((PostedFields *)self)->memory = PyTuple_Size(value) ? Py_NewRef(value) : NULL;
    Py_XDECREF(before);
    return 0;
}

static PyObject *get_handle(PyObject *self, void *nothing) {
    (void)nothing;
    PyObject *handle = ((PostedFields *)self)->handle;
    return handle ? Py_NewRef(handle) : PyLong_FromLong(0);
}

static int set_handle(PyObject *self, PyObject *value, void *nothing) {
    (void)nothing;
    PyObject *before = ((PostedFields *)self)->handle;
    Py_XINCREF(value);
    ((PostedFields *)self)->handle = value;
    Py_XDECREF(before);
    return 0;
}

/* -------------------------------------------------------------------------------------------- the end */

/* Let Python say what is to be said of a request that nobody can complete any more. */
static void finalize(PyObject *self) {
    if (!((PostedFields *)self)->request) {
        return;
    }
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyObject *done = PyObject_CallMethodObjArgs(self, names.drop, NULL);
    if (!done) {
        PyErr_WriteUnraisable(self);
    }
    Py_XDECREF(done);
    PyErr_Restore(type, error, traceback);
}

static int visit(PyObject *self, visitproc visit, void *arg) {
    PostedFields *posted = (PostedFields *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(posted->recorder);
    Py_VISIT(posted->memory);
    Py_VISIT(posted->communicator);
    Py_VISIT(posted->on_start);
    Py_VISIT(posted->reference);
    Py_VISIT(posted->table);
    return 0;
}

static int clear(PyObject *self) {
    PostedFields *posted = (PostedFields *)self;
    Py_CLEAR(posted->recorder);
    Py_CLEAR(posted->memory);
    Py_CLEAR(posted->handle);
    Py_CLEAR(posted->communicator);
    Py_CLEAR(posted->on_start);
    Py_CLEAR(posted->reference);
    Py_CLEAR(posted->key);
    Py_CLEAR(posted->table);
    return 0;
}

static void release(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

int add_posted_fields_type(PyObject *module) {
    static PyMethodDef methods[] = {{"stand_for", call_stand_for, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
    static PyMemberDef members[] = {
        {"recorder", T_OBJECT, offsetof(PostedFields, recorder), 0, NULL},
        {"request", T_INT, offsetof(PostedFields, request), 0, NULL},
        {"record", T_LONGLONG, offsetof(PostedFields, record), 0, NULL},
        {"is_active", T_BOOL, offsetof(PostedFields, is_active), 0, NULL},
        {"is_excused", T_BOOL, offsetof(PostedFields, is_excused), 0, NULL},
        {"is_users", T_BOOL, offsetof(PostedFields, is_users), 0, NULL},
        {"on_start", T_OBJECT, offsetof(PostedFields, on_start), 0, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    static PyGetSetDef attributes[] = {
        {"receives", get_receives, set_receives, NULL, NULL},
        {"memory", get_memory, set_memory, NULL, NULL},
        {"handle", get_handle, set_handle, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)PyType_GenericNew},
        {Py_tp_init, (void *)set_up},
        {Py_tp_call, (void *)forget},
        {Py_tp_methods, methods},
        {Py_tp_members, members},
        {Py_tp_getset, attributes},
        {Py_tp_finalize, (void *)finalize},
        {Py_tp_traverse, (void *)visit},
        {Py_tp_clear, (void *)clear},
        {Py_tp_dealloc, (void *)release},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.PostedFields",
        .basicsize = sizeof(PostedFields),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    if (!posted_fields_type) {
        posted_fields_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return posted_fields_type ? PyModule_AddType(module, posted_fields_type) : -1;
}
