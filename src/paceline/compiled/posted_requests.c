/* What a rank keeps of the requests that it has posted: numbers, records that are kept aside, and the memory in use. It
 * does what RequestSlots, ActiveBuffers and PostedRequest do in Python. */

#include "watching.h"

/* -------------------------------------------------------------------------------------------- numbers */

int take_request(RecordWriter *writer) {
    Py_ssize_t num = PyList_Size(writer->free_requests);
    PyObject *taken;
    if (num > 0) {
        taken = Py_NewRef(PyList_GetItem(writer->free_requests, num - 1));
        if (PyList_SetSlice(writer->free_requests, num - 1, num, NULL) < 0) {
            Py_CLEAR(taken);
        }
    } else {
        taken = PyObject_CallMethod(writer->requests, "take", NULL); /* it says that there is no room */
    }
    long request = taken ? PyLong_AsLong(taken) : -1;
    Py_XDECREF(taken);
    if (!PyErr_Occurred() && (request < 0 || request >= MAX_REQUESTS)) {
        PyErr_SetString(PyExc_ValueError, "a request lies outside of the ring");
    }
    return PyErr_Occurred() ? -1 : (int)request;
}

int free_request(RecordWriter *writer, int request) {
    if (!request) {
        return 0;
    }
    clear_kept_record(writer->ring, (uint64_t)request);
    PyObject *number = PyLong_FromLong(request);
    int result = number ? PyList_Append(writer->free_requests, number) : -1;
    Py_XDECREF(number);
    return result;
}

int keep_request(RecordWriter *writer, int request, uint64_t number) {
    leave_record(writer->ring, number);
    Py_ssize_t num_dropped = PyObject_Size(writer->dropped);
    if (num_dropped > 0) {
        PyObject *done = PyObject_CallMethod(writer->remarks, "say_dropped", NULL);
        Py_XDECREF(done);
        num_dropped = done ? 0 : -1;
    }
    if (num_dropped < 0) {
        return -1;
    }
    if (request) {
        keep_record(writer->ring, (uint64_t)request, number);
    }
    return 0;
}

/* -------------------------------------------------------------------------------------------- memory */

