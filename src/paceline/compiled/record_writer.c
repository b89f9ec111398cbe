/* RecordWriter: the calls of this rank, written to its ring. It does what the methods of the same names do in
 * guard/rank/call_recorder.py, and writes the same bytes in the same order. */

#include "watching.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *record_writer_type;

/* -------------------------------------------------------------------------------------------- threads */

static int64_t thread_word(RecordWriter *writer) {
    unsigned long thread = PyThread_get_thread_ident();
    if (!writer->thread_key || writer->thread != thread) {
        PyObject *key = PyLong_FromUnsignedLong(thread);
        if (!key) {
            return -1;
        }
        PyObject *before = writer->thread_key;
        writer->thread_key = key;
        writer->thread = thread;
        Py_XDECREF(before);
    }
    PyObject *slot = PyDict_GetItemWithError(writer->slots, writer->thread_key);
    if (!slot && PyErr_Occurred()) {
        return -1;
    }
    slot = slot ? Py_NewRef(slot) : PyObject_CallNoArgs(writer->take_free_slot);
    int64_t word = slot ? PyLong_AsLongLong(slot) : -1;
    Py_XDECREF(slot);
    if (!PyErr_Occurred() && (word < 0 || word >= RING_BYTES / 8)) {
        PyErr_SetString(PyExc_ValueError, "the slot of a thread lies outside of the ring");
    }
    return PyErr_Occurred() ? -1 : word;
}

int block_thread(RecordWriter *writer, uint64_t number) {
    int64_t word = thread_word(writer);
    if (word < 0) {
        return -1;
    }
    store_word(writer->ring + word, number + 1);
    writer->blocked_number = number + 1;
    writer->blocked_word = word;
    return 0;
}

/* A thread keeps its slot while it is in a call, so it need not be looked up again unless another has blocked since. */
int unblock_thread(RecordWriter *writer, uint64_t number) {
    leave_record(writer->ring, number);
    int64_t word = writer->blocked_number == number + 1 ? writer->blocked_word : thread_word(writer);
    if (word < 0) {
        return -1;
    }
    store_word(writer->ring + word, 0);
    return 0;
}

/* -------------------------------------------------------------------------------------------- records */

static bool fits(int64_t number, int64_t least, int64_t most) {
    if (number < least || number > most) {
        PyErr_Format(PyExc_OverflowError, "a record has no room for %lld", (long long)number);
        return false;
    }
    return true;
}

