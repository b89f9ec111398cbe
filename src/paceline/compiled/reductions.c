/* Reductions of a carrier that are known by the object that stands for them: pairs of that and its code. */

#include "watching.h"

bool are_reductions(PyObject *reductions) {
    for (Py_ssize_t at = 0; at < PyTuple_Size(reductions); at++) {
        PyObject *pair = PyTuple_GetItem(reductions, at);
        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2 || !PyLong_Check(PyTuple_GetItem(pair, 1))) {
            PyErr_SetString(PyExc_TypeError, "reductions are pairs of an operation and its code");
            return false;
        }
    }
    return true;
}

int64_t find_reduction(PyObject *reductions, PyObject *operation) {
    Py_ssize_t num = PyTuple_Size(reductions);
    for (Py_ssize_t at = 0; at < num; at++) { /* SUM comes first */
        PyObject *known = PyTuple_GetItem(reductions, at);
        if (PyTuple_GetItem(known, 0) == operation) {
            return PyLong_AsLongLong(PyTuple_GetItem(known, 1));
        }
    }
    return -1;
}
