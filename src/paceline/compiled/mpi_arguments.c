/* MpiArguments: reads arguments of mpi4py's functions that are plain. For all others it asks Python's readers. */

#include "watching.h"

PyTypeObject *mpi_arguments_type;

PyObject *read_handle(PyObject *handle, descrgetfunc get, PyObject *object) {
    return get ? get(handle, object, (PyObject *)Py_TYPE(object)) : PyObject_CallFunctionObjArgs(handle, object, NULL);
}

int find_communicator(MpiArguments *mpi, PyObject *args, PyObject **communicator, PyObject **recorder) {
    if (PyTuple_Size(args) < 1) {
        return 0;
    }
    PyObject *handle = read_handle(mpi->handle, mpi->get_handle, PyTuple_GetItem(args, 0));
    if (!handle) {
        return -1;
    }
    PyObject *found = PyDict_GetItemWithError(mpi->communicators, handle);
    Py_XINCREF(found);
    Py_DECREF(handle);
    if (!found) {
        return PyErr_Occurred() ? -1 : 0;
    }
    PyObject *writer = PyObject_GetAttr(mpi->session, names.recorder);
    /* None in a process that was forked: it must not write */
    if (!writer || !PyObject_TypeCheck(writer, record_writer_type) || !((RecordWriter *)writer)->memory_table) {
        Py_DECREF(found);
        Py_XDECREF(writer);
        return writer ? 0 : -1;
    }
    *communicator = found;
    *recorder = writer;
    return 1;
}

static int get_number(PyObject *object, PyObject *name, int64_t *number) {
    PyObject *value = PyObject_GetAttr(object, name);
    *number = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Remember the element type of an array of numpy's that Python has read; of others nothing is kept. */
static int keep_dtype(MpiArguments *mpi, PyObject *buffer, int64_t code) {
    PyObject *array = PyObject_GetAttr(mpi->buffers, names.array);
    if (!array) {
        return -1;
    }
    PyObject *before = mpi->array;
    mpi->array = array;
    Py_XDECREF(before);
    if ((PyObject *)Py_TYPE(buffer) != array) {
        return 0;
    }
    PyObject *dtype = PyObject_GetAttr(buffer, names.dtype);
    int64_t item_size;
    if (!dtype || get_number(dtype, names.itemsize, &item_size) < 0) {
        Py_XDECREF(dtype);
        return -1;
    }
    int place = mpi->next_dtype;
    mpi->next_dtype = (place + 1) % KEPT_DTYPES;
    mpi->dtype_codes[place] = code;
    mpi->item_sizes[place] = item_size;
    before = mpi->dtypes[place];
    mpi->dtypes[place] = dtype;
    Py_XDECREF(before);
    return 0;
}

static int ask_for_size(MpiArguments *mpi, PyObject *buffer, BufferSize *size) {
    PyObject *found = PyObject_CallMethodObjArgs(mpi->buffers, names.size, buffer, NULL);
    long long dtype, num_bytes, count;
    if (!found || !PyArg_ParseTuple(found, "LLL", &dtype, &num_bytes, &count)) {
        Py_XDECREF(found);
        return -1;
    }
    Py_DECREF(found);
    *size = (BufferSize){.dtype = dtype, .num_bytes = num_bytes, .count = count};
    return keep_dtype(mpi, buffer, dtype);
}

int read_buffer(MpiArguments *mpi, PyObject *buffer, BufferSize *size) {
    if ((PyObject *)Py_TYPE(buffer) == mpi->array) {
        PyObject *dtype = PyObject_GetAttr(buffer, names.dtype);
        if (!dtype) {
            return -1;
        }
        int place = 0;
        while (place < KEPT_DTYPES && mpi->dtypes[place] != dtype) {
            place++;
        }
        Py_DECREF(dtype);
        if (place < KEPT_DTYPES) {
            size->dtype = mpi->dtype_codes[place];
            if (get_number(buffer, names.size, &size->count) < 0) {
                return -1;
            }
            size->num_bytes = size->count * mpi->item_sizes[place];
            return 0;
        }
    }
    return ask_for_size(mpi, buffer, size);
}

int64_t read_reduction(MpiArguments *mpi, PyObject *operation) {
    int64_t known = find_reduction(mpi->reductions, operation);
    if (known >= 0) {
        return known;
    }
    PyObject *code = PyObject_CallFunctionObjArgs(mpi->reduction_of, operation, NULL);
    int64_t found = code ? PyLong_AsLongLong(code) : -1;
    Py_XDECREF(code);
    return found;
}

int read_whole(PyObject *value, int64_t limit, int64_t *number) {
    if (!PyLong_CheckExact(value)) {
        return 0;
    }
    int overflow;
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && *number >= 0 && *number < limit;
}

/* -------------------------------------------------------------------------------------------- the type */

enum { NUM_FIELDS = 14 };

/* Write where the fields are that hold an object each, in the order of the arguments. */
static void list_fields(MpiArguments *self, PyObject **fields[NUM_FIELDS]) {
    PyObject **all[NUM_FIELDS] = {
        &self->session,    &self->communicators, &self->handle,      &self->buffers,     &self->in_place,
        &self->reductions, &self->reduction_of,  &self->number_of,   &self->any_source,  &self->any_tag,
        &self->status_type, &self->posted_type,  &self->followed,    &self->request_handle};
    for (int at = 0; at < NUM_FIELDS; at++) {
        fields[at] = all[at];
    }
}

/* An attribute is read by its descriptor, without a call; mpi4py 3 has a function instead. */
static descrgetfunc getter_of(PyObject *handle) {
    return PyCallable_Check(handle) ? NULL : (descrgetfunc)PyType_GetSlot(Py_TYPE(handle), Py_tp_descr_get);
}

static PyObject *new_arguments(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {
        "session",   "communicators", "handle",  "buffers",     "in_place",    "reductions", "reduction_of",   "number_of",
        "any_source", "any_tag",      "status_type", "posted_type", "followed", "request_handle", "compares", NULL};
    PyObject *given[NUM_FIELDS];
    int compares;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "OO!OOOO!OOO!O!OO!O!Op", keywords, &given[0], &PyDict_Type, &given[1], &given[2], &given[3],
            &given[4], &PyTuple_Type, &given[5], &given[6], &given[7], &PyLong_Type, &given[8], &PyLong_Type,
            &given[9], &given[10], &PyType_Type, &given[11], &PyDict_Type, &given[12], &given[13], &compares)
        || !are_reductions(given[5])) {
        return NULL;
    }
    if (!PyType_IsSubtype((PyTypeObject *)given[11], posted_fields_type)) {
        PyErr_SetString(PyExc_TypeError, "the class of requests is one of PostedFields");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    MpiArguments *self = (MpiArguments *)allocate(type, 0);
    if (!self) {
        return NULL;
    }
    PyObject **fields[NUM_FIELDS];
    list_fields(self, fields);
    for (int at = 0; at < NUM_FIELDS; at++) {
        *fields[at] = Py_NewRef(given[at]);
    }
    self->get_handle = getter_of(self->handle);
    self->get_request_handle = getter_of(self->request_handle);
    self->compares = compares;
    return (PyObject *)self;
}

