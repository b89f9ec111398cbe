/* WatchedWait: a wait of mpi4py for one request, or for all of a list, that were posted by messages which are followed.
 * It does what guard/rank/mpi/mpi_requests.py does for these; all others go there. */

#include "watching.h"

#include <stdlib.h>

typedef struct {
    WatchedCall call; /* its helper says what a wait that raised means for its requests */
    bool waits_for_all;
} WatchedWait;

typedef struct {
    PyObject *recorder;
    RecordWriter *writer; /* the recorder */
    Py_ssize_t num;       /* requests that were given */
    PostedFields **posted; /* what is known of each; NULL for one that was complete before */
    uint16_t *numbers;     /* of those that are not */
    Py_ssize_t num_out;
    bool needs_status; /* one receives from anybody */
} Wait;

static PyTypeObject *watched_wait_type;

/* Return 1 if all is known of a request that Python would have to know; 0 if it has to look. */
static int add_request(WatchedWait *self, Wait *wait, PyObject *request) {
    wait->posted[wait->num++] = NULL;
    int is_out = PyObject_IsTrue(request);
    if (is_out <= 0) {
        return is_out < 0 ? -1 : self->waits_for_all;
    }
    PostedFields *posted = find_posted(self->call.mpi->followed, request);
    wait->posted[wait->num - 1] = posted;
    if (!posted) {
        return PyErr_Occurred() ? -1 : 0;
    }
    wait->numbers[wait->num_out++] = (uint16_t)posted->request;
    wait->needs_status |= receives_from_any(posted);
    return posted->recorder == wait->recorder;
}

static int add_requests(WatchedWait *self, Wait *wait, PyObject *requests, Py_ssize_t num) {
    for (Py_ssize_t at = 0; at < num; at++) {
        PyObject *request = PyList_CheckExact(requests) ? PyList_GetItem(requests, at) : PyTuple_GetItem(requests, at);
        int known = request ? add_request(self, wait, request) : -1;
        if (known <= 0) {
            return known;
        }
    }
    return 1;
}

static int begin(WatchedWait *self, Wait *wait, uint64_t *number) {
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    if (!frame) {
        PyErr_SetString(PyExc_ValueError, "call stack is not deep enough");
        return -1;
    }
    int64_t begun = begin_wait(wait->writer, self->call.code, wait->numbers, wait->num_out, 0, frame);
    *number = (uint64_t)begun;
    return begun < 0 ? -1 : block_thread(wait->writer, *number);
}

/* Let Python say what it means that the wait raised, and what is not known now. */
static void fail(WatchedWait *self, Wait *wait, uint64_t number) {
    Raised raised;
    take_raised(&raised);
    PyObject *posted = PyList_New(0);
    for (Py_ssize_t at = 0; posted && at < wait->num; at++) {
        if (wait->posted[at] && PyList_Append(posted, (PyObject *)wait->posted[at]) < 0) {
            Py_CLEAR(posted);
        }
    }
    PyObject *done = posted ? PyObject_CallFunction(
                                  self->call.helper, "OKOO", wait->recorder, (unsigned long long)number, posted,
                                  raised.error)
                            : NULL;
    Py_XDECREF(posted);
    Py_XDECREF(done);
    give_back(&raised);
}

