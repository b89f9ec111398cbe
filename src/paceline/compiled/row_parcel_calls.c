/* What Python can call to send rows of batches in parcels. All that a kernel reads is checked here: the fields, which
 * rows are asked for, and what another rank has sent. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "row_parcel_calls.h"
#include "row_parcels.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Py_buffer *views; /* of all fields and parcels of one call, to be released together */
    int64_t count, capacity;
} Views;

static const uint8_t nothing; /* an empty array may have no address */

/* Take the contiguous memory of an object; NULL, if it has none or there are too many. */
static const Py_buffer *take_view(Views *views, PyObject *object, int flags) {
    Py_buffer *view = &views->views[views->count];
    if (views->count == views->capacity || PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | flags) < 0) {
        return NULL;
    }
    views->count++;
    return view;
}

static const void *bytes_of(Views *views, PyObject *object, int64_t *num_bytes) {
    const Py_buffer *view = take_view(views, object, 0);
    *num_bytes = view ? view->len : 0;
    return view && !view->buf ? &nothing : view ? view->buf : NULL;
}

/* Return the memory of an array of int64, or NULL with an exception. */
static void *numbers_of(Views *views, PyObject *object, int64_t *size, bool writable) {
    const Py_buffer *view = take_view(views, object, PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0));
    *size = view ? view->len / (int64_t)sizeof(int64_t) : 0;
    if (!view) {
        return NULL;
    }
    if (view->itemsize != sizeof(int64_t) || !view->format || (strcmp(view->format, "l") && strcmp(view->format, "q"))) {
        PyErr_SetString(PyExc_TypeError, "an array of format lq is needed");
        return NULL;
    }
    return view->buf ? view->buf : (void *)&nothing;
}

static bool open_views(Views *views, int64_t capacity) {
    views->count = 0;
    views->capacity = capacity;
    views->views = make_array(capacity, sizeof(Py_buffer));
    return views->views != NULL || PyErr_NoMemory() != NULL;
}

static void close_views(Views *views) {
    while (views->count > 0) {
        PyBuffer_Release(&views->views[--views->count]);
    }
    free(views->views);
}

static PyObject *refused(const char *reason) {
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, reason);
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------- fields */

static bool take_list(Views *views, PyObject *field, Py_ssize_t at, ListMemory *list) {
    list->memory = bytes_of(views, PyTuple_GetItem(field, at), &list->num_bytes);
    if (!list->memory) {
        return false;
    }
    list->value_bytes = PyLong_AsLongLong(PyTuple_GetItem(field, at + 1));
    return !PyErr_Occurred() && list->value_bytes >= 0;
}

/* Take a field as (lengths, values, bytes of a value), with weights and the bytes of one behind it, if it has any. */
static bool take_jagged(Views *views, PyObject *field, int64_t num_rows, JaggedField *jagged) {
    Py_ssize_t size = PyTuple_Check(field) ? PyTuple_Size(field) : 0;
    if (size != 3 && size != 5) {
        return false;
    }
    int64_t num_lengths;
    jagged->lengths = numbers_of(views, PyTuple_GetItem(field, 0), &num_lengths, false);
    if (!jagged->lengths || num_lengths % num_rows != 0) {
        return false;
    }
    jagged->num_keys = num_lengths / num_rows;
    jagged->num_lists = (size - 1) / 2;
    return take_list(views, field, 1, &jagged->lists[0])
        && (jagged->num_lists == 1 || take_list(views, field, 3, &jagged->lists[1]));
}

