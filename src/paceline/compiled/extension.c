/* The extension module: what Python can call, and nothing else.
 *
 * It is compiled for the limited API of CPython 3.11, so one build serves all later versions. Arrays come as buffers.
 * Whatever could lead a kernel out of its memory is checked here, for Python must never crash.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernels.h"
#include "row_parcel_calls.h"
#include "watching.h"

#include <string.h>

/* -------------------------------------------------------------------------------------------- arguments */

typedef struct {
    Py_buffer views[9]; /* of all arrays of one call, to be released together */
    int count;
    Py_ssize_t size; /* of all of them, unless asked for otherwise */
} Arrays;

static void release(Arrays *arrays) {
    while (arrays->count > 0) {
        PyBuffer_Release(&arrays->views[--arrays->count]);
    }
}

/* Return the memory of an array of a given kind, or NULL with an exception. */
static void *take(Arrays *arrays, PyObject *object, const char *formats, Py_ssize_t width, bool writable) {
    Py_buffer *view = &arrays->views[arrays->count];
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) {
        return NULL;
    }
    arrays->count++;
    bool fits = view->itemsize == width && view->format != NULL;
    if (!fits || view->format[0] == '\0' || view->format[1] != '\0' || strchr(formats, view->format[0]) == NULL) {
        PyErr_Format(PyExc_TypeError, "an array of format %s is needed", formats);
        return NULL;
    }
    static int64_t nothing; /* an empty array may have no address, and NULL means an error */
    arrays->size = view->len / view->itemsize;
    return view->buf != NULL ? view->buf : &nothing;
}

static const int64_t *take_numbers(Arrays *arrays, PyObject *object) {
    return take(arrays, object, "lq", sizeof(int64_t), false);
}

static int64_t *take_output(Arrays *arrays, PyObject *object) {
    return take(arrays, object, "lq", sizeof(int64_t), true);
}

static PyObject *refuse(Arrays *arrays, const char *reason) {
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, reason);
    }
    release(arrays);
    return NULL;
}

static PyObject *finish(Arrays *arrays, int result) {
    release(arrays);
    if (result == NO_MEMORY) {
        return PyErr_NoMemory();
    }
    if (result == WRONG_NUMBERS) {
        PyErr_SetString(PyExc_ValueError, "these groups differ in size by more than 1");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Whether all numbers are from 0 to below the limit. There is no branch in it, so it is compiled to vectors: a number
 * below 0 has its highest bit set, and one at or above the limit sets that of the difference. */
static bool all_below(const int64_t *numbers, int64_t size, int64_t limit) {
    uint64_t outside = 0;
    for (int64_t index = 0; index < size; index++) {
        uint64_t number = (uint64_t)numbers[index];
        outside |= number | ((uint64_t)limit - 1 - number);
    }
    return outside >> 63 == 0;
}

static bool all_from_minus_1(const int64_t *numbers, int64_t size) {
    uint64_t outside = 0;
    for (int64_t index = 0; index < size; index++) {
        outside |= (uint64_t)numbers[index] + 1;
    }
    return outside >> 63 == 0;
}

static bool is_group_count(int64_t num_groups) {
    return num_groups >= 1 && num_groups <= MOST_SLOTS;
}

/* -------------------------------------------------------------------------------------------- the partition */

static PyObject *call_heaviest_first(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *costs_object, *order_object;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &costs_object, &order_object)) {
        return NULL;
    }
    const int64_t *costs = take_numbers(&arrays, costs_object);
    int64_t size = arrays.size;
    int64_t *order = costs ? take_output(&arrays, order_object) : NULL;
    if (!order || arrays.size != size) {
        return refuse(&arrays, "arrays of the same size are needed");
    }
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = all_from_minus_1(costs, size) ? heaviest_first(costs, size, order) : WRONG_NUMBERS;
    Py_END_ALLOW_THREADS
    if (result == WRONG_NUMBERS) {
        return refuse(&arrays, "numbers of at least -1 are needed");
    }
    return finish(&arrays, result);
}

static PyObject *call_add_up_groups(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *group_object, *numbers_object, *sums_object;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO", &group_object, &numbers_object, &sums_object)) {
        return NULL;
    }
    const int64_t *group_of = take_numbers(&arrays, group_object);
    int64_t size = arrays.size;
    const int64_t *numbers = group_of ? take_numbers(&arrays, numbers_object) : NULL;
    int64_t size_of_numbers = arrays.size;
    int64_t *sums = numbers ? take_output(&arrays, sums_object) : NULL;
    int64_t num_groups = arrays.size;
    if (!sums || size != size_of_numbers || !all_below(group_of, size, num_groups)) {
        return refuse(&arrays, "one number and one group per sample are needed");
    }
    Py_BEGIN_ALLOW_THREADS
    add_up_groups(group_of, numbers, size, num_groups, sums);
    Py_END_ALLOW_THREADS
    return finish(&arrays, 0);
}

