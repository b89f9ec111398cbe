/* What all watched functions have in common: they bind like functions, and are taken for what they wrap. */

#include "watching.h"

WatchedCall *make_call(
    PyTypeObject *type, PyObject *session, PyObject *function, PyObject *in_python, int64_t code, PyObject *helper) {
    if (!PyCallable_Check(function) || !PyCallable_Check(in_python) || !PyCallable_Check(helper)) {
        PyErr_SetString(PyExc_TypeError, "functions are needed");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    WatchedCall *call = (WatchedCall *)allocate(type, 0);
    if (call) {
        call->session = Py_NewRef(session);
        call->function = Py_NewRef(function);
        call->in_python = Py_NewRef(in_python);
        call->helper = Py_NewRef(helper);
        call->code = code;
    }
    return call;
}

WatchedCall *make_mpi_call(
    PyTypeObject *type, PyObject *mpi, PyObject *function, PyObject *in_python, int64_t code, PyObject *helper) {
    WatchedCall *call = make_call(type, ((MpiArguments *)mpi)->session, function, in_python, code, helper);
    if (call) {
        call->mpi = (MpiArguments *)Py_NewRef(mpi);
    }
    return call;
}

/* -------------------------------------------------------------------------------------------- exceptions */

void take_raised(Raised *raised) {
    PyErr_Fetch(&raised->type, &raised->error, &raised->traceback);
    PyErr_NormalizeException(&raised->type, &raised->error, &raised->traceback);
    if (raised->traceback) {
        PyException_SetTraceback(raised->error, raised->traceback);
    }
}

void give_back(Raised *raised) {
    if (!PyErr_Occurred()) {
        PyErr_Restore(raised->type, raised->error, raised->traceback);
        return;
    }
    Raised later;
    take_raised(&later);
    PyException_SetContext(later.error, raised->error); /* which takes the reference */
    Py_XDECREF(raised->type);
    Py_XDECREF(raised->traceback);
    PyErr_Restore(later.type, later.error, later.traceback);
}

bool is_left_to_python(void) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
        return false;
    }
    PyErr_Clear(); /* Python meets the same, and knows what it means */
    return true;
}

/* Say that the call has raised: session.note_failure(error, number). */
int tell_failure(WatchedCall *call, PyObject *error, uint64_t number) {
    PyObject *record = PyLong_FromUnsignedLongLong(number);
    PyObject *done =
        record ? PyObject_CallMethodObjArgs(call->session, names.note_failure, error, record, NULL) : NULL;
    Py_XDECREF(record);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The same for a message: recorder.remarks.doubt_message(). */
int doubt_message(PyObject *recorder) {
    PyObject *remarks = PyObject_GetAttr(recorder, names.remarks);
    PyObject *done = remarks ? PyObject_CallMethodObjArgs(remarks, names.doubt_message, NULL) : NULL;
    Py_XDECREF(remarks);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyObject *call_recorded(
    WatchedCall *call, RecordWriter *writer, uint64_t number, bool is_message, PyObject *args, PyObject *named) {
    PyObject *value = PyObject_Call(call->function, args, named);
    if (value) {
        if (unblock_thread(writer, number) < 0) {
            Py_CLEAR(value);
        }
        return value;
    }
    Raised raised, while_noted;
    take_raised(&raised);
    if (tell_failure(call, raised.error, number) == 0 && is_message) {
        doubt_message((PyObject *)writer);
    }
    bool failed = PyErr_Occurred() != NULL;
    if (failed) {
        take_raised(&while_noted);
    }
    unblock_thread(writer, number);
    if (failed) {
        give_back(&while_noted);
    }
    give_back(&raised);
    return NULL;
}

PyObject *find_argument(PyObject *args, PyObject *named, int place, PyObject *name, Py_ssize_t *num_named) {
    if (place < PyTuple_Size(args)) {
        return PyTuple_GetItem(args, place);
    }
    PyObject *found = *num_named > 0 ? PyDict_GetItemWithError(named, name) : NULL;
    *num_named -= found != NULL;
    return found;
}

/* -------------------------------------------------------------------------------------------- as a method */

/* What makes bound methods. Calls do not come here: the type says that it behaves like a method. */
static PyObject *method_type;

static PyObject *bind(PyObject *self, PyObject *object, PyObject *type) {
    (void)type;
    if (!object || object == Py_None) {
        return Py_NewRef(self);
    }
    return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

/* Copies and pickles are the function itself, under the name that it is found by: so it is for all functions. */
static PyObject *reduce(PyObject *self, PyObject *nothing) {
    (void)nothing;
    return PyObject_GetAttr(self, names.__qualname__);
}

static PyObject *show(PyObject *self) {
    return PyUnicode_FromFormat("<watched %S>", ((WatchedCall *)self)->function);
}

/* -------------------------------------------------------------------------------------------- memory */

static int visit(PyObject *self, visitproc visit, void *arg) {
    WatchedCall *call = (WatchedCall *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(call->dict);
    Py_VISIT((PyObject *)call->mpi);
    Py_VISIT(call->session);
    Py_VISIT(call->nesting);
    Py_VISIT((PyObject *)call->torch);
    Py_VISIT(call->function);
    Py_VISIT(call->in_python);
    Py_VISIT(call->helper);
    return 0;
}

static int clear(PyObject *self) { /* the rest is needed as long as it can be called */
    Py_CLEAR(((WatchedCall *)self)->dict);
    return 0;
}

static void release(PyObject *self) {
    WatchedCall *call = (WatchedCall *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (call->weak_references) {
        PyObject_ClearWeakRefs(self);
    }
    PyObject *mpi = (PyObject *)call->mpi;
    call->mpi = NULL;
    Py_XDECREF(mpi);
    PyObject *torch = (PyObject *)call->torch;
    call->torch = NULL;
    Py_XDECREF(torch);
    Py_CLEAR(call->dict);
    Py_CLEAR(call->session);
    Py_CLEAR(call->nesting);
    Py_CLEAR(call->function);
    Py_CLEAR(call->in_python);
    Py_CLEAR(call->helper);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(WatchedCall, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(WatchedCall, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_call_type(PyObject *module, PyTypeObject **type, const char *name, int size, newfunc make, ternaryfunc call) {
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)make},
        {Py_tp_call, (void *)call},
        {Py_tp_descr_get, (void *)bind},
        {Py_tp_repr, (void *)show},
        {Py_tp_traverse, (void *)visit},
        {Py_tp_clear, (void *)clear},
        {Py_tp_dealloc, (void *)release},
        {Py_tp_members, members},
        {Py_tp_getset, attributes},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = name,
        .basicsize = size,
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR,
        .slots = slots,
    };
    if (!method_type) {
        PyObject *types = PyImport_ImportModule("types");
        method_type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
        Py_XDECREF(types);
    }
    if (method_type && !*type) {
        *type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return method_type && *type ? PyModule_AddType(module, *type) : -1;
}