static int ask_buffers(RecordWriter *writer, PyObject *method, PyObject *argument) {
    PyObject *done = PyObject_CallMethodObjArgs(writer->buffers, method, argument, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Tell whoever wants to know that the first request writes, or that the last one is over. */
static int tell_writing(RecordWriter *writer, bool on) {
    Py_ssize_t num = PyObject_Size(writer->on_writing);
    return num == 0 ? 0 : num < 0 ? -1 : ask_buffers(writer, names.tell_writing, on ? Py_True : Py_False);
}

int begin_memory(RecordWriter *writer, int request, ArrayMemory *memory, bool compares) {
    Py_ssize_t num_gone = PyObject_Size(writer->gone);
    if (num_gone < 0 || (num_gone > 0 && ask_buffers(writer, names.take_out_gone, NULL) < 0)) {
        return -1;
    }
    memory->request = request;
    MemoryTable *table = writer->memory_table;
    if (has_conflict(table, memory->begin, memory->end, memory->writes)
        && ask_buffers(writer, names.say_overlap, (PyObject *)memory) < 0) {
        return -1;
    }
    if (compares && !memory->writes && mark_memory(memory) < 0) {
        return -1;
    }
    int64_t number = add_memory(table, (PyObject *)memory, memory->begin, memory->end, memory->writes);
    memory->number = (uint64_t)number;
    if (number < 0) {
        return -1;
    }
    return memory->writes && table->num_writing == 1 ? tell_writing(writer, true) : 0;
}

static int end_memory(RecordWriter *writer, ArrayMemory *memory) {
    MemoryTable *table = writer->memory_table;
    if (!remove_memory(table, (PyObject *)memory, memory->begin, memory->number)) {
        return 0;
    }
    if (memory->writes && table->num_writing == 0 && tell_writing(writer, false) < 0) {
        return -1;
    }
    bool is_used = memory->uses && memory->uses != Py_None;
    return is_used || (!memory->is_told && memory_has_changed(memory))
        ? ask_buffers(writer, names.say_uses, (PyObject *)memory)
        : 0;
}

int note_buffer(MpiArguments *mpi, RecordWriter *writer, PyObject *buffer, int64_t num_bytes) {
    if (writer->memory_table->num_writing == 0 || num_bytes <= 0) {
        return 1;
    }
    if ((PyObject *)Py_TYPE(buffer) != mpi->array) {
        return 0;
    }
    Py_buffer held;
    if (PyObject_GetBuffer(buffer, &held, PyBUF_ANY_CONTIGUOUS) < 0) {
        return forget_unreadable() < 0 ? -1 : 1;
    }
    uint64_t begin = (uint64_t)(uintptr_t)held.buf;
    PyBuffer_Release(&held);
    return note_use(writer, begin, begin + (uint64_t)num_bytes) < 0 ? -1 : 1;
}

int note_use(RecordWriter *writer, uint64_t begin, uint64_t end) {
    if (writer->memory_table->num_writing == 0 || !has_conflict(writer->memory_table, begin, end, false)) {
        return 0;
    }
    PyObject *done = PyObject_CallMethod(
        writer->buffers, "note_use", "KK", (unsigned long long)begin, (unsigned long long)(end - begin));
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int forget_unreadable(void) {
    PyObject *kinds[] = {PyExc_TypeError, PyExc_ValueError, PyExc_BufferError, PyExc_AttributeError,
                         PyExc_ArithmeticError};
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        if (PyErr_ExceptionMatches(kinds[at])) {
            PyErr_Clear();
            return 0;
        }
    }
    return -1;
}

/* -------------------------------------------------------------------------------------------- completion */

/* Count what a receive has taken: PostedRequest._count_received. */
static int count_received(PostedFields *posted, RecordWriter *writer, PyObject *status) {
    Message message = {
        .communicator = posted->communicator,
        .recorder = (PyObject *)writer,
        .writer = writer,
        .peer = posted->peer,
        .tag = posted->tag,
        .nth = posted->nth,
        .size = posted->size,
        .number = (uint64_t)posted->record,
    };
    message.member = board_member_of(posted->communicator);
    if (!message.member) {
        return -1;
    }
    int result = expect_message(&message, -1);
    if (result == 0 && status && receives_from_any(posted)) {
        result = read_status(&message, status);
    }
    if (result == 0 && message.peer >= 0 && message.tag >= 0) {
        result = count_message(&message, RECEIVED) < 0 ? -1 : 0;
    }
    if (result == 0) {
        result = check_received(&message);
    }
    Py_DECREF((PyObject *)message.member);
    return result;
}

bool receives_from_any(const PostedFields *posted) {
    return posted->communicator && (posted->peer == ANY || posted->tag == ANY);
}

/* Say whether a class derived from PostedRequest has a completion of its own: PostedRequest derives from our type. */
static bool completes_in_python(const PostedFields *posted) {
    PyTypeObject *type = Py_TYPE((PyObject *)posted);
    return type != posted_fields_type && PyType_GetSlot(type, Py_tp_base) != (void *)posted_fields_type;
}

int complete_posted(PostedFields *posted, RecordWriter *writer, PyObject *status) {
    PyObject *memory = posted->memory;
    PyObject *used = memory && PyTuple_Size(memory) == 1 ? PyTuple_GetItem(memory, 0) : NULL;
    if ((memory && (!used || Py_TYPE(used) != array_memory_type)) || (posted->on_start && posted->on_start != Py_None) ||
        completes_in_python(posted)) {
        PyObject *done =
            PyObject_CallMethodObjArgs((PyObject *)posted, names.complete, status ? status : Py_None, NULL);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    posted->is_active = 0;
    int result = 0;
    if (memory) {
        posted->memory = NULL;
        result = end_memory(writer, (ArrayMemory *)used);
        Py_DECREF(memory);
    }
    if (result == 0 && posted->communicator) {
        result = count_received(posted, writer, status);
    }
    if (result == 0) {
        result = free_request(writer, posted->request);
        posted->request = 0;
    }
    return result;
}
