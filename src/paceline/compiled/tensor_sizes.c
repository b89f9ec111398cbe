/* TensorSizes: element type, bytes and elements of tensors whose element type is known; Python is asked for all others. */

#include "watching.h"

PyTypeObject *tensor_sizes_type;

/* Remember code and bytes of an element type that is known; 0 if it is not. */
static int keep_dtype(TensorSizes *self, PyObject *dtype) {
    PyObject *known = PyDict_GetItemWithError(self->known, dtype);
    long long code, item_bytes;
    if (!known || !PyArg_ParseTuple(known, "LL", &code, &item_bytes) || item_bytes <= 0) {
        return 0;
    }
    PyObject *before = self->dtype;
    self->dtype = Py_NewRef(dtype);
    self->code = code;
    self->item_bytes = item_bytes;
    Py_XDECREF(before);
    return 1;
}

static int read_dtype(TensorSizes *self, PyObject *tensor, int64_t *code, int64_t *item_bytes) {
    PyObject *dtype = PyObject_GetAttr(tensor, names.dtype);
    int is_known = dtype && (dtype == self->dtype || keep_dtype(self, dtype));
    *code = self->code;
    *item_bytes = self->item_bytes;
    Py_XDECREF(dtype);
    return is_known;
}

/* Remember a class whose tensors have data; 0 if they have none. */
static int keep_class(TensorSizes *self, PyObject *class) {
    PyObject *answer = PyObject_CallFunctionObjArgs(self->has_data, class, NULL);
    Py_XDECREF(answer); /* True and False stay */
    if (answer != Py_True) {
        return 0;
    }
    PyObject *before = self->other_class;
    self->other_class = Py_NewRef(class);
    Py_XDECREF(before);
    return 1;
}

/* Whether a tensor has data: those on the device "meta" have none. */
static bool has_data(TensorSizes *self, PyObject *tensor) {
    PyObject *class = (PyObject *)Py_TYPE(tensor);
    if (class != self->tensor_class && class != self->other_class && !keep_class(self, class)) {
        return false;
    }
    PyObject *is_meta = PyObject_GetAttr(tensor, names.is_meta);
    Py_XDECREF(is_meta);
    return is_meta == Py_False;
}

int read_tensor(TensorSizes *self, PyObject *tensor, BufferSize *size) {
    int64_t item_bytes;
    if (!has_data(self, tensor) || !read_dtype(self, tensor, &size->dtype, &item_bytes)) {
        return 0;
    }
    PyObject *held = PyObject_GetAttr(tensor, names.nbytes);
    size->num_bytes = held ? PyLong_AsLongLong(held) : -1;
    size->count = size->num_bytes / item_bytes;
    Py_XDECREF(held);
    return size->num_bytes >= 0;
}

static PyObject *size_of(PyObject *object, PyObject *tensor) {
    TensorSizes *self = (TensorSizes *)object;
    BufferSize size;
    if (read_tensor(self, tensor, &size)) {
        return Py_BuildValue("LLL", (long long)size.dtype, (long long)size.num_bytes, (long long)size.count);
    }
    return is_left_to_python() ? PyObject_CallFunctionObjArgs(self->in_python, tensor, NULL) : NULL;
}

static PyObject *new_sizes(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"known", "in_python", "tensor_class", "has_data", NULL};
    PyObject *known, *in_python, *tensor_class, *has_data;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!OOO", keywords, &PyDict_Type, &known, &in_python, &tensor_class, &has_data)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    TensorSizes *self = (TensorSizes *)allocate(type, 0);
    if (self) {
        self->known = Py_NewRef(known);
        self->in_python = Py_NewRef(in_python);
        self->tensor_class = Py_NewRef(tensor_class);
        self->has_data = Py_NewRef(has_data);
    }
    return (PyObject *)self;
}

static int visit(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((TensorSizes *)object)->known);
    Py_VISIT(((TensorSizes *)object)->dtype);
    Py_VISIT(((TensorSizes *)object)->in_python);
    Py_VISIT(((TensorSizes *)object)->tensor_class);
    Py_VISIT(((TensorSizes *)object)->other_class);
    Py_VISIT(((TensorSizes *)object)->has_data);
    return 0;
}

/* There is no tp_clear: it is needed as long as it can be called, and whoever holds it can be cleared. */
static void release(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_CLEAR(((TensorSizes *)object)->known);
    Py_CLEAR(((TensorSizes *)object)->dtype);
    Py_CLEAR(((TensorSizes *)object)->in_python);
    Py_CLEAR(((TensorSizes *)object)->tensor_class);
    Py_CLEAR(((TensorSizes *)object)->other_class);
    Py_CLEAR(((TensorSizes *)object)->has_data);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(object);
    Py_DECREF(type);
}

int add_tensor_sizes_type(PyObject *module) {
    static PyMethodDef methods[] = {{"size", size_of, METH_O, NULL}, {NULL, NULL, 0, NULL}};
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)new_sizes},
        {Py_tp_methods, methods},
        {Py_tp_traverse, (void *)visit},
        {Py_tp_dealloc, (void *)release},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.TensorSizes",
        .basicsize = sizeof(TensorSizes),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    if (!tensor_sizes_type) {
        tensor_sizes_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return tensor_sizes_type ? PyModule_AddType(module, tensor_sizes_type) : -1;
}
