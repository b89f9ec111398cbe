/* ArrayMemory: the memory of an array that a message of mpi4py uses, and a sample of what it holds. It stands for
 * HostMemory of guard/rank/mpi/mpi_memory.py, and has what ActiveBuffers asks of one. */

#include "watching.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *array_memory_type;

enum { SAMPLED_WHOLE = 2048, NUM_SAMPLES = 8, SAMPLE_BYTES = SAMPLED_WHOLE / NUM_SAMPLES };

ArrayMemory *make_array_memory(PyObject *buffer, int64_t num_bytes, bool writes) {
    ArrayMemory *self = PyObject_New(ArrayMemory, array_memory_type);
    if (!self) {
        return NULL;
    }
    self->uses = NULL;
    self->sample = NULL;
    self->held.buf = NULL;
    self->number = 0;
    self->request = 0;
    self->is_told = 0;
    self->writes = writes;
    if (PyObject_GetBuffer(buffer, &self->held, PyBUF_ANY_CONTIGUOUS) < 0) {
        self->held.buf = NULL;
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    if (self->held.len < num_bytes) {
        PyErr_SetString(PyExc_BufferError, "the array is shorter than its size");
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    self->begin = (uint64_t)(uintptr_t)self->held.buf;
    self->end = self->begin + (uint64_t)num_bytes;
    return self;
}

/* Go through the bytes that are sampled: all, or some from places that are evenly spread, the first and the last among
 * them. Either copy them, or say whether they are still the same. */
static bool go_through(const ArrayMemory *self, bool copies) {
    const unsigned char *bytes = self->held.buf;
    uint64_t num = self->end - self->begin;
    bool is_whole = num <= SAMPLED_WHOLE;
    for (uint64_t part = 0; part < (is_whole ? 1 : NUM_SAMPLES); part++) {
        uint64_t start = is_whole ? 0 : (num - SAMPLE_BYTES) * part / (NUM_SAMPLES - 1);
        size_t size = is_whole ? num : SAMPLE_BYTES;
        unsigned char *kept = self->sample + part * SAMPLE_BYTES;
        if (copies) {
            memcpy(kept, bytes + start, size);
        } else if (memcmp(kept, bytes + start, size) != 0) {
            return false;
        }
    }
    return true;
}

int mark_memory(ArrayMemory *self) {
    uint64_t num = self->end - self->begin;
    free(self->sample);
    self->sample = malloc(num < SAMPLED_WHOLE ? num : SAMPLED_WHOLE);
    if (!self->sample) {
        PyErr_NoMemory();
        return -1;
    }
    go_through(self, true);
    return 0;
}

bool memory_has_changed(const ArrayMemory *self) {
    return self->sample && !go_through(self, false);
}

static PyObject *has_changed(PyObject *self, PyObject *nothing) {
    (void)nothing;
    return PyBool_FromLong(memory_has_changed((ArrayMemory *)self));
}

static PyObject *say_no(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    Py_RETURN_FALSE;
}

static PyObject *say_yes(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    Py_RETURN_TRUE;
}

/* The bytes belong to whoever made the array: what it holds is not visited, as numpy's arrays do not take part in the
 * collection of cycles. */
static void release(PyObject *object) {
    ArrayMemory *self = (ArrayMemory *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->held.buf) {
        PyBuffer_Release(&self->held);
    }
    Py_CLEAR(self->uses);
    free(self->sample);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(object);
    Py_DECREF(type);
}

int add_array_memory_type(PyObject *module) {
    static PyMethodDef methods[] = {
        {"has_changed", has_changed, METH_NOARGS, NULL},
        {"was_dropped", say_no, METH_NOARGS, NULL}, /* mpi4py keeps the arrays of messages */
        {"is_dense", say_yes, METH_NOARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyMemberDef members[] = {
        {"begin", T_ULONGLONG, offsetof(ArrayMemory, begin), READONLY, NULL},
        {"end", T_ULONGLONG, offsetof(ArrayMemory, end), READONLY, NULL},
        {"number", T_ULONGLONG, offsetof(ArrayMemory, number), READONLY, NULL},
        {"request", T_INT, offsetof(ArrayMemory, request), READONLY, NULL},
        {"writes", T_BOOL, offsetof(ArrayMemory, writes), READONLY, NULL},
        {"is_told", T_BOOL, offsetof(ArrayMemory, is_told), 0, NULL},
        {"uses", T_OBJECT, offsetof(ArrayMemory, uses), 0, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_methods, methods},
        {Py_tp_members, members},
        {Py_tp_dealloc, (void *)release},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.ArrayMemory",
        .basicsize = sizeof(ArrayMemory),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    if (!array_memory_type) {
        array_memory_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return array_memory_type ? PyModule_AddType(module, array_memory_type) : -1;
}
