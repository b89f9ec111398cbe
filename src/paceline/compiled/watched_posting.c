/* WatchedPosting: a send or receive of mpi4py that returns a request, with arguments as WatchedMessage takes them. It
 * does what guard/rank/mpi/messages/mpi_posted_messages.py does for these; all others go there. */

#include "watching.h"

static PyTypeObject *watched_posting_type;

/* Remember what is known of the request: what it receives, the memory that it uses, and the object that stands for it. */
static int follow(WatchedMessage *self, Message *message, PyObject *made, int request, ArrayMemory *memory) {
    MpiArguments *mpi = self->call.mpi;
    PostedFields *posted = make_posted(mpi->posted_type, message->recorder, request, (int64_t)message->number);
    if (!posted) {
        return -1;
    }
    int result = 0;
    if (!self->sends) {
        posted->communicator = Py_NewRef(message->communicator);
        posted->peer = message->peer;
        posted->tag = message->tag;
        posted->nth = message->nth;
        posted->size = message->size;
        result = expect_message(message, 1);
    }
    if (result == 0 && memory) {
        posted->memory = PyTuple_Pack(1, (PyObject *)memory);
        result = posted->memory ? begin_memory(message->writer, request, memory, mpi->compares) : -1;
    }
    if (result == 0) {
        posted->handle = read_handle(mpi->request_handle, mpi->get_request_handle, made);
        result = posted->handle ? stand_for(posted, made, mpi->followed) : -1;
    }
    Py_DECREF((PyObject *)posted);
    return result;
}

/* Make the call. If it raises, nobody knows what became of the message, and the number of the request is free again. */
static PyObject *post(WatchedMessage *self, PyObject *args, PyObject *named, Message *message, int request) {
    PyObject *made = PyObject_Call(self->call.function, args, named);
    if (!made) {
        Raised raised;
        take_raised(&raised);
        if (tell_failure(&self->call, raised.error, message->number) == 0
            && doubt_message(message->recorder) == 0) {
            free_request(message->writer, request);
        }
        give_back(&raised);
    }
    return made;
}

/* Read the buffer. Return 1, with its memory where that is known; 0 if Python must look at it. */
static int read_memory(WatchedMessage *self, Message *message, BufferSize *size, ArrayMemory **memory) {
    if (read_buffer(self->call.mpi, message->buffer, size) < 0) {
        return PyErr_ExceptionMatches(PyExc_TypeError) ? forget_unreadable() : -1;
    }
    if ((PyObject *)Py_TYPE(message->buffer) != self->call.mpi->array) {
        return 0;
    }
    if (!self->uses_memory || size->num_bytes <= 0) {
        return note_buffer(self->call.mpi, message->writer, message->buffer, size->num_bytes);
    }
    *memory = make_array_memory(message->buffer, size->num_bytes, !self->sends);
    if (!*memory) {
        return forget_unreadable() < 0 ? -1 : 1;
    }
    return note_use(message->writer, (*memory)->begin, (*memory)->end) < 0 ? -1 : 1;
}

static PyObject *make_recorded(
    WatchedMessage *self, PyObject *args, PyObject *named, Message *message, const BufferSize *size,
    ArrayMemory *memory) {
    int request = take_request(message->writer);
    if (request < 0 || begin_watched_message(self, message, size, NONBLOCKING, request) < 0) {
        return NULL;
    }
    PyObject *made = post(self, args, named, message, request);
    if (made
        && (keep_request(message->writer, request, message->number) < 0
            || follow(self, message, made, request, memory) < 0)) {
        Py_CLEAR(made);
    }
    return made;
}

static PyObject *read_and_make(WatchedMessage *self, PyObject *args, PyObject *named, Message *message) {
    BufferSize size = {.dtype = 0, .num_bytes = -1, .count = -1};
    ArrayMemory *memory = NULL;
    int plain = message->writer->memory_table ? read_message(self, args, named, 4, message) : 0;
    if (plain > 0 && self->has_buffer) {
        plain = read_memory(self, message, &size, &memory);
    }
    PyObject *made = NULL;
    if (plain > 0) {
        made = make_recorded(self, args, named, message, &size, memory);
    } else if (plain == 0) {
        made = PyObject_Call(self->call.in_python, args, named);
    }
    Py_XDECREF((PyObject *)memory);
    return made;
}

static PyObject *call_posting(PyObject *object, PyObject *args, PyObject *named) {
    return call_with_message(object, args, named, read_and_make);
}

int add_watched_posting_type(PyObject *module) {
    return add_call_type(
        module, &watched_posting_type, "paceline.compiled.extension.WatchedPosting", sizeof(WatchedMessage),
        new_message, call_posting);
}