static PyObject *call_list_members(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *group_object, *real_object, *members_object, *ends_object;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO", &group_object, &real_object, &members_object, &ends_object)) {
        return NULL;
    }
    const int64_t *group_of = take_numbers(&arrays, group_object);
    int64_t size = arrays.size;
    const uint8_t *real = group_of ? take(&arrays, real_object, "?", 1, false) : NULL;
    bool fits = arrays.size == size;
    int64_t *members = real ? take_output(&arrays, members_object) : NULL;
    fits &= arrays.size == size;
    int64_t *ends = members ? take_output(&arrays, ends_object) : NULL;
    int64_t num_groups = arrays.size;
    if (!ends || !fits || !all_below(group_of, size, num_groups)) {
        return refuse(&arrays, "one flag and one group per sample are needed");
    }
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = list_members(group_of, real, size, num_groups, members, ends);
    Py_END_ALLOW_THREADS
    return finish(&arrays, result);
}

typedef int (*Deal)(const int64_t *, const int64_t *, int64_t, int64_t, int64_t *);

static PyObject *call_deal(PyObject *args, Deal deal) {
    Arrays arrays = {.count = 0};
    PyObject *falling_object, *order_object, *group_object;
    long long num_groups;
    if (!PyArg_ParseTuple(args, "OOLO", &falling_object, &order_object, &num_groups, &group_object)) {
        return NULL;
    }
    const int64_t *falling = take_numbers(&arrays, falling_object);
    int64_t size = arrays.size;
    const int64_t *order = falling ? take_numbers(&arrays, order_object) : NULL;
    bool fits = arrays.size == size;
    int64_t *group_of = order ? take_output(&arrays, group_object) : NULL;
    fits &= arrays.size == size && is_group_count(num_groups);
    if (!group_of || !fits || !all_below(order, size, size)) {
        return refuse(&arrays, "each sample once, with its cost, and at least one group are needed");
    }
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = deal(falling, order, size, num_groups, group_of);
    Py_END_ALLOW_THREADS
    return finish(&arrays, result);
}

static PyObject *call_deal_longest_first(PyObject *module, PyObject *args) {
    (void)module;
    return call_deal(args, deal_longest_first);
}

static PyObject *call_deal_by_differencing(PyObject *module, PyObject *args) {
    (void)module;
    return call_deal(args, deal_by_differencing);
}

static PyObject *call_swap_until_even(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *falling_object, *order_object, *memory_object, *group_object;
    long long num_groups, target, limit, max_sweeps;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "OOLLOLLO", &falling_object, &order_object, &num_groups, &target, &memory_object, &limit, &max_sweeps,
            &group_object)) {
        return NULL;
    }
    SwapTask task = {.num_groups = num_groups, .target = target, .limit = limit, .max_sweeps = max_sweeps};
    task.falling = take_numbers(&arrays, falling_object);
    task.size = arrays.size;
    task.order = task.falling ? take_numbers(&arrays, order_object) : NULL;
    bool fits = arrays.size == task.size;
    task.memory = task.order ? take_numbers(&arrays, memory_object) : NULL;
    fits &= limit < 0 || arrays.size == task.size;
    int64_t *group_of = task.memory ? take_output(&arrays, group_object) : NULL;
    fits &= arrays.size == task.size && is_group_count(num_groups);
    if (!group_of || !fits || !all_below(task.order, task.size, task.size)
        || !all_below(group_of, task.size, num_groups)) {
        return refuse(&arrays, "each sample once, with its cost, its memory and its group, are needed");
    }
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = swap_until_even(&task, group_of);
    Py_END_ALLOW_THREADS
    return finish(&arrays, result);
}

