/* WatchedMessage: a blocking send or receive of mpi4py, whose peer and tag are plain numbers or mean any. It does what
 * guard/rank/mpi/messages/mpi_messages.py does for these; all others go there. */

#include "watching.h"

static PyTypeObject *watched_message_type;
static const int64_t most = INT64_C(1) << 31;

/* -------------------------------------------------------------------------------------------- what posted ones share */

/* Read a peer or a tag, below a limit; 0 if it is not plain. Without one a receive takes any, and a send has 0. */
static int read_place(WatchedMessage *self, PyObject *value, PyObject *any, int64_t limit, int64_t *number) {
    if (!value) {
        *number = self->sends ? 0 : ANY;
        return 1;
    }
    if (read_whole(value, limit, number)) {
        return 1;
    }
    if (self->sends || !PyLong_CheckExact(value) || PyObject_RichCompareBool(value, any, Py_EQ) != 1) {
        return 0;
    }
    *number = ANY;
    return 1;
}

int read_message(WatchedMessage *self, PyObject *args, PyObject *named, int most_args, Message *message) {
    MpiArguments *mpi = self->call.mpi;
    Py_ssize_t num_args = PyTuple_Size(args), num_named = named ? PyDict_Size(named) : 0;
    if (num_args < self->least || num_args > most_args) {
        return 0;
    }
    PyObject *peer = find_argument(args, named, 2, self->sends ? names.dest : names.source, &num_named);
    PyObject *tag = find_argument(args, named, 3, names.tag, &num_named);
    message->status = most_args > 4 ? find_argument(args, named, 4, names.status, &num_named) : NULL;
    if (PyErr_Occurred()) {
        return -1;
    }
    message->peer_given = peer ? peer : mpi->any_source;
    message->tag_given = tag ? tag : mpi->any_tag;
    message->buffer = num_args > 1 ? PyTuple_GetItem(args, 1) : Py_None;
    return (peer || !self->sends) && num_named == 0
        && read_place(self, peer, mpi->any_source, message->member->num_members, &message->peer)
        && read_place(self, tag, mpi->any_tag, most, &message->tag);
}

int begin_watched_message(WatchedMessage *self, Message *message, const BufferSize *size, int flags, int request) {
    int64_t nth = self->sends ? count_message(message, SENT) : next_receive(message);
    PyObject *frame = nth < 0 ? NULL : (PyObject *)PyEval_GetFrame(); /* the user's, since this function has none */
    if (!frame) {
        if (nth >= 0) {
            PyErr_SetString(PyExc_ValueError, "call stack is not deep enough");
        }
        return -1;
    }
    message->nth = nth;
    message->size = pack_size((uint64_t)size->dtype, size->num_bytes);
    MessageCall call = {
        .communicator = (int64_t)message->member->index,
        .operation = self->call.code,
        .peer = message->peer,
        .tag = message->tag,
        .message_number = nth,
        .dtype = size->dtype,
        .num_bytes = size->num_bytes,
        .count = size->count,
        .flags = flags,
        .request = request,
        .num_requests = -1,
        .source = NOTHING,
        .source_tag = NOTHING,
        .source_bytes = -1,
    };
    int64_t number = begin_message(message->writer, &call, frame);
    message->number = (uint64_t)number;
    return number < 0 ? -1 : meet_other_side(message, self->sends);
}

PyObject *call_with_message(
    PyObject *object, PyObject *args, PyObject *named,
    PyObject *(*follow)(WatchedMessage *, PyObject *, PyObject *, Message *)) {
    WatchedMessage *self = (WatchedMessage *)object;
    Message message = {.peer = 0};
    int found = find_communicator(self->call.mpi, args, &message.communicator, &message.recorder);
    if (found <= 0) {
        return found < 0 ? NULL : PyObject_Call(self->call.in_python, args, named);
    }
    message.writer = (RecordWriter *)message.recorder;
    message.member = board_member_of(message.communicator);
    PyObject *value = message.member ? follow(self, args, named, &message) : NULL;
    Py_XDECREF((PyObject *)message.member);
    Py_DECREF(message.communicator);
    Py_DECREF(message.recorder);
    return value;
}