static bool take_table(Views *views, PyObject *dense, PyObject *jagged, int64_t num_rows, RowTable *table) {
    table->num_dense = PyTuple_Size(dense);
    table->num_jagged = PyTuple_Size(jagged);
    table->num_rows = num_rows;
    table->dense = make_array(table->num_dense, sizeof(DenseField));
    table->jagged = make_array(table->num_jagged, sizeof(JaggedField));
    if (!table->dense || !table->jagged) {
        PyErr_NoMemory();
        return false;
    }
    for (int64_t field = 0; field < table->num_dense; field++) {
        int64_t num_bytes;
        table->dense[field].memory = bytes_of(views, PyTuple_GetItem(dense, field), &num_bytes);
        if (!table->dense[field].memory || num_bytes % num_rows != 0) {
            return false;
        }
        table->dense[field].row_bytes = num_bytes / num_rows;
    }
    for (int64_t field = 0; field < table->num_jagged; field++) {
        if (!take_jagged(views, PyTuple_GetItem(jagged, field), num_rows, &table->jagged[field])) {
            return false;
        }
    }
    int opened = open_table(table);
    if (opened == NO_MEMORY) {
        PyErr_NoMemory();
    }
    return opened == 0;
}

static void free_table(RowTable *table) {
    close_table(table);
    free(table->dense);
    free(table->jagged);
}

/* How many views a call takes at most. */
static int64_t count_views(PyObject *dense, PyObject *jagged, int64_t others) {
    return PyTuple_Size(dense) + 3 * PyTuple_Size(jagged) + others;
}

/* -------------------------------------------------------------------------------------------- packing */

/* Whether each row is one of the table, and none is named twice. */
static bool are_rows_of(const RowTable *table, const int64_t *rows, int64_t size) {
    uint8_t *seen = calloc((size_t)table->num_rows, 1);
    if (!seen) {
        PyErr_NoMemory();
        return false;
    }
    bool are_rows = name_rows(rows, size, table->num_rows, seen);
    free(seen);
    return are_rows;
}

static bool all_rows_below(const int64_t *rows, int64_t size, int64_t limit) {
    for (int64_t index = 0; index < size; index++) {
        if (rows[index] < 0 || rows[index] >= limit) {
            return false;
        }
    }
    return true;
}

static PyObject *packed(const RowTable *table, const int64_t *rows, const int64_t *counts, int64_t num_parcels) {
    PyObject *parcels = PyList_New(num_parcels);
    for (int64_t parcel = 0; parcels && parcel < num_parcels; parcel++) {
        int64_t num_bytes = bytes_of_rows(table, rows, counts[parcel]);
        PyObject *content = PyByteArray_FromStringAndSize(NULL, num_bytes);
        if (!content) {
            Py_CLEAR(parcels);
            break;
        }
        uint8_t *out = (uint8_t *)PyByteArray_AsString(content);
        Py_BEGIN_ALLOW_THREADS
        write_parcel(table, rows, counts[parcel], out);
        Py_END_ALLOW_THREADS
        PyList_SetItem(parcels, parcel, content);
        rows += counts[parcel];
    }
    return parcels;
}

static PyObject *call_pack_rows(PyObject *module, PyObject *args) {
    PyObject *dense, *jagged, *rows_object, *counts_object, *result = NULL;
    long long num_rows;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "O!O!LOO", &PyTuple_Type, &dense, &PyTuple_Type, &jagged, &num_rows, &rows_object, &counts_object)) {
        return NULL;
    }
    if (num_rows < 1 || num_rows > MOST_SLOTS) {
        return refused("at least one row is needed");
    }
    Views views;
    if (!open_views(&views, count_views(dense, jagged, 2))) {
        return NULL;
    }
    RowTable table = {.starts = NULL};
    int64_t size = 0, num_parcels = 0;
    if (take_table(&views, dense, jagged, num_rows, &table)) {
        const int64_t *rows = numbers_of(&views, rows_object, &size, false);
        const int64_t *counts = rows ? numbers_of(&views, counts_object, &num_parcels, false) : NULL;
        bool fits = counts && size <= num_rows && are_rows_of(&table, rows, size)
            && all_rows_below(counts, num_parcels, size + 1);
        int64_t total = 0;
        for (int64_t parcel = 0; fits && parcel < num_parcels; parcel++) {
            total += counts[parcel];
            fits = total <= size;
        }
        if (fits) {
            result = packed(&table, rows, counts, num_parcels);
        }
    }
    free_table(&table);
    close_views(&views);
    return result ? result : refused("fields of these rows, and parcels of some of them, are needed");
}

