/* MemoryTable: the memory that requests use, sorted by where it begins. It does what the class of the same name does in
 * guard/rank/remarks/memory_table.py. */

#include "watching.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *memory_table_type;

enum { FIRST_CAPACITY = 16 };

/* Return the first place whose memory does not begin before an address. */
static size_t place_of(const MemoryTable *table, uint64_t address) {
    size_t low = 0, high = table->size;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].begin < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool grow(MemoryTable *table) {
    size_t capacity = table->capacity ? 2 * table->capacity : FIRST_CAPACITY;
    MemoryEntry *entries = realloc(table->entries, capacity * sizeof *entries);
    if (!entries) {
        PyErr_NoMemory();
        return false;
    }
    table->entries = entries;
    table->capacity = capacity;
    return true;
}

int64_t add_memory(MemoryTable *table, PyObject *memory, uint64_t begin, uint64_t end, bool writes) {
    if (table->size == table->capacity && !grow(table)) {
        return -1;
    }
    uint64_t number = ++table->last_number;
    size_t place = place_of(table, begin);
    while (place < table->size && table->entries[place].begin == begin) {
        place++; /* those that begin at one address stand in the order in which they came */
    }
    memmove(table->entries + place + 1, table->entries + place, (table->size - place) * sizeof *table->entries);
    table->entries[place] = (MemoryEntry){
        .begin = begin, .end = end, .number = number, .memory = Py_NewRef(memory), .writes = writes};
    table->size++;
    table->num_writing += writes;
    if (end > begin && end - begin > table->longest) {
        table->longest = end - begin;
    }
    return (int64_t)number;
}

bool remove_memory(MemoryTable *table, PyObject *memory, uint64_t begin, uint64_t number) {
    size_t place = place_of(table, begin);
    while (place < table->size && table->entries[place].begin == begin && table->entries[place].number != number) {
        place++;
    }
    if (place == table->size || table->entries[place].memory != memory || table->entries[place].number != number) {
        return false;
    }
    table->num_writing -= table->entries[place].writes;
    table->size--;
    memmove(table->entries + place, table->entries + place + 1, (table->size - place) * sizeof *table->entries);
    if (!table->size) {
        table->longest = 0;
    }
    Py_DECREF(memory); /* last, since it may run code of others */
    return true;
}

/* Return the first entry from a place on that shares a byte with this memory; the number of entries if there is none. */
static size_t next_overlap(const MemoryTable *table, size_t place, uint64_t begin, uint64_t end) {
    while (place < table->size && table->entries[place].begin < end && table->entries[place].end <= begin) {
        place++;
    }
    return place < table->size && table->entries[place].begin < end ? place : table->size;
}

static size_t first_overlap(const MemoryTable *table, uint64_t begin, uint64_t end) {
    size_t place = place_of(table, begin > table->longest ? begin - table->longest : 0);
    return next_overlap(table, place, begin, end);
}

bool has_conflict(const MemoryTable *table, uint64_t begin, uint64_t end, bool writes) {
    size_t place = first_overlap(table, begin, end);
    while (place < table->size && !writes && !table->entries[place].writes) {
        place = next_overlap(table, place + 1, begin, end);
    }
    return place < table->size;
}

/* -------------------------------------------------------------------------------------------- as Python calls it */

static PyObject *add(PyObject *self, PyObject *args) {
    PyObject *memory;
    unsigned long long begin, end;
    int writes;
    if (!PyArg_ParseTuple(args, "OKKp", &memory, &begin, &end, &writes)) {
        return NULL;
    }
    int64_t number = add_memory((MemoryTable *)self, memory, begin, end, writes);
    return number < 0 ? NULL : PyLong_FromLongLong(number);
}

static PyObject *take_out(PyObject *self, PyObject *args) {
    PyObject *memory;
    unsigned long long begin, number;
    if (!PyArg_ParseTuple(args, "OKK", &memory, &begin, &number)) {
        return NULL;
    }
    return PyBool_FromLong(remove_memory((MemoryTable *)self, memory, begin, number));
}

static PyObject *overlapping(PyObject *self, PyObject *args) {
    MemoryTable *table = (MemoryTable *)self;
    unsigned long long begin, end;
    PyObject *found = PyArg_ParseTuple(args, "KK", &begin, &end) ? PyList_New(0) : NULL;
    for (size_t place = found ? first_overlap(table, begin, end) : table->size; place < table->size;
         place = next_overlap(table, place + 1, begin, end)) {
        if (PyList_Append(found, table->entries[place].memory) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

static Py_ssize_t length(PyObject *self) {
    return (Py_ssize_t)((MemoryTable *)self)->size;
}

/* -------------------------------------------------------------------------------------------- the type */

static int visit(PyObject *self, visitproc visit, void *arg) {
    MemoryTable *table = (MemoryTable *)self;
    Py_VISIT(Py_TYPE(self));
    for (size_t place = 0; place < table->size; place++) {
        Py_VISIT(table->entries[place].memory);
    }
    return 0;
}

static int clear(PyObject *self) {
    MemoryTable *table = (MemoryTable *)self;
    while (table->size) {
        Py_DECREF(table->entries[--table->size].memory);
    }
    table->num_writing = 0;
    return 0;
}

static void release(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    free(((MemoryTable *)self)->entries);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

int add_memory_table_type(PyObject *module) {
    static PyMethodDef methods[] = {
        {"add", add, METH_VARARGS, NULL},
        {"remove", take_out, METH_VARARGS, NULL},
        {"overlapping", overlapping, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyMemberDef members[] = {
        {"num_writing", T_LONGLONG, offsetof(MemoryTable, num_writing), READONLY, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)PyType_GenericNew},
        {Py_tp_methods, methods},
        {Py_tp_members, members},
        {Py_sq_length, (void *)length},
        {Py_tp_traverse, (void *)visit},
        {Py_tp_clear, (void *)clear},
        {Py_tp_dealloc, (void *)release},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.MemoryTable",
        .basicsize = sizeof(MemoryTable),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    if (!memory_table_type) {
        memory_table_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return memory_table_type ? PyModule_AddType(module, memory_table_type) : -1;
}
