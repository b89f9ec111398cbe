/* The messages of a rank: how many there are by peer and tag, and whether both sides of one fit. It does what
 * guard/rank/channels.py does, with the same counts. */

#include "watching.h"

/* Return the word of the ring that counts these messages; 0 if there is none, or no room for one. */
static int64_t find_channel(Message *message, int direction, bool make) {
    uint64_t key[] = {
        message->member->index << 8 | (uint64_t)direction, (uint64_t)message->peer << 32 | (uint64_t)message->tag};
    int64_t word = find_number(&message->writer->channels, key);
    if (word || !make) {
        return word;
    }
    PyObject *counts = PyObject_GetAttr(message->recorder, names.messages);
    PyObject *found = counts ? PyObject_CallMethod(
                                   counts, "channel", "KiLL", (unsigned long long)message->member->index, direction,
                                   (long long)message->peer, (long long)message->tag)
                             : NULL;
    word = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(counts);
    Py_XDECREF(found);
    if (PyErr_Occurred()) {
        return -1;
    }
    if (word < 0 || word >= RING_BYTES / 8) {
        PyErr_SetString(PyExc_ValueError, "a channel lies outside of the ring");
        return -1;
    }
    if (word && !add_number(&message->writer->channels, key, (uint32_t)word)) {
        PyErr_NoMemory();
        return -1;
    }
    return word;
}

int64_t count_message(Message *message, int direction) {
    int64_t word = find_channel(message, direction, true);
    if (word <= 0) {
        return word;
    }
    uint64_t count = load_word(message->writer->ring + word) + 1;
    store_word(message->writer->ring + word, count);
    return (int64_t)count;
}

/* -------------------------------------------------------------------------------------------- posted receives */

/* Return the table in which Python counts receives that are posted, a new reference. */
static PyObject *expected_of(Message *message) {
    PyObject *expected = PyObject_GetAttr(message->communicator, names.expected);
    if (expected && !PyDict_Check(expected)) {
        PyErr_SetString(PyExc_TypeError, "what a communicator expects is a dict");
        Py_CLEAR(expected);
    }
    return expected;
}

/* The key of this table: expected_key of channels.py. */
static PyObject *expected_key(int64_t peer, int64_t tag) {
    return PyLong_FromLongLong(peer * (INT64_C(1) << 32) + tag);
}

static int64_t get_expected(PyObject *expected, PyObject *key) {
    PyObject *found = key ? PyDict_GetItemWithError(expected, key) : NULL;
    return found ? PyLong_AsLongLong(found) : PyErr_Occurred() ? -1 : 0;
}

int expect_message(Message *message, int change) {
    bool is_any = message->peer == ANY || message->tag == ANY;
    PyObject *key = expected_key(is_any ? ANY : message->peer, is_any ? ANY : message->tag);
    PyObject *expected = expected_of(message);
    int64_t num = key && expected ? get_expected(expected, key) : 0;
    int result = -1;
    if (!PyErr_Occurred() && num + change == 0) {
        result = num ? PyDict_DelItem(expected, key) : 0;
    } else if (!PyErr_Occurred()) {
        PyObject *value = PyLong_FromLongLong(num + change);
        result = value ? PyDict_SetItem(expected, key, value) : -1;
        Py_XDECREF(value);
    }
    Py_XDECREF(key);
    Py_XDECREF(expected);
    return result;
}

/* Return how many receives of this kind are posted; -2 if one from anybody is. */
enum { OF_ANYBODY = -2 };

static int64_t num_expected(Message *message) {
    PyObject *expected = expected_of(message);
    int64_t num = expected ? 0 : -1;
    if (expected && PyDict_Size(expected) > 0) {
        PyObject *key = expected_key(ANY, ANY), *own = expected_key(message->peer, message->tag);
        int64_t of_anybody = get_expected(expected, key);
        num = PyErr_Occurred() ? -1 : of_anybody ? OF_ANYBODY : get_expected(expected, own);
        Py_XDECREF(key);
        Py_XDECREF(own);
    }
    Py_XDECREF(expected);
    return PyErr_Occurred() ? -1 : num;
}

int64_t next_receive(Message *message) {
    if (message->peer < 0 || message->tag < 0) {
        return 0;
    }
    int64_t waiting = num_expected(message);
    if (waiting < 0) {
        return waiting == OF_ANYBODY ? 0 : -1;
    }
    int64_t word = find_channel(message, RECEIVED, false);
    if (word) {
        return (int64_t)load_word(message->writer->ring + word) + waiting + 1;
    }
    PyObject *counts = PyObject_GetAttr(message->recorder, names.messages);
    PyObject *found = counts ? PyObject_CallMethod(
                                   counts, "num", "OiLL", message->communicator, (int)RECEIVED,
                                   (long long)message->peer, (long long)message->tag)
                             : NULL;
    int64_t num = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(counts);
    Py_XDECREF(found);
    return num < 0 ? -1 : num + waiting + 1;
}

/* -------------------------------------------------------------------------------------------- both sides */

static uint64_t key_of(const Message *message, bool sends) {
    int64_t own = message->member->member;
    return message_key(
        sends ? own : message->peer, sends ? message->peer : own, message->tag, (uint64_t)message->nth);
}

static int stop_at(Message *message) {
    return stop_rank(message->recorder, message->communicator, message->number, STOP_MESSAGE, message->peer);
}

int meet_other_side(Message *message, bool sends) {
    int open = message->nth ? open_message_board(message->member, message->recorder, message->communicator) : 0;
    if (open <= 0) {
        return open;
    }
    bool differs = meet_message(message->member->message_memory.buf, key_of(message, sends), message->size, sends);
    return differs ? stop_at(message) : 0;
}

static int read_number(PyObject *status, PyObject *method, int64_t *number) {
    PyObject *value = PyObject_CallMethodObjArgs(status, method, NULL);
    *number = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

int read_status(Message *message, PyObject *status) {
    return read_number(status, names.Get_source, &message->peer) < 0
            || read_number(status, names.Get_tag, &message->tag) < 0
        ? -1
        : 0;
}

int check_received(Message *message) {
    bool is_numbered = message->nth && message->peer >= 0 && message->peer < message->member->num_members;
    int open = is_numbered ? open_message_board(message->member, message->recorder, message->communicator) : 0;
    if (open <= 0) {
        return open;
    }
    bool differs = sent_differs(message->member->message_memory.buf, key_of(message, false), message->size);
    return differs && is_in_ring(message->writer->ring, message->number) ? stop_at(message) : 0;
}