/* -------------------------------------------------------------------------------------------- arranging */

/* What comes out: new memory for every field. */
typedef struct {
    uint8_t **dense, **lists;
    int64_t **lengths;
    PyObject *content; /* a list of bytearrays: dense fields, then of each jagged one its lengths, values and weights */
} NewFields;

static uint8_t *add_memory(NewFields *made, int64_t num_bytes) {
    PyObject *memory = PyByteArray_FromStringAndSize(NULL, num_bytes);
    int added = memory ? PyList_Append(made->content, memory) : -1;
    uint8_t *address = added == 0 ? (uint8_t *)PyByteArray_AsString(memory) : NULL;
    Py_XDECREF(memory);
    return address;
}

static bool add_fields(NewFields *made, const Arrangement *task) {
    const RowTable *table = task->table;
    int64_t num_lists = 0;
    for (int64_t field = 0; field < table->num_dense; field++) {
        int64_t row_bytes = table->dense[field].row_bytes;
        if (row_bytes && task->num_rows > INT64_MAX / row_bytes) {
            return false;
        }
        made->dense[field] = add_memory(made, task->num_rows * row_bytes);
        if (!made->dense[field]) {
            return false;
        }
    }
    for (int64_t field = 0; field < table->num_jagged; field++) {
        const JaggedField *jagged = &table->jagged[field];
        if (jagged->num_keys > MOST_VALUES / task->num_rows) {
            return false;
        }
        uint8_t *lengths = add_memory(made, jagged->num_keys * task->num_rows * (int64_t)sizeof(int64_t));
        if (!lengths) {
            return false;
        }
        made->lengths[field] = (int64_t *)(void *)lengths;
        int64_t num_values = count_values(task, field, made->lengths[field]);
        for (int64_t list = 0; list < jagged->num_lists && num_values >= 0; list++, num_lists++) {
            int64_t value_bytes = jagged->lists[list].value_bytes;
            if (value_bytes && num_values > INT64_MAX / value_bytes) {
                return false;
            }
            made->lists[num_lists] = add_memory(made, num_values * value_bytes);
            if (!made->lists[num_lists]) {
                return false;
            }
        }
        if (num_values < 0) {
            return false;
        }
    }
    return true;
}