/* Take the arrays of a task, in the order in which they are given; false if some do not fit. */
static bool take_host_task(Arrays *arrays, PyObject **objects, HostTask *task, int64_t **group_of) {
    task->falling = take_numbers(arrays, objects[0]);
    task->size = arrays->size;
    task->order = task->falling ? take_numbers(arrays, objects[1]) : NULL;
    bool fits = arrays->size == task->size;
    task->costs = task->order ? take_numbers(arrays, objects[2]) : NULL;
    fits &= arrays->size == task->size;
    task->bytes = task->costs ? take_numbers(arrays, objects[3]) : NULL;
    fits &= arrays->size == task->size;
    task->real = task->bytes ? take(arrays, objects[4], "?", 1, false) : NULL;
    fits &= arrays->size == task->size;
    task->host_of = task->real ? take_numbers(arrays, objects[5]) : NULL;
    task->num_groups = arrays->size;
    task->sent = task->host_of ? take_output(arrays, objects[6]) : NULL;
    task->num_hosts = arrays->size;
    task->received = task->sent ? take_output(arrays, objects[7]) : NULL;
    fits &= arrays->size == task->num_hosts;
    *group_of = task->received ? take_output(arrays, objects[8]) : NULL;
    fits &= arrays->size == task->size;
    return *group_of && fits && is_group_count(task->num_groups) && is_group_count(task->num_hosts)
        && task->size <= MOST_SLOTS;
}

static PyObject *call_even_out_hosts(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *objects[9];
    long long host_target, target, limit, max_sweeps;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "OOOOOOLLLLOOO", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4], &objects[5],
            &host_target, &target, &limit, &max_sweeps, &objects[6], &objects[7], &objects[8])) {
        return NULL;
    }
    HostTask task = {.host_target = host_target, .target = target, .limit = limit, .max_sweeps = max_sweeps};
    int64_t *group_of;
    if (!take_host_task(&arrays, objects, &task, &group_of) || !all_below(task.order, task.size, task.size)
        || !all_below(task.host_of, task.num_groups, task.num_hosts)
        || !all_below(group_of, task.size, task.num_groups) || host_target < 0 || target < host_target) {
        return refuse(&arrays, "each sample once, with its cost, its bytes and its group, and their hosts, are needed");
    }
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = even_out_hosts(&task, group_of);
    Py_END_ALLOW_THREADS
    return finish(&arrays, result);
}

/* -------------------------------------------------------------------------------------------- packs */

static PyObject *call_best_fit(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *lengths_object, *pack_object;
    long long room;
    (void)module;
    if (!PyArg_ParseTuple(args, "OLO", &lengths_object, &room, &pack_object)) {
        return NULL;
    }
    const int64_t *lengths = take_numbers(&arrays, lengths_object);
    int64_t size = arrays.size;
    int64_t *pack_of = lengths ? take_output(&arrays, pack_object) : NULL;
    bool fits = arrays.size == size && size <= MOST_SLOTS && room >= 0 && room <= MOST_ROOM;
    if (!pack_of || !fits || !all_below(lengths, size, room + 1)) {
        return refuse(&arrays, "one length per sample, none above the room of a pack, is needed");
    }
    int64_t num_packs;
    Py_BEGIN_ALLOW_THREADS
    num_packs = best_fit(lengths, size, room, pack_of);
    Py_END_ALLOW_THREADS
    release(&arrays);
    return num_packs == NO_MEMORY ? PyErr_NoMemory() : PyLong_FromLongLong(num_packs);
}

static PyObject *call_spread_pieces(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *lengths_object, *costs_object, *order_object, *pack_object;
    long long num_packs, room, most;
    (void)module;
    if (!PyArg_ParseTuple(
            args, "OOOLLLO", &lengths_object, &costs_object, &order_object, &num_packs, &room, &most, &pack_object)) {
        return NULL;
    }
    SpreadTask task = {.num_packs = num_packs, .room = room, .most = most};
    task.lengths = take_numbers(&arrays, lengths_object);
    task.size = arrays.size;
    task.costs = task.lengths ? take_numbers(&arrays, costs_object) : NULL;
    bool fits = arrays.size == task.size;
    task.order = task.costs ? take_numbers(&arrays, order_object) : NULL;
    fits &= arrays.size == task.size;
    int64_t *pack_of = task.order ? take_output(&arrays, pack_object) : NULL;
    fits &= arrays.size == task.size && is_group_count(num_packs) && room >= 0 && room < INT64_MAX && most >= 1;
    if (!pack_of || !fits || !all_below(task.order, task.size, task.size)
        || !all_below(task.lengths, task.size, room + 1)) {
        return refuse(&arrays, "each piece once, with its cost and a length of at most the room, are needed");
    }
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = spread_pieces(&task, pack_of);
    Py_END_ALLOW_THREADS
    release(&arrays);
    return result == NO_MEMORY ? PyErr_NoMemory() : PyBool_FromLong(result == 0);
}