PyObject *new_message(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"mpi",   "function",   "in_python",   "code", "helper",
                               "sends", "has_buffer", "uses_memory", NULL};
    PyObject *mpi, *function, *in_python, *helper;
    long long code;
    int sends, has_buffer, uses_memory;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!OOLOppp", keywords, mpi_arguments_type, &mpi, &function, &in_python, &code, &helper,
            &sends, &has_buffer, &uses_memory)) {
        return NULL;
    }
    WatchedMessage *self = (WatchedMessage *)make_mpi_call(type, mpi, function, in_python, code, helper);
    if (self) {
        self->sends = sends;
        self->has_buffer = has_buffer;
        self->uses_memory = uses_memory && has_buffer;
        self->least = sends || has_buffer ? 2 : 1; /* the communicator, and what is sent or received into */
    }
    return (PyObject *)self;
}

/* -------------------------------------------------------------------------------------------- those that block */

/* Count a message that was received, and compare it with what was sent. */
static int take(Message *message, PyObject *status) {
    if (message->peer == ANY || message->tag == ANY) {
        int64_t nth = read_status(message, status) < 0 ? -1 : next_receive(message);
        if (nth < 0) {
            return -1;
        }
        message->nth = nth;
    }
    return count_message(message, RECEIVED) < 0 ? -1 : check_received(message);
}

/* Let Python compare a receive that raised, and may say more than that. */
static void check_failed(WatchedMessage *self, Message *message, PyObject *status) {
    Raised raised;
    take_raised(&raised);
    PyObject *done = PyObject_CallFunction(
        self->call.helper, "OOKLLLKO", message->recorder, message->communicator, (unsigned long long)message->number,
        (long long)message->peer, (long long)message->tag, (long long)message->nth, (unsigned long long)message->size,
        status ? status : Py_None);
    Py_XDECREF(done);
    give_back(&raised);
}

/* Make the call and, if it receives, say what came. */
static PyObject *finish(WatchedMessage *self, PyObject *args, PyObject *named, Message *message, PyObject *status) {
    PyObject *value = call_recorded(&self->call, message->writer, message->number, true, args, named);
    if (!self->sends && !value) {
        check_failed(self, message, status);
    } else if (!self->sends && take(message, status) < 0) {
        Py_CLEAR(value);
    }
    return value;
}

/* The same with a status of our own, which says who sent the message. */
static PyObject *finish_from_anybody(WatchedMessage *self, PyObject *communicator, Message *message) {
    PyObject *status = PyObject_CallNoArgs(self->call.mpi->status_type);
    PyObject *args =
        status ? PyTuple_Pack(5, communicator, message->buffer, message->peer_given, message->tag_given, status) : NULL;
    PyObject *value = args ? finish(self, args, NULL, message, status) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(status);
    return value;
}

static PyObject *make_recorded(WatchedMessage *self, PyObject *args, PyObject *named, Message *message) {
    BufferSize size = {.dtype = 0, .num_bytes = -1, .count = -1};
    int plain = read_message(self, args, named, self->sends ? 4 : 5, message);
    if (plain > 0 && self->has_buffer) {
        if (read_buffer(self->call.mpi, message->buffer, &size) < 0) {
            if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
                return NULL;
            }
            PyErr_Clear(); /* wrong arguments: mpi4py says so better */
            return PyObject_Call(self->call.function, args, named);
        }
        plain = note_buffer(self->call.mpi, message->writer, message->buffer, size.num_bytes);
    }
    if (plain <= 0) {
        return plain < 0 ? NULL : PyObject_Call(self->call.in_python, args, named);
    }
    if (begin_watched_message(self, message, &size, 0, 0) < 0 || block_thread(message->writer, message->number) < 0) {
        return NULL;
    }
    bool needs_status = !self->sends && (message->peer == ANY || message->tag == ANY);
    if (needs_status && (!message->status || message->status == Py_None)) {
        return finish_from_anybody(self, PyTuple_GetItem(args, 0), message);
    }
    return finish(self, args, named, message, message->status);
}

static PyObject *call_message(PyObject *object, PyObject *args, PyObject *named) {
    return call_with_message(object, args, named, make_recorded);
}

int add_watched_message_type(PyObject *module) {
    return add_call_type(
        module, &watched_message_type, "paceline.compiled.extension.WatchedMessage", sizeof(WatchedMessage),
        new_message, call_message);
}