static PyObject *arranged(const Arrangement *task) {
    const RowTable *table = task->table;
    NewFields made = {.content = PyList_New(0)};
    made.dense = make_array(table->num_dense, sizeof(uint8_t *));
    made.lengths = make_array(table->num_jagged, sizeof(int64_t *));
    made.lists = make_array(2 * table->num_jagged, sizeof(uint8_t *));
    bool is_whole = made.content && made.dense && made.lengths && made.lists;
    if (!is_whole && !PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    if (is_whole && add_fields(&made, task)) {
        int result;
        Py_BEGIN_ALLOW_THREADS
        result = arrange_rows(task, made.dense, made.lengths, made.lists);
        Py_END_ALLOW_THREADS
        if (result == NO_MEMORY) {
            PyErr_NoMemory();
            Py_CLEAR(made.content);
        }
    } else {
        Py_CLEAR(made.content);
    }
    free(made.dense);
    free(made.lengths);
    free(made.lists);
    return made.content;
}

/* Find the rows of all parcels; false if one does not hold what it should. */
static bool read_parcels(
    Views *views, const RowTable *table, PyObject *parcels, const int64_t *counts, ReceivedRow *received) {
    for (Py_ssize_t parcel = 0; parcel < PyTuple_Size(parcels); parcel++) {
        int64_t num_bytes;
        const uint8_t *memory = bytes_of(views, PyTuple_GetItem(parcels, parcel), &num_bytes);
        if (!memory || read_parcel(table, memory, num_bytes, counts[parcel], received) < 0) {
            return false;
        }
        received += counts[parcel];
    }
    return true;
}

static int64_t sum_of_counts(const int64_t *counts, int64_t size) {
    int64_t total = 0;
    for (int64_t index = 0; index < size; index++) {
        if (counts[index] < 0 || counts[index] > MOST_SLOTS - total) {
            return WRONG_NUMBERS;
        }
        total += counts[index];
    }
    return total;
}

typedef struct {
    PyObject *parcels, *counts, *order;
    int64_t num_rows; /* of the new batch */
} Delivery;

static PyObject *delivered(Views *views, const RowTable *table, const Delivery *delivery) {
    int64_t num_counts = 0, size = 0;
    const int64_t *counts = numbers_of(views, delivery->counts, &num_counts, false);
    const int64_t *order = counts ? numbers_of(views, delivery->order, &size, false) : NULL;
    int64_t num_received = order && num_counts == PyTuple_Size(delivery->parcels) ? sum_of_counts(counts, num_counts) : -1;
    if (num_received < 0 || size > delivery->num_rows) {
        return NULL;
    }
    int64_t num_all = table->num_rows + num_received;
    ReceivedRow *received = make_array(num_received, sizeof(ReceivedRow));
    uint8_t *seen = calloc((size_t)num_all, 1);
    PyObject *result = NULL;
    if (!received || !seen) {
        PyErr_NoMemory();
    } else if (
        read_parcels(views, table, delivery->parcels, counts, received) && name_rows(order, size, num_all, seen)) {
        Arrangement task = {
            .table = table, .received = received, .order = order, .num_real = size, .num_rows = delivery->num_rows};
        result = arranged(&task);
    }
    free(received);
    free(seen);
    return result;
}

static PyObject *call_arrange_rows(PyObject *module, PyObject *args) {
    PyObject *dense, *jagged, *result = NULL;
    long long num_rows, num_new_rows;
    Delivery delivery;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "O!O!LO!OOL", &PyTuple_Type, &dense, &PyTuple_Type, &jagged, &num_rows, &PyTuple_Type,
            &delivery.parcels, &delivery.counts, &delivery.order, &num_new_rows)) {
        return NULL;
    }
    if (num_rows < 1 || num_rows > MOST_SLOTS || num_new_rows < 1 || num_new_rows > MOST_SLOTS) {
        return refused("at least one row is needed");
    }
    delivery.num_rows = num_new_rows;
    Views views;
    if (!open_views(&views, count_views(dense, jagged, PyTuple_Size(delivery.parcels) + 2))) {
        return NULL;
    }
    RowTable table = {.starts = NULL};
    if (take_table(&views, dense, jagged, num_rows, &table)) {
        result = delivered(&views, &table, &delivery);
    }
    free_table(&table);
    close_views(&views);
    return result ? result : refused("whole parcels of these fields, and each row but once, are needed");
}

/* -------------------------------------------------------------------------------------------- groups */

/* What `route_rows` finds in the groups of all ranks. */
typedef struct {
    int64_t *found, *counts; /* rows that leave, rank after rank, and how many go to each */
    int64_t num_found;
    uint64_t digest;
    bool are_once; /* no row is named twice, and none is that there is not */
} Routes;