/* -------------------------------------------------------------------------------------------- the shuffle */

static PyObject *call_shuffle_table(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *table_object;
    unsigned long long key;
    (void)module;
    if (!PyArg_ParseTuple(args, "OK", &table_object, &key)) {
        return NULL;
    }
    uint16_t *table = take(&arrays, table_object, "H", sizeof(uint16_t), true);
    if (!table || arrays.size > UINT16_MAX + 1) {
        return refuse(&arrays, "the entries of a table must fit into 16 bits");
    }
    Py_BEGIN_ALLOW_THREADS
    shuffle_table(table, arrays.size, key);
    Py_END_ALLOW_THREADS
    return finish(&arrays, 0);
}

static bool is_order_size(int64_t size) {
    return size >= 1 && size <= INT64_C(1) << 62;
}

static PyObject *call_permute(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *numbers_object, *results_object;
    long long size;
    unsigned long long key;
    int backward;
    (void)module;
    if (!PyArg_ParseTuple(args, "OLKpO", &numbers_object, &size, &key, &backward, &results_object)) {
        return NULL;
    }
    const int64_t *numbers = take_numbers(&arrays, numbers_object);
    int64_t count = arrays.size;
    int64_t *results = numbers ? take_output(&arrays, results_object) : NULL;
    if (!results || arrays.size != count || !is_order_size(size) || !all_below(numbers, count, size)) {
        return refuse(&arrays, "numbers below the size of the order are needed");
    }
    Py_BEGIN_ALLOW_THREADS
    permute(numbers, count, size, key, backward != 0, results);
    Py_END_ALLOW_THREADS
    return finish(&arrays, 0);
}

static PyObject *call_permute_along(PyObject *module, PyObject *args) {
    Arrays arrays = {.count = 0};
    PyObject *results_object;
    long long begin, stride, size;
    unsigned long long key;
    (void)module;
    if (!PyArg_ParseTuple(args, "LLLKO", &begin, &stride, &size, &key, &results_object)) {
        return NULL;
    }
    int64_t *results = take_output(&arrays, results_object);
    if (!results || !is_order_size(size) || begin < 0 || stride < 0) {
        return refuse(&arrays, "a beginning and a stride of at least 0 are needed");
    }
    Py_BEGIN_ALLOW_THREADS
    permute_along(begin, stride, arrays.size, size, key, results);
    Py_END_ALLOW_THREADS
    return finish(&arrays, 0);
}

/* -------------------------------------------------------------------------------------------- pickles */

static PyObject *call_count_pickle_steps(PyObject *module, PyObject *args) {
    Py_buffer data;
    long long most_steps;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*L", &data, &most_steps)) {
        return NULL;
    }
    int64_t num_steps;
    Py_BEGIN_ALLOW_THREADS
    num_steps = count_pickle_steps(data.buf, data.len, most_steps);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (num_steps == WRONG_NUMBERS) {
        PyErr_Format(PyExc_ValueError, "it is cut off, asks for too much, or has more than %lld steps", most_steps);
        return NULL;
    }
    return PyLong_FromLongLong(num_steps);
}

/* -------------------------------------------------------------------------------------------- the module */

static PyMethodDef functions[] = {
    {"heaviest_first", call_heaviest_first, METH_VARARGS, NULL},
    {"add_up_groups", call_add_up_groups, METH_VARARGS, NULL},
    {"list_members", call_list_members, METH_VARARGS, NULL},
    {"deal_longest_first", call_deal_longest_first, METH_VARARGS, NULL},
    {"deal_by_differencing", call_deal_by_differencing, METH_VARARGS, NULL},
    {"swap_until_even", call_swap_until_even, METH_VARARGS, NULL},
    {"even_out_hosts", call_even_out_hosts, METH_VARARGS, NULL},
    {"best_fit", call_best_fit, METH_VARARGS, NULL},
    {"spread_pieces", call_spread_pieces, METH_VARARGS, NULL},
    {"shuffle_table", call_shuffle_table, METH_VARARGS, NULL},
    {"permute", call_permute, METH_VARARGS, NULL},
    {"permute_along", call_permute_along, METH_VARARGS, NULL},
    {"count_pickle_steps", call_count_pickle_steps, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    choose_vectors();
    return add_row_parcels(module) < 0 ? -1 : add_watching(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "paceline.compiled.extension",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_extension(void) {
    return PyModuleDef_Init(&definition);
}