int stop_rank(PyObject *recorder, PyObject *communicator, uint64_t number, int reason, int64_t member) {
    PyObject *ranks = PyObject_GetAttr(communicator, names.ranks);
    PyObject *rank = ranks ? PySequence_GetItem(ranks, (Py_ssize_t)member) : NULL;
    PyObject *done =
        rank ? PyObject_CallMethod(recorder, "stop", "KiO", (unsigned long long)number, reason, rank) : NULL;
    Py_XDECREF(ranks);
    Py_XDECREF(rank);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Number a record and count it at its site; no exception can come between the two. */
static int number_record(RecordWriter *writer, Record *record, PyObject *frame) {
    int64_t site = site_of(writer, frame);
    record->at_site = site < 0 ? 0 : count_at_site(writer, site);
    if (!record->at_site) {
        return -1;
    }
    record->site = (uint32_t)site;
    record->number = ++writer->num_records;
    return 0;
}

int64_t begin_collective(
    RecordWriter *writer, PyObject *communicator, BoardMember *member, const CollectiveCall *call, PyObject *frame) {
    if (!fits(call->operation, 0, UINT16_MAX) || !fits(call->root, INT32_MIN, INT32_MAX)
        || !fits(call->reduction, 0, UINT16_MAX) || !fits(call->dtype, 0, UINT16_MAX)
        || !fits(call->flags, 0, UINT16_MAX) || !fits(call->request, 0, UINT16_MAX)) {
        return -1;
    }
    Record record = {
        .num_bytes = call->num_bytes,
        .count = call->count,
        .members_hash = call->members_hash,
        .root = (int32_t)call->root,
        .communicator = (uint16_t)member->index,
        .operation = (uint16_t)call->operation,
        .dtype = (uint16_t)call->dtype,
        .reduction = (uint16_t)call->reduction,
        .flags = (uint16_t)call->flags,
        .request = (uint16_t)call->request,
    };
    if (number_record(writer, &record, frame) < 0) {
        return -1;
    }
    uint64_t number = record.number - 1, sequence = ++member->sequence;
    record.sequence = (int64_t)sequence;
    write_record(writer->ring, &record, false);
    store_word(writer->ring + COMMS_AT + member->index, sequence);
    if (member->board.calls) {
        /* a call that makes a communicator moves no data: its members are compared where others have a size */
        uint64_t size = pack_size(record.dtype, call->members_hash ? call->members_hash : call->num_bytes);
        uint64_t packed = pack_call(record.operation, call->root, record.reduction);
        int64_t other = meet_members(&member->board, sequence, packed, size);
        if (other >= 0 && stop_rank((PyObject *)writer, communicator, number, STOP_COLLECTIVE, other) < 0) {
            return -1;
        }
    }
    if (!(record.flags & NONBLOCKING) && block_thread(writer, number) < 0) {
        return -1;
    }
    return (int64_t)number;
}

static void set_halves(uint32_t *halves, int64_t number) {
    halves[0] = (uint32_t)((uint64_t)number & UINT32_MAX);
    halves[1] = (uint32_t)((uint64_t)number >> 32);
}

int64_t begin_message(RecordWriter *writer, const MessageCall *call, PyObject *frame) {
    const int64_t halves[] = {call->peer, call->tag, call->source, call->source_tag, call->num_requests};
    const int64_t quarters[] = {call->communicator, call->operation, call->dtype, call->flags, call->request};
    for (int at = 0; at < 5; at++) {
        if (!fits(halves[at], INT32_MIN, INT32_MAX) || !fits(quarters[at], 0, UINT16_MAX)) {
            return -1;
        }
    }
    if (!fits(call->source_dtype, 0, UINT32_MAX)) {
        return -1;
    }
    Record record = {
        .num_bytes = call->num_bytes,
        .count = call->count,
        .members_hash = call->members_hash,
        .root = NOTHING,
        .communicator = (uint16_t)call->communicator,
        .operation = (uint16_t)call->operation,
        .dtype = (uint16_t)call->dtype,
        .flags = (uint16_t)call->flags,
        .request = (uint16_t)call->request,
        .peer = (int32_t)call->peer,
        .tag = (int32_t)call->tag,
        .source = (int32_t)call->source,
        .source_tag = (int32_t)call->source_tag,
        .num_requests = (int32_t)call->num_requests,
        .source_dtype = (uint32_t)call->source_dtype,
    };
    set_halves(record.message_number, call->message_number);
    set_halves(record.source_number, call->source_number);
    set_halves(record.source_bytes, call->source_bytes);
    if (number_record(writer, &record, frame) < 0) {
        return -1;
    }
    write_record(writer->ring, &record, true);
    return (int64_t)record.number - 1;
}

int64_t begin_wait(
    RecordWriter *writer, int64_t operation, const uint16_t *requests, Py_ssize_t num, int64_t flags, PyObject *frame) {
    int64_t word = thread_word(writer);
    if (word < THREADS_AT || word + 2 >= WAITED_AT / 8) {
        if (word >= 0) {
            PyErr_SetString(PyExc_ValueError, "the slot of a thread lies outside of the ring");
        }
        return -1;
    }
    size_t num_listed = (size_t)(num < MAX_WAITED ? num : MAX_WAITED);
    int64_t slot = (word - THREADS_AT) / THREAD_WORDS;
    memcpy((char *)writer->ring + WAITED_AT + slot * MAX_WAITED * 2, requests, 2 * num_listed);
    store_word(writer->ring + word + 2, num_listed);
    MessageCall call = {
        .communicator = MAX_COMMS,
        .operation = operation,
        .peer = NOTHING,
        .tag = NOTHING,
        .num_bytes = -1,
        .count = -1,
        .flags = flags,
        .request = num_listed ? requests[0] : 0,
        .num_requests = num <= MAX_WAITED ? num : -1,
        .source = NOTHING,
        .source_tag = NOTHING,
        .source_bytes = -1,
    };
    return begin_message(writer, &call, frame);
}

/* -------------------------------------------------------------------------------------------- memory */

PyObject *open_ring(PyObject *self, PyObject *args) {
    RecordWriter *writer = (RecordWriter *)self;
    PyObject *memory, *slots, *take_free_slot, *sites;
    if (!PyArg_ParseTuple(args, "OO!OO", &memory, &PyDict_Type, &slots, &take_free_slot, &sites)) {
        return NULL;
    }
    if (writer->ring) {
        PyErr_SetString(PyExc_ValueError, "the ring is open");
        return NULL;
    }
    if (PyObject_GetBuffer(memory, &writer->memory, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) {
        return NULL;
    }
    if (writer->memory.len != RING_BYTES || (uintptr_t)writer->memory.buf % 8 != 0) {
        PyBuffer_Release(&writer->memory);
        PyErr_SetString(PyExc_ValueError, "the ring has another size");
        return NULL;
    }
    writer->ring = writer->memory.buf;
    writer->slots = Py_NewRef(slots);
    writer->take_free_slot = Py_NewRef(take_free_slot);
    writer->sites = Py_NewRef(sites);
    writer->direct_sites.width = DIRECT_KEY;
    writer->library_sites.width = LIBRARY_KEY;
    writer->codes.width = 1;
    writer->channels.width = 2;
    Py_RETURN_NONE;
}

PyObject *open_requests(PyObject *self, PyObject *args) {
    RecordWriter *writer = (RecordWriter *)self;
    PyObject *requests, *free_requests, *remarks, *dropped, *buffers, *gone, *on_writing, *table;
    if (!PyArg_ParseTuple(
            args, "OO!OOOOOO!", &requests, &PyList_Type, &free_requests, &remarks, &dropped, &buffers, &gone,
            &on_writing, memory_table_type, &table)) {
        return NULL;
    }
    if (!writer->ring || writer->memory_table) {
        PyErr_SetString(PyExc_ValueError, "the ring comes first, and requests once");
        return NULL;
    }
    writer->requests = Py_NewRef(requests);
    writer->free_requests = Py_NewRef(free_requests);
    writer->remarks = Py_NewRef(remarks);
    writer->dropped = Py_NewRef(dropped);
    writer->buffers = Py_NewRef(buffers);
    writer->gone = Py_NewRef(gone);
    writer->on_writing = Py_NewRef(on_writing);
    writer->memory_table = (MemoryTable *)Py_NewRef(table);
    Py_RETURN_NONE;
}

static int visit_writer(PyObject *self, visitproc visit, void *arg) {
    RecordWriter *writer = (RecordWriter *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(writer->slots);
    Py_VISIT(writer->take_free_slot);
    Py_VISIT(writer->sites);
    Py_VISIT(writer->requests);
    Py_VISIT(writer->free_requests);
    Py_VISIT(writer->remarks);
    Py_VISIT(writer->dropped);
    Py_VISIT(writer->buffers);
    Py_VISIT(writer->gone);
    Py_VISIT(writer->on_writing);
    Py_VISIT((PyObject *)writer->memory_table);
    return 0;
}

static int clear_writer(PyObject *self) {
    RecordWriter *writer = (RecordWriter *)self;
    if (writer->ring) { /* so that nothing is written any more */
        writer->ring = NULL;
        PyBuffer_Release(&writer->memory);
    }
    Py_CLEAR(writer->slots);
    Py_CLEAR(writer->take_free_slot);
    Py_CLEAR(writer->sites);
    Py_CLEAR(writer->thread_key);
    Py_CLEAR(writer->requests);
    Py_CLEAR(writer->free_requests);
    Py_CLEAR(writer->remarks);
    Py_CLEAR(writer->dropped);
    Py_CLEAR(writer->buffers);
    Py_CLEAR(writer->gone);
    Py_CLEAR(writer->on_writing);
    PyObject *table = (PyObject *)writer->memory_table;
    writer->memory_table = NULL; /* so that no call is plain any more */
    Py_XDECREF(table);
    return 0;
}

static void free_writer(PyObject *self) {
    RecordWriter *writer = (RecordWriter *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear_writer(self);
    free(writer->site_counts);
    NumberTable *tables[] = {&writer->direct_sites, &writer->library_sites, &writer->codes, &writer->channels};
    for (size_t at = 0; at < sizeof tables / sizeof *tables; at++) {
        free_numbers(tables[at]);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* -------------------------------------------------------------------------------------------- the type */

int add_record_writer_type(PyObject *module) {
    PyType_Slot slots[] = {
        {Py_tp_methods, writer_methods},
        {Py_tp_traverse, (void *)visit_writer},
        {Py_tp_clear, (void *)clear_writer},
        {Py_tp_dealloc, (void *)free_writer},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.RecordWriter",
        .basicsize = sizeof(RecordWriter),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    if (!record_writer_type) {
        record_writer_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return record_writer_type ? PyModule_AddType(module, record_writer_type) : -1;
}