static int complete_all(WatchedWait *self, Wait *wait, PyObject *status) {
    for (Py_ssize_t at = 0; at < wait->num; at++) {
        if (!wait->posted[at]) {
            continue;
        }
        PyObject *own = status ? Py_NewRef(status) : NULL;
        if (status && self->waits_for_all) {
            Py_DECREF(own);
            own = at < PyList_Size(status) ? Py_NewRef(PyList_GetItem(status, at)) : NULL;
        }
        int result = complete_posted(wait->posted[at], wait->writer, own);
        Py_XDECREF(own);
        if (result < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *make_recorded(WatchedWait *self, PyObject *args, Wait *wait, PyObject *status) {
    uint64_t number;
    if (begin(self, wait, &number) < 0) {
        return NULL;
    }
    PyObject *value = PyObject_Call(self->call.function, args, NULL);
    if (!value) {
        fail(self, wait, number);
    } else if (unblock_thread(wait->writer, number) < 0 || complete_all(self, wait, status) < 0) {
        Py_CLEAR(value);
    }
    return value;
}

/* Make the wait with a status, or a list for them, if it has to say who sent a message. */
static PyObject *make_with_status(WatchedWait *self, PyObject *args, Wait *wait) {
    if (!wait->needs_status) {
        return make_recorded(self, args, wait, NULL);
    }
    PyObject *status = self->waits_for_all ? PyList_New(0) : PyObject_CallNoArgs(self->call.mpi->status_type);
    PyObject *given = PyTuple_GetItem(args, 0), *more = NULL;
    if (status) {
        more = self->waits_for_all ? PyTuple_Pack(3, given, PyTuple_GetItem(args, 1), status)
                                   : PyTuple_Pack(2, given, status);
    }
    PyObject *value = more ? make_recorded(self, more, wait, status) : NULL;
    Py_XDECREF(more);
    Py_XDECREF(status);
    return value;
}

/* Return 1 and the requests that a plain call waits for; 0 if Python must look at it. */
static int find_requests(WatchedWait *self, PyObject *args, PyObject *named, PyObject **requests, Py_ssize_t *num) {
    if (PyTuple_Size(args) != (self->waits_for_all ? 2 : 1) || (named && PyDict_Size(named) > 0)) {
        return 0; /* the user wants statuses, which Python hands on */
    }
    *requests = PyTuple_GetItem(args, self->waits_for_all ? 1 : 0);
    if (self->waits_for_all && !PyList_CheckExact(*requests) && !PyTuple_CheckExact(*requests)) {
        return 0;
    }
    *num = self->waits_for_all ? PyObject_Size(*requests) : 1;
    return *num < 0 ? -1 : 1;
}

static PyObject *wait_for(WatchedWait *self, PyObject *args, PyObject *named, Wait *wait) {
    PyObject *requests;
    Py_ssize_t num;
    int known = find_requests(self, args, named, &requests, &num);
    PostedFields *one;
    uint16_t number;
    bool is_one = known > 0 && num == 1;
    if (known > 0) {
        wait->posted = is_one ? &one : calloc((size_t)num + 1, sizeof *wait->posted);
        wait->numbers = is_one ? &number : calloc((size_t)num + 1, sizeof *wait->numbers);
        if (!wait->posted || !wait->numbers) {
            PyErr_NoMemory();
            known = -1;
        } else {
            known = self->waits_for_all ? add_requests(self, wait, requests, num) : add_request(self, wait, requests);
        }
    }
    PyObject *value = NULL;
    if (known > 0) {
        value = make_with_status(self, args, wait);
    } else if (known == 0) {
        value = PyObject_Call(self->call.in_python, args, named);
    }
    for (Py_ssize_t at = 0; at < wait->num; at++) {
        Py_XDECREF((PyObject *)wait->posted[at]);
    }
    if (!is_one) {
        free(wait->posted);
        free(wait->numbers);
    }
    return value;
}

static PyObject *call_wait(PyObject *object, PyObject *args, PyObject *named) {
    WatchedWait *self = (WatchedWait *)object;
    Wait wait = {.num = 0};
    wait.recorder = PyObject_GetAttr(self->call.session, names.recorder);
    if (!wait.recorder) {
        return NULL;
    }
    PyObject *value;
    wait.writer = (RecordWriter *)wait.recorder;
    if (!PyObject_TypeCheck(wait.recorder, record_writer_type) || !wait.writer->ring || !wait.writer->memory_table) {
        value = PyObject_Call(self->call.in_python, args, named);
    } else {
        value = wait_for(self, args, named, &wait);
    }
    Py_DECREF(wait.recorder);
    return value;
}

static PyObject *new_wait(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"mpi", "function", "in_python", "code", "fail", "waits_for_all", NULL};
    PyObject *mpi, *function, *in_python, *fail;
    long long code;
    int waits_for_all;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!OOLOp", keywords, mpi_arguments_type, &mpi, &function, &in_python, &code, &fail,
            &waits_for_all)) {
        return NULL;
    }
    WatchedWait *self = (WatchedWait *)make_mpi_call(type, mpi, function, in_python, code, fail);
    if (self) {
        self->waits_for_all = waits_for_all;
    }
    return (PyObject *)self;
}

int add_watched_wait_type(PyObject *module) {
    return add_call_type(
        module, &watched_wait_type, "paceline.compiled.extension.WatchedWait", sizeof(WatchedWait), new_wait,
        call_wait);
}