static int visit_arguments(PyObject *object, visitproc visit, void *arg) {
    MpiArguments *self = (MpiArguments *)object;
    Py_VISIT(Py_TYPE(object));
    PyObject **fields[NUM_FIELDS];
    list_fields(self, fields);
    for (int at = 0; at < NUM_FIELDS; at++) {
        Py_VISIT(*fields[at]);
    }
    Py_VISIT(self->array);
    for (int at = 0; at < KEPT_DTYPES; at++) {
        Py_VISIT(self->dtypes[at]);
    }
    return 0;
}

/* There is no tp_clear: whoever holds this can be cleared, and a call that is under way must not lose it. */
static void free_arguments(PyObject *object) {
    MpiArguments *self = (MpiArguments *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    PyObject **fields[NUM_FIELDS];
    list_fields(self, fields);
    for (int at = 0; at < NUM_FIELDS; at++) {
        Py_CLEAR(*fields[at]);
    }
    Py_CLEAR(self->array);
    for (int at = 0; at < KEPT_DTYPES; at++) {
        Py_CLEAR(self->dtypes[at]);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

int add_mpi_arguments_type(PyObject *module) {
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)new_arguments},
        {Py_tp_traverse, (void *)visit_arguments},
        {Py_tp_dealloc, (void *)free_arguments},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.MpiArguments",
        .basicsize = sizeof(MpiArguments),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    if (!mpi_arguments_type) {
        mpi_arguments_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return mpi_arguments_type ? PyModule_AddType(module, mpi_arguments_type) : -1;
}
