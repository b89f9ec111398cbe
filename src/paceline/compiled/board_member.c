/* BoardMember: what a communicator's own member needs at each call. */

#include "watching.h"

PyTypeObject *board_member_type;

/* Take the memory of a board, whose size must be known: 0 if it is there. */
static int take_words(Py_buffer *view, PyObject *words, Py_ssize_t num_bytes) {
    if (PyObject_GetBuffer(words, view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) {
        view->buf = NULL;
        return -1;
    }
    if (view->len != num_bytes || (uintptr_t)view->buf % 8 != 0) {
        PyBuffer_Release(view);
        view->buf = NULL;
        PyErr_SetString(PyExc_ValueError, "the memory of a board has another size");
        return -1;
    }
    return 0;
}

static PyObject *new_member(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *keywords[] = {"index", "member", "num_members", "words", "column", NULL};
    long long index, member, num_members, column = 0;
    PyObject *words = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, named, "LLL|OL", keywords, &index, &member, &num_members, &words, &column)) {
        return NULL;
    }
    long long num_columns = num_members < MOST_COLUMNS ? num_members : MOST_COLUMNS;
    if (index < 0 || index >= MAX_COMMS || num_members < 1 || num_members > INT32_MAX || member < 0
        || member >= num_members || column < 0 || column >= num_columns) {
        PyErr_SetString(PyExc_ValueError, "a member of a communicator that the ring has room for is needed");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    BoardMember *self = (BoardMember *)allocate(type, 0);
    if (!self) {
        return NULL;
    }
    self->index = (uint64_t)index;
    self->member = member;
    self->num_members = num_members;
    if (words != Py_None) {
        if (take_words(&self->board_memory, words, (TAKEN_AT + num_columns + 2 * BOARD_ROWS * num_columns) * 8) < 0) {
            Py_DECREF((PyObject *)self);
            return NULL;
        }
        uint64_t *head = self->board_memory.buf, *begin = head + TAKEN_AT + num_columns;
        self->board = (BoardView){
            .head = head, .calls = begin, .sizes = begin + BOARD_ROWS * num_columns, .column = column,
            .num_columns = num_columns, .num_members = num_members};
    }
    return (PyObject *)self;
}

static void free_member(PyObject *object) {
    BoardMember *self = (BoardMember *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->board_memory.buf) {
        PyBuffer_Release(&self->board_memory);
    }
    if (self->message_memory.buf) {
        PyBuffer_Release(&self->message_memory);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

BoardMember *board_member_of(PyObject *communicator) {
    PyObject *member = PyObject_GetAttr(communicator, names.board_member);
    if (member && Py_TYPE(member) != board_member_type) {
        PyErr_SetString(PyExc_TypeError, "the communicator is not one of this recorder");
        Py_CLEAR(member);
    }
    return (BoardMember *)member;
}

int open_message_board(BoardMember *member, PyObject *recorder, PyObject *communicator) {
    if (member->message_memory.buf) {
        return 1;
    }
    PyObject *messages = PyObject_GetAttr(recorder, names.messages);
    PyObject *board = messages ? PyObject_CallMethodObjArgs(messages, names.message_board, communicator, NULL) : NULL;
    Py_XDECREF(messages);
    if (!board || board == Py_None) {
        Py_XDECREF(board);
        return board ? 0 : -1;
    }
    PyObject *words = PyObject_GetAttr(board, names.words);
    Py_DECREF(board);
    int taken = words ? take_words(&member->message_memory, words, 4 * MESSAGE_CELLS * 8) : -1;
    Py_XDECREF(words);
    return taken < 0 ? -1 : 1;
}

/* Let the next collective have the position of the last one; say whether that was the last one. */
static PyObject *step_back(PyObject *object, PyObject *argument) {
    BoardMember *self = (BoardMember *)object;
    long long sequence = PyLong_AsLongLong(argument);
    if (sequence == -1 && PyErr_Occurred()) {
        return NULL;
    }
    bool is_last = sequence > 0 && self->sequence == (uint64_t)sequence;
    if (is_last) {
        self->sequence--;
    }
    return PyBool_FromLong(is_last);
}

static PyMethodDef member_methods[] = {
    {"step_back", step_back, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot member_slots[] = {
    {Py_tp_methods, (void *)member_methods},
    {Py_tp_new, (void *)new_member},
    {Py_tp_dealloc, (void *)free_member},
    {0, NULL},
};

static PyType_Spec member_spec = {
    .name = "paceline.compiled.extension.BoardMember",
    .basicsize = sizeof(BoardMember),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = member_slots,
};

int add_board_member_type(PyObject *module) {
    if (!board_member_type) {
        board_member_type = (PyTypeObject *)PyType_FromSpec(&member_spec);
    }
    return board_member_type ? PyModule_AddType(module, board_member_type) : -1;
}
