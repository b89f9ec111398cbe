/* TorchArguments: reads arguments of torch.distributed's collectives that are plain. For all others Python's readers are
 * asked: what they say of plain ones is what this says too. */

#include "watching.h"

PyTypeObject *torch_arguments_type;

static PyObject *find_placed(PyObject *args, PyObject *named, int place, PyObject *name, Py_ssize_t *num_named) {
    return place < 0 ? NULL : find_argument(args, named, place, name, num_named);
}

/* Return the communicator of a group that is followed, a new reference; NULL, perhaps without an exception. */
static PyObject *find_group(TorchArguments *torch, PyObject *group) {
    if (!group || group == Py_None) {
        return PyObject_GetAttr(torch->watch, names.world);
    }
    PyObject *groups = PyObject_GetAttr(torch->watch, names.groups);
    PyObject *found = groups && PyDict_Check(groups) ? PyDict_GetItemWithError(groups, group) : NULL;
    Py_XINCREF(found);
    Py_XDECREF(groups);
    return found;
}

/* A root is plain if its rank is its number in the group, too: so it is in WORLD. */
static bool read_plain_root(TorchArguments *torch, PyObject *root, PyObject *communicator, int64_t *number) {
    PyObject *world = PyObject_GetAttr(torch->watch, names.world);
    Py_XDECREF(world); /* the watch has it */
    BoardMember *member = world == communicator ? board_member_of(communicator) : NULL;
    bool is_plain = root && member && read_whole(root, member->num_members, number);
    Py_XDECREF((PyObject *)member);
    return is_plain;
}

/* The same for what was found. */
static int read_found(
    TorchArguments *torch, const TorchPlaces *places, PyObject *tensor, PyObject *reduction, PyObject *root,
    PyObject *communicator, CollectiveCall *call) {
    BufferSize size = {.dtype = 0, .num_bytes = -1, .count = -1};
    if (tensor && !read_tensor(torch->sizes, tensor, &size)) {
        return 0;
    }
    call->dtype = size.dtype;
    call->num_bytes = size.num_bytes;
    call->count = size.count;
    if (places->reduction >= 0) {
        call->reduction = find_reduction(torch->reductions, reduction ? reduction : Py_None);
        if (call->reduction < 0) {
            return 0;
        }
    }
    return places->root < 0 || read_plain_root(torch, root, communicator, &call->root);
}

PyObject *read_torch_call(
    TorchArguments *torch, const TorchPlaces *places, const RecordWriter *writer, PyObject *args, PyObject *named,
    CollectiveCall *call) {
    Py_ssize_t num_args = PyTuple_Size(args), num_named = named ? PyDict_Size(named) : 0;
    bool reads_tensor = places->tensor >= 0;
    if (num_args < places->least || num_args > places->most
        || (reads_tensor && (!writer->memory_table || writer->memory_table->num_writing))) {
        return NULL; /* while a request writes, Python's reader also looks whether it does to this tensor */
    }
    PyObject *group = find_placed(args, named, places->group, names.group, &num_named);
    PyObject *later = find_placed(args, named, places->returns_work, names.async_op, &num_named);
    PyObject *reduction = find_placed(args, named, places->reduction, names.op, &num_named);
    PyObject *root = find_placed(args, named, places->root, places->root_name, &num_named);
    if (num_named || (later && later != Py_False) || PyErr_Occurred()) {
        return NULL;
    }
    PyObject *communicator = find_group(torch, group);
    PyObject *tensor = reads_tensor ? PyTuple_GetItem(args, places->tensor) : NULL;
    if (communicator
        && (communicator == Py_None || !read_found(torch, places, tensor, reduction, root, communicator, call))) {
        Py_CLEAR(communicator);
    }
    return communicator;
}

/* -------------------------------------------------------------------------------------------- the type */

static PyObject *new_arguments(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"session", "watch", "nesting", "sizes", "reductions", NULL};
    PyObject *session, *watch, *nesting, *sizes, *reductions;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "OOO!O!O!", keywords, &session, &watch, nesting_type, &nesting, tensor_sizes_type, &sizes,
            &PyTuple_Type, &reductions)
        || !are_reductions(reductions)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    TorchArguments *self = (TorchArguments *)allocate(type, 0);
    if (self) {
        self->session = Py_NewRef(session);
        self->watch = Py_NewRef(watch);
        self->nesting = Py_NewRef(nesting);
        self->sizes = (TensorSizes *)Py_NewRef(sizes);
        self->reductions = Py_NewRef(reductions);
    }
    return (PyObject *)self;
}

static int visit(PyObject *object, visitproc visit, void *arg) {
    TorchArguments *self = (TorchArguments *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->session);
    Py_VISIT(self->watch);
    Py_VISIT(self->nesting);
    Py_VISIT((PyObject *)self->sizes);
    Py_VISIT(self->reductions);
    return 0;
}

/* There is no tp_clear: whoever holds this can be cleared, and a call that is under way must not lose it. */
static void release(PyObject *object) {
    TorchArguments *self = (TorchArguments *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    PyObject *sizes = (PyObject *)self->sizes;
    self->sizes = NULL;
    Py_XDECREF(sizes);
    Py_CLEAR(self->session);
    Py_CLEAR(self->watch);
    Py_CLEAR(self->nesting);
    Py_CLEAR(self->reductions);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(object);
    Py_DECREF(type);
}

int add_torch_arguments_type(PyObject *module) {
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)new_arguments},
        {Py_tp_traverse, (void *)visit},
        {Py_tp_dealloc, (void *)release},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "paceline.compiled.extension.TorchArguments",
        .basicsize = sizeof(TorchArguments),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    if (!torch_arguments_type) {
        torch_arguments_type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return torch_arguments_type ? PyModule_AddType(module, torch_arguments_type) : -1;
}
