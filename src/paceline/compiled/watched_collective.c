/* WatchedCollective: a collective of mpi4py that is recorded, compared with those of the others, and then made.
 *
 * `places` says where the arguments stand that are read here: the buffer, another one that counts if the first is
 * IN_PLACE, the reduction, and the root; -1 for what the operation has not. Then come the fewest and the most arguments
 * of a plain call. What is not plain is read by `read`, a method of CollectiveReader.
 */

#include "watching.h"

typedef struct {
    int buffer, other_buffer, reduction, root, least, most;
} Places;

typedef struct {
    WatchedCall call; /* its helper is `read` */
    bool has_places, is_rooted;
    Places places;
} WatchedCollective;

static PyTypeObject *watched_collective_type;

static int read_root(MpiArguments *mpi, PyObject *root, int64_t *number) {
    if (read_whole(root, INT64_C(1) << 31, number)) {
        return 0;
    }
    PyObject *found = PyObject_CallFunctionObjArgs(mpi->number_of, root, NULL);
    *number = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(found);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Return 1 if the arguments were plain and are read; 0 if they are not plain. */
static int read_plain(
    WatchedCollective *self, PyObject *args, PyObject *named, const RecordWriter *writer, CollectiveCall *call) {
    MpiArguments *mpi = self->call.mpi;
    const Places *places = &self->places;
    Py_ssize_t num_args = PyTuple_Size(args), num_named = named ? PyDict_Size(named) : 0;
    if (!self->has_places || num_args < places->least || num_args > places->most) {
        return 0;
    }
    if (places->buffer >= 0 && writer->memory_table->num_writing) {
        return 0; /* Python's reader also looks whether a request writes to the buffer */
    }
    PyObject *reduction = NULL, *root = NULL;
    if (places->reduction >= 0) {
        reduction = find_argument(args, named, places->reduction, names.op, &num_named);
    }
    if (places->root >= 0) {
        root = find_argument(args, named, places->root, names.root, &num_named);
        call->root = 0;
    }
    if (num_named != 0) {
        return PyErr_Occurred() ? -1 : 0;
    }
    BufferSize size = {.dtype = 0, .num_bytes = -1, .count = -1};
    if (places->buffer >= 0) {
        PyObject *buffer = PyTuple_GetItem(args, places->buffer);
        if (buffer == mpi->in_place) {
            if (places->other_buffer < 0) {
                return 0;
            }
            buffer = PyTuple_GetItem(args, places->other_buffer);
        }
        if (read_buffer(mpi, buffer, &size) < 0) {
            return -1;
        }
    }
    call->dtype = size.dtype;
    call->num_bytes = size.num_bytes;
    call->count = size.count;
    if (places->reduction >= 0) {
        call->reduction = read_reduction(mpi, reduction ? reduction : Py_None);
        if (call->reduction < 0) {
            return -1;
        }
    }
    return root && read_root(mpi, root, &call->root) < 0 ? -1 : 1;
}

/* Let Python read the arguments: root, reduction, and a size of three numbers. */
static int ask_reader(WatchedCollective *self, PyObject *args, PyObject *named, CollectiveCall *call) {
    PyObject *found = PyObject_Call(self->call.helper, args, named), *root;
    long long reduction, dtype, num_bytes, count;
    if (!found || !PyArg_ParseTuple(found, "OL(LLL)", &root, &reduction, &dtype, &num_bytes, &count)) {
        Py_XDECREF(found);
        return -1;
    }
    call->reduction = reduction;
    call->dtype = dtype;
    call->num_bytes = num_bytes;
    call->count = count;
    int result = self->is_rooted ? read_root(self->call.mpi, root, &call->root) : 0;
    Py_DECREF(found);
    return result;
}

static PyObject *make_recorded(
    WatchedCollective *self, PyObject *args, PyObject *named, PyObject *communicator, RecordWriter *writer) {
    CollectiveCall call = {.operation = self->call.code, .root = NOTHING, .num_bytes = -1, .count = -1};
    int done = read_plain(self, args, named, writer, &call);
    if (done == 0) {
        done = ask_reader(self, args, named, &call);
    }
    if (done < 0) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return NULL;
        }
        PyErr_Clear(); /* wrong arguments: mpi4py says so better */
        return PyObject_Call(self->call.function, args, named);
    }
    BoardMember *member = board_member_of(communicator);
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* the user's, since this function has none */
    if (member && !frame) {
        PyErr_SetString(PyExc_ValueError, "call stack is not deep enough");
    }
    int64_t number = member && frame ? begin_collective(writer, communicator, member, &call, frame) : -1;
    Py_XDECREF((PyObject *)member);
    if (number < 0) {
        return NULL;
    }
    return call_recorded(&self->call, writer, (uint64_t)number, false, args, named);
}

static PyObject *call_collective(PyObject *object, PyObject *args, PyObject *named) {
    WatchedCollective *self = (WatchedCollective *)object;
    PyObject *communicator, *recorder;
    int found = find_communicator(self->call.mpi, args, &communicator, &recorder);
    if (found <= 0) {
        return found < 0 ? NULL : PyObject_Call(self->call.in_python, args, named);
    }
    PyObject *value = make_recorded(self, args, named, communicator, (RecordWriter *)recorder);
    Py_DECREF(communicator);
    Py_DECREF(recorder);
    return value;
}

static PyObject *new_collective(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"mpi", "function", "in_python", "code", "read", "is_rooted", "places", NULL};
    PyObject *mpi, *function, *in_python, *read, *places;
    long long code;
    int is_rooted;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!OOLOpO", keywords, mpi_arguments_type, &mpi, &function, &in_python, &code, &read,
            &is_rooted, &places)) {
        return NULL;
    }
    Places got = {.buffer = -1};
    if (places != Py_None && !PyTuple_Check(places)) {
        PyErr_SetString(PyExc_TypeError, "places are a tuple, or None");
        return NULL;
    }
    if (places != Py_None
        && !PyArg_ParseTuple(
            places, "iiiiii", &got.buffer, &got.other_buffer, &got.reduction, &got.root, &got.least, &got.most)) {
        return NULL;
    }
    if (got.least < 1 && places != Py_None) {
        PyErr_SetString(PyExc_ValueError, "the communicator is an argument of every call");
        return NULL;
    }
    if (places != Py_None && (got.buffer >= got.least || got.other_buffer >= got.least)) {
        PyErr_SetString(PyExc_ValueError, "a buffer is an argument of every call");
        return NULL;
    }
    WatchedCollective *self = (WatchedCollective *)make_mpi_call(type, mpi, function, in_python, code, read);
    if (self) {
        self->has_places = places != Py_None;
        self->is_rooted = is_rooted;
        self->places = got;
    }
    return (PyObject *)self;
}

int add_watched_collective_type(PyObject *module) {
    return add_call_type(
        module, &watched_collective_type, "paceline.compiled.extension.WatchedCollective", sizeof(WatchedCollective),
        new_collective, call_collective);
}
