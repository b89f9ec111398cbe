/* WatchedTorchCollective: a collective of torch.distributed that blocks. Its arguments are read here if they are plain,
 * otherwise by Python; this finds the group, records the call, and makes it with everything that it calls left unrecorded.
 * It does what the function of guard/rank/torch/torch_collectives.py does; calls that return a work, exchange by pairs or
 * only enqueue go there. */

#include "watching.h"

typedef struct {
    WatchedCall call; /* its helper reads the arguments, and what it has in Python follows a call that was read */
    bool is_plain;   /* it exchanges nothing by pairs */
    bool has_places; /* so that arguments can be read here */
    TorchPlaces places;
} WatchedTorchCollective;

static PyTypeObject *watched_torch_type;

/* Return the communicator of a group, a new reference; None if it is not followed. */
static PyObject *communicator_of(PyObject *watch, PyObject *group) {
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
    PyObject *communicator = communicator_of(self->call.torch->watch, group);
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

/* Let Python read the arguments, and go on with them. */
static PyObject *ask_and_follow(WatchedTorchCollective *self, PyObject *recorder, PyObject *args, PyObject *named) {
    PyObject *read = PyObject_Call(self->call.helper, args, named), *value = NULL;
    if (read) {
        value = follow(self, recorder, read, args, named);
    } else if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear(); /* wrong arguments: torch says so better */
        value = PyObject_Call(self->call.function, args, named);
    }
    Py_XDECREF(read);
    return value;
}

static PyObject *watch_call(WatchedTorchCollective *self, PyObject *recorder, PyObject *args, PyObject *named) {
    CollectiveCall told = {.operation = self->call.code, .root = NOTHING, .num_bytes = -1, .count = -1};
    PyObject *communicator = NULL, *value = NULL;
    if (self->has_places) {
        communicator = read_torch_call(
            self->call.torch, &self->places, (RecordWriter *)recorder, args, named, &told);
    }
    int plain = communicator ? blocks(communicator) : 0;
    if (plain > 0) {
        value = record_and_make(&self->call, recorder, communicator, &told, args, named);
    } else if (is_left_to_python()) {
        value = ask_and_follow(self, recorder, args, named);
    }
    Py_XDECREF(communicator);
    return value;
}

static PyObject *call_collective(PyObject *object, PyObject *args, PyObject *named) {
    WatchedTorchCollective *self = (WatchedTorchCollective *)object;
    if (nesting_depth(self->call.nesting)) {
        return PyObject_Call(self->call.function, args, named);
    }
    PyObject *recorder = PyObject_GetAttr(self->call.session, names.recorder), *value = NULL;
    if (recorder && PyObject_TypeCheck(recorder, record_writer_type) && ((RecordWriter *)recorder)->ring) {
        value = watch_call(self, recorder, args, named);
    } else if (recorder) {
        value = PyObject_Call(self->call.function, args, named);
    }
    Py_XDECREF(recorder);
    return value;
}

/* -------------------------------------------------------------------------------------------- the type */

static int read_places(PyObject *given, TorchPlaces *places) {
    PyObject *root_name;
    if (!PyTuple_Check(given)
        || !PyArg_ParseTuple(
            given, "iiiiiiiU", &places->tensor, &places->reduction, &places->group, &places->returns_work,
            &places->root, &places->least, &places->most, &root_name)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "places are a tuple, or None");
        }
        return -1;
    }
    if (places->tensor >= places->least) {
        PyErr_SetString(PyExc_ValueError, "a tensor is an argument of every call");
        return -1;
    }
    places->root_name = Py_NewRef(root_name);
    PyUnicode_InternInPlace(&places->root_name); /* which is never given back: functions live as long as torch */
    return 0;
}

static PyObject *new_collective(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"torch", "function", "follow", "code", "read", "is_plain", "places", NULL};
    PyObject *torch, *function, *in_python, *read, *given;
    long long code;
    int is_plain;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!OOLOpO", keywords, torch_arguments_type, &torch, &function, &in_python, &code, &read,
            &is_plain, &given)) {
        return NULL;
    }
    TorchPlaces places = {.tensor = -1};
    if (given != Py_None && read_places(given, &places) < 0) {
        return NULL;
    }
    TorchArguments *arguments = (TorchArguments *)torch;
    WatchedTorchCollective *self =
        (WatchedTorchCollective *)make_call(type, arguments->session, function, in_python, code, read);
    if (self) {
        self->call.nesting = Py_NewRef(arguments->nesting);
        self->call.torch = (TorchArguments *)Py_NewRef(torch);
        self->is_plain = is_plain;
        self->has_places = is_plain && given != Py_None;
        self->places = places;
    }
    return (PyObject *)self;
}

int add_watched_torch_type(PyObject *module) {
    return add_call_type(
        module, &watched_torch_type, "paceline.compiled.extension.WatchedTorchCollective",
        sizeof(WatchedTorchCollective), new_collective, call_collective);
}
