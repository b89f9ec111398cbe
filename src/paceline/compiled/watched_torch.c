/* WatchedTorchCollective: a collective of torch.distributed that blocks. Python reads its arguments; this finds the group,
 * records the call, and makes it with everything that it calls left unrecorded. It does what the function of
 * guard/rank/torch/torch_collectives.py does; calls that return a work, exchange by pairs or only enqueue go there. */

#include "watching.h"

typedef struct {
    WatchedCall call; /* its helper reads the arguments, and what it has in Python follows a call that was read */
    bool is_plain; /* it exchanges nothing by pairs */
} WatchedTorchCollective;

static PyTypeObject *watched_torch_type;

/* Return the communicator of a group, a new reference; None if it is not followed. */
static PyObject *communicator_of(PyObject *watch, PyObject *group) {
    if (group == Py_None) {
        return PyObject_GetAttr(watch, names.world);
    }
    PyObject *groups = PyObject_GetAttr(watch, names.groups);
    PyObject *found = groups && PyDict_Check(groups) ? PyDict_GetItemWithError(groups, group) : NULL;
    Py_XINCREF(found);
    Py_XDECREF(groups);
    if (found || PyErr_Occurred()) {
        return found;
    }
    return PyObject_CallMethodObjArgs(watch, names.communicator, group, NULL);
}

/* Return 1 if calls on a communicator return when they are over; 0 if they only enqueue. */
static int blocks(PyObject *communicator) {
    PyObject *flags = PyObject_GetAttr(communicator, names.call_flags);
    int is_set = flags ? PyObject_IsTrue(flags) : -1;
    Py_XDECREF(flags);
    return is_set < 0 ? -1 : !is_set;
}

/* Return the frame of the user, a new reference: the one that has called the function which calls this. */
static PyObject *frame_of_user(void) {
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    PyObject *back = frame ? PyObject_GetAttr(frame, names.f_back) : NULL;
    if (back == Py_None || (!back && !PyErr_Occurred())) {
        Py_CLEAR(back);
        PyErr_SetString(PyExc_ValueError, "call stack is not deep enough");
    }
    return back;
}

/* Make the call with inner calls left unrecorded. */
static PyObject *
make_unnested(WatchedCall *call, RecordWriter *writer, uint64_t number, PyObject *args, PyObject *named) {
    if (set_nesting_depth(call->nesting, 1) < 0) { /* it was 0, or the call would not have been recorded */
        return NULL;
    }
    PyObject *value = call_recorded(call, writer, number, false, args, named);
    Raised raised = {.type = NULL};
    if (!value) {
        take_raised(&raised);
    }
    int done = set_nesting_depth(call->nesting, 0);
    if (!value) {
        give_back(&raised);
    } else if (done < 0) {
        Py_CLEAR(value);
    }
    return value;
}

static PyObject *
record_and_make(WatchedCall *call, PyObject *recorder, PyObject *communicator, const CollectiveCall *told,
                PyObject *args, PyObject *named) {
    BoardMember *member = board_member_of(communicator);
    PyObject *frame = member ? frame_of_user() : NULL;
    RecordWriter *writer = (RecordWriter *)recorder;
    int64_t number = frame ? begin_collective(writer, communicator, member, told, frame) : -1;
    Py_XDECREF(frame);
    Py_XDECREF((PyObject *)member);
    return number < 0 ? NULL : make_unnested(call, writer, (uint64_t)number, args, named);
}

/* Go on with arguments that were read: group, root, reduction, size, whether it returns a work, and flags. */
static PyObject *
follow(WatchedTorchCollective *self, PyObject *recorder, PyObject *read, PyObject *args, PyObject *named) {
    PyObject *group, *returns_work;
    long long root, reduction, dtype, num_bytes, count, flags;
    if (!PyArg_ParseTuple(
            read, "OLL(LLL)OL", &group, &root, &reduction, &dtype, &num_bytes, &count, &returns_work, &flags)) {
        return NULL;
    }
    PyObject *communicator = communicator_of(self->call.watch, group);
    if (!communicator || communicator == Py_None) {
        Py_XDECREF(communicator);
        return communicator ? PyObject_Call(self->call.function, args, named) : NULL;
    }
    PyObject *value = NULL;
    int plain = self->is_plain && returns_work == Py_False ? blocks(communicator) : 0;
    if (plain > 0) {
        CollectiveCall told = {
            .operation = self->call.code,
            .root = root,
            .reduction = reduction,
            .dtype = dtype,
            .num_bytes = num_bytes,
            .count = count,
            .flags = flags,
        };
        value = record_and_make(&self->call, recorder, communicator, &told, args, named);
    } else if (plain == 0) {
        PyObject *all_named = named ? Py_NewRef(named) : PyDict_New();
        value = all_named ? PyObject_CallFunctionObjArgs(
                                self->call.in_python, recorder, communicator, read, args, all_named, NULL)
                          : NULL;
        Py_XDECREF(all_named);
    }
    Py_DECREF(communicator);
    return value;
}

static PyObject *call_collective(PyObject *object, PyObject *args, PyObject *named) {
    WatchedTorchCollective *self = (WatchedTorchCollective *)object;
    if (nesting_depth(self->call.nesting)) {
        return PyObject_Call(self->call.function, args, named);
    }
    PyObject *recorder = PyObject_GetAttr(self->call.session, names.recorder);
    if (!recorder) {
        return NULL;
    }
    PyObject *read = NULL, *value = NULL;
    if (PyObject_TypeCheck(recorder, record_writer_type) && ((RecordWriter *)recorder)->ring) {
        read = PyObject_Call(self->call.helper, args, named);
    }
    if (read) {
        value = follow(self, recorder, read, args, named);
    } else if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)
               || PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear(); /* wrong arguments: torch says so better */
        value = PyObject_Call(self->call.function, args, named);
    }
    Py_XDECREF(read);
    Py_DECREF(recorder);
    return value;
}

static PyObject *new_collective(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"session", "watch", "nesting", "function", "follow", "code", "read", "is_plain", NULL};
    PyObject *session, *watch, *nesting, *function, *in_python, *read;
    long long code;
    int is_plain;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "OOO!OOLOp", keywords, &session, &watch, nesting_type, &nesting, &function, &in_python, &code,
            &read, &is_plain)) {
        return NULL;
    }
    WatchedTorchCollective *self =
        (WatchedTorchCollective *)make_call(type, session, function, in_python, code, read);
    if (self) {
        self->call.nesting = Py_NewRef(nesting);
        self->call.watch = Py_NewRef(watch);
        self->is_plain = is_plain;
    }
    return (PyObject *)self;
}

int add_watched_torch_type(PyObject *module) {
    return add_call_type(
        module, &watched_torch_type, "paceline.compiled.extension.WatchedTorchCollective",
        sizeof(WatchedTorchCollective), new_collective, call_collective);
}
