/* What the module offers for watched calls: the types, and the layout that they were compiled for. */

#include "watching.h"

WatchedNames names;

static int make_names(void) {
#define X(name)                                                                                                        \
    if (!names.name && !(names.name = PyUnicode_InternFromString(#name))) {                                            \
        return -1;                                                                                                     \
    }
    WATCHED_NAMES(X)
#undef X
    return 0;
}

static int add_entry(PyObject *layout, const char *name, long long value) {
    PyObject *number = PyLong_FromLongLong(value);
    int result = number ? PyDict_SetItemString(layout, name, number) : -1;
    Py_XDECREF(number);
    return result;
}

/* Python compares this with its own layout, and uses none of this if it differs. On a processor that stores the highest
 * byte first the layout is empty, since records have the lowest first. */
static int add_layout(PyObject *module) {
    PyObject *layout = PyDict_New();
    if (!layout) {
        return -1;
    }
    int result = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define X(name, value) result |= add_entry(layout, #name, value);
    RING_NUMBERS(X)
#undef X
#define X(name) result |= add_entry(layout, "record." #name, offsetof(Record, name));
    RECORD_FIELDS(X)
#undef X
#endif
    if (result == 0) {
        result = PyModule_AddObjectRef(module, "RING_LAYOUT", layout);
    }
    Py_DECREF(layout);
    return result;
}

int add_watching(PyObject *module) {
    /* Types are made once for the process. Should the module be executed again, it gets the same ones. */
    if (make_names() < 0 || add_layout(module) < 0 || add_board_member_type(module) < 0
        || add_memory_table_type(module) < 0 || add_array_memory_type(module) < 0 || add_posted_fields_type(module) < 0
        || add_record_writer_type(module) < 0 || add_mpi_arguments_type(module) < 0
        || add_watched_collective_type(module) < 0 || add_watched_message_type(module) < 0
        || add_watched_posting_type(module) < 0 || add_watched_wait_type(module) < 0 || add_nesting_type(module) < 0
        || add_outermost_call_type(module) < 0 || add_tensor_sizes_type(module) < 0
        || add_torch_arguments_type(module) < 0 || add_watched_torch_type(module) < 0) {
        return -1;
    }
    return 0;
}