static bool read_groups(Views *views, PyObject *groups, int64_t batch_size, const RowRange *own, Routes *routes) {
    int64_t num_ranks = PyTuple_Size(groups), num_rows = num_ranks * batch_size;
    uint8_t *seen = calloc(num_rows > 0 ? (size_t)num_rows : 1, 1);
    if (!seen) {
        PyErr_NoMemory();
        return false;
    }
    routes->are_once = true;
    const int64_t *rows = &own->first; /* anything but NULL */
    for (int64_t group = 0; group < num_ranks && rows && routes->are_once; group++) {
        int64_t size;
        rows = numbers_of(views, PyTuple_GetItem(groups, group), &size, false);
        if (rows) {
            routes->are_once = name_rows(rows, size, num_rows, seen);
            routes->digest = mix_numbers(mix_numbers(routes->digest, &size, 1), rows, size);
            bool stays = group * batch_size == own->first;
            routes->counts[group] = stays || !routes->are_once
                ? 0
                : own_rows_in(own, rows, size, routes->found + routes->num_found);
            routes->num_found += routes->counts[group];
        }
    }
    free(seen);
    return rows != NULL;
}

static PyObject *call_route_rows(PyObject *module, PyObject *args) {
    PyObject *groups, *found_object, *counts_object, *result = NULL;
    long long rank, batch_size, num_real;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "O!LLLOO", &PyTuple_Type, &groups, &rank, &batch_size, &num_real, &found_object, &counts_object)) {
        return NULL;
    }
    int64_t num_ranks = PyTuple_Size(groups), room = 0, num_counts = 0;
    Views views;
    if (!open_views(&views, num_ranks + 2)) {
        return NULL;
    }
    Routes routes = {.found = numbers_of(&views, found_object, &room, true)};
    routes.counts = routes.found ? numbers_of(&views, counts_object, &num_counts, true) : NULL;
    bool fits = routes.counts && batch_size >= 1 && num_ranks >= 1 && num_ranks <= MOST_SLOTS / batch_size
        && num_counts == num_ranks && rank >= 0 && rank < num_ranks && num_real >= 0 && num_real <= batch_size
        && room >= num_real;
    RowRange own = {.first = fits ? rank * batch_size : 0, .num_real = num_real};
    if (fits && read_groups(&views, groups, batch_size, &own, &routes)) {
        result = routes.are_once
            ? Py_BuildValue("(LK)", (long long)routes.num_found, (unsigned long long)(routes.digest >> 2))
            : Py_NewRef(Py_None);
    }
    close_views(&views);
    return result ? result : refused("a group of rows for each rank is needed");
}

static PyObject *call_order_group(PyObject *module, PyObject *args) {
    PyObject *group_object, *real_object, *counts_object, *order_object, *result = NULL;
    long long rank, batch_size;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "OOLLOO", &group_object, &real_object, &rank, &batch_size, &counts_object, &order_object)) {
        return NULL;
    }
    Views views;
    if (!open_views(&views, 4)) {
        return NULL;
    }
    int64_t size = 0, num_ranks = 0, num_counts = 0, room = 0;
    const int64_t *group = numbers_of(&views, group_object, &size, false);
    const int64_t *num_real = group ? numbers_of(&views, real_object, &num_ranks, false) : NULL;
    int64_t *counts = num_real ? numbers_of(&views, counts_object, &num_counts, true) : NULL;
    int64_t *order = counts ? numbers_of(&views, order_object, &room, true) : NULL;
    bool fits = order && batch_size >= 1 && num_ranks >= 1 && num_ranks <= MOST_SLOTS / batch_size
        && num_counts == num_ranks && room >= size && rank >= 0 && rank < num_ranks
        && all_rows_below(group, size, num_ranks * batch_size);
    if (fits) {
        result = PyLong_FromLongLong(order_group(group, size, num_real, num_ranks, rank, batch_size, counts, order));
    }
    close_views(&views);
    return result ? result : refused("a group of rows of these ranks is needed");
}

static PyMethodDef functions[] = {
    {"pack_rows", call_pack_rows, METH_VARARGS, NULL},
    {"arrange_rows", call_arrange_rows, METH_VARARGS, NULL},
    {"route_rows", call_route_rows, METH_VARARGS, NULL},
    {"order_group", call_order_group, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_row_parcels(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
