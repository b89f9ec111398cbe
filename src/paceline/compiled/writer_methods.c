/* The methods of RecordWriter as Python calls them: the same names and arguments as those of the recorder in Python. */

#include "watching.h"

#include <string.h>

/* -------------------------------------------------------------------------------------------- arguments */

enum { MOST_NUMBERS = 16 };

typedef struct {
    const char *name; /* NULL behind the last one */
    long long value;  /* if it is not given */
    PyObject *interned;
} Parameter;

static int place_of_name(Parameter *parameters, PyObject *name) {
    for (int place = 0; parameters[place].name; place++) {
        if (parameters[place].interned == name) { /* so it is nearly always */
            return place;
        }
    }
    for (int place = 0; parameters[place].name; place++) {
        if (PyUnicode_CompareWithASCIIString(name, parameters[place].name) == 0) {
            return place;
        }
    }
    PyErr_Format(PyExc_TypeError, "unexpected argument %R", name);
    return -1;
}

/* Read whole numbers. What is at `object_place` is no number, and is handed out as it is. */
static int read_numbers(
    Parameter *parameters, int num_needed, PyObject *const *args, Py_ssize_t num_args, PyObject *keywords,
    int object_place, PyObject **object, int64_t *numbers) {
    uint64_t given = 0;
    int num = 0;
    for (; parameters[num].name; num++) {
        numbers[num] = parameters[num].value;
        if (!parameters[num].interned && !(parameters[num].interned = PyUnicode_InternFromString(parameters[num].name))) {
            return -1;
        }
    }
    Py_ssize_t num_named = keywords ? PyTuple_Size(keywords) : 0;
    for (Py_ssize_t at = 0; at < num_args + num_named; at++) {
        int place = (int)at;
        if (at >= num_args) {
            place = place_of_name(parameters, PyTuple_GetItem(keywords, at - num_args));
        }
        if (place < 0) {
            return -1;
        }
        if (place >= num || given >> place & 1) {
            PyErr_SetString(PyExc_TypeError, "too many arguments");
            return -1;
        }
        given |= UINT64_C(1) << place;
        if (place == object_place) {
            *object = args[at];
            continue;
        }
        numbers[place] = PyLong_AsLongLong(args[at]);
        if (numbers[place] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    if ((given & ((UINT64_C(1) << num_needed) - 1)) + 1 != UINT64_C(1) << num_needed) {
        PyErr_SetString(PyExc_TypeError, "an argument is missing");
        return -1;
    }
    return 0;
}

static RecordWriter *opened(PyObject *self) {
    RecordWriter *writer = (RecordWriter *)self;
    if (!writer->ring) {
        PyErr_SetString(PyExc_ValueError, "the ring is not open");
        return NULL;
    }
    return writer;
}

/* Return the frame of the user: `depth` counts the method itself as a frame, which it has in Python. */
static PyObject *frame_at(int64_t depth) {
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    for (int64_t left = depth - 1; frame && left > 0; left--) {
        PyObject *back = PyObject_GetAttr(frame, names.f_back);
        Py_DECREF(frame);
        if (back == Py_None) {
            Py_CLEAR(back);
        }
        frame = back;
    }
    if (!frame && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "call stack is not deep enough");
    }
    return frame;
}

/* -------------------------------------------------------------------------------------------- begin */

static Parameter of_collective[] = {
    {"communicator", 0, NULL}, {"operation", 0, NULL}, {"root", NOTHING, NULL},   {"reduction", 0, NULL},
    {"dtype", 0, NULL},        {"num_bytes", -1, NULL}, {"count", -1, NULL},      {"flags", 0, NULL},
    {"request", 0, NULL},      {"depth", 2, NULL},     {"members_hash", 0, NULL}, {NULL, 0, NULL},
};

static PyObject *
call_begin_collective(PyObject *self, PyObject *const *args, Py_ssize_t num_args, PyObject *keywords) {
    RecordWriter *writer = opened(self);
    PyObject *communicator = NULL;
    int64_t got[MOST_NUMBERS];
    if (!writer || read_numbers(of_collective, 2, args, num_args, keywords, 0, &communicator, got) < 0) {
        return NULL;
    }
    CollectiveCall call = {
        .operation = got[1],
        .root = got[2],
        .reduction = got[3],
        .dtype = got[4],
        .num_bytes = got[5],
        .count = got[6],
        .flags = got[7],
        .request = got[8],
        .members_hash = got[10],
    };
    BoardMember *member = board_member_of(communicator);
    PyObject *frame = member ? frame_at(got[9]) : NULL;
    int64_t number = frame ? begin_collective(writer, communicator, member, &call, frame) : -1;
    Py_XDECREF(frame);
    Py_XDECREF((PyObject *)member);
    return number < 0 ? NULL : PyLong_FromLongLong(number);
}

static Parameter of_message[] = {
    {"communicator", 0, NULL},   {"operation", 0, NULL},     {"peer", NOTHING, NULL}, {"tag", NOTHING, NULL},
    {"message_number", 0, NULL}, {"dtype", 0, NULL},         {"num_bytes", -1, NULL}, {"count", -1, NULL},
    {"flags", 0, NULL},          {"request", 0, NULL},       {"receives", 0, NULL},   {"num_requests", -1, NULL},
    {"members_hash", 0, NULL},   {"depth", 2, NULL},         {NULL, 0, NULL},
};

/* Read what an exchange receives: source, tag, element type, bytes, number. */
static int read_receives(PyObject *receives, MessageCall *call) {
    int64_t *into[] = {
        &call->source, &call->source_tag, &call->source_dtype, &call->source_bytes, &call->source_number};
    if (!PyTuple_Check(receives) || PyTuple_Size(receives) != 5) {
        PyErr_SetString(PyExc_TypeError, "what an exchange receives is a tuple of five numbers");
        return -1;
    }
    for (int at = 0; at < 5; at++) {
        *into[at] = PyLong_AsLongLong(PyTuple_GetItem(receives, at));
        if (*into[at] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

static PyObject *call_begin_message(PyObject *self, PyObject *const *args, Py_ssize_t num_args, PyObject *keywords) {
    RecordWriter *writer = opened(self);
    PyObject *receives = NULL;
    int64_t got[MOST_NUMBERS];
    if (!writer || read_numbers(of_message, 2, args, num_args, keywords, 10, &receives, got) < 0) {
        return NULL;
    }
    MessageCall call = {
        .communicator = got[0],
        .operation = got[1],
        .peer = got[2],
        .tag = got[3],
        .message_number = got[4],
        .dtype = got[5],
        .num_bytes = got[6],
        .count = got[7],
        .flags = got[8],
        .request = got[9],
        .num_requests = got[11],
        .members_hash = got[12],
        .source = NOTHING,
        .source_tag = NOTHING,
        .source_bytes = -1,
    };
    if (receives && read_receives(receives, &call) < 0) {
        return NULL;
    }
    PyObject *frame = frame_at(got[13]);
    int64_t number = frame ? begin_message(writer, &call, frame) : -1;
    Py_XDECREF(frame);
    return number < 0 ? NULL : PyLong_FromLongLong(number);
}

/* -------------------------------------------------------------------------------------------- block and leave */

static int read_number(PyObject *object, uint64_t *number) {
    *number = PyLong_AsUnsignedLongLong(object);
    return *number == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

static PyObject *call_block(PyObject *self, PyObject *object) {
    RecordWriter *writer = opened(self);
    uint64_t number;
    if (!writer || read_number(object, &number) < 0 || block_thread(writer, number) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *call_unblock(PyObject *self, PyObject *object) {
    RecordWriter *writer = opened(self);
    uint64_t number;
    if (!writer || read_number(object, &number) < 0 || unblock_thread(writer, number) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *call_leave(PyObject *self, PyObject *object) {
    RecordWriter *writer = opened(self);
    uint64_t number;
    if (!writer || read_number(object, &number) < 0) {
        return NULL;
    }
    leave_record(writer->ring, number);
    Py_RETURN_NONE;
}

PyMethodDef writer_methods[] = {
    {"open_ring", open_ring, METH_VARARGS, NULL},
    {"open_requests", open_requests, METH_VARARGS, NULL},
    {"begin_collective", (PyCFunction)(void (*)(void))call_begin_collective, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"begin_message", (PyCFunction)(void (*)(void))call_begin_message, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"block", call_block, METH_O, NULL},
    {"unblock", call_unblock, METH_O, NULL},
    {"leave", call_leave, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
