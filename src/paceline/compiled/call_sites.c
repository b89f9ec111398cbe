/* Call sites, as guard/rank/call_sites.py numbers them: this remembers what that has found.
 *
 * A key has the addresses of code objects. Python keeps each of them alive, so an address means one code object only.
 */

#include "watching.h"

#include <stdlib.h>
#include <string.h>

enum { OF_USER = 1, OF_LIBRARY = 2, OF_CARRIER = 3 }; /* whose a code object is; 0: not known yet */

/* Write which instruction of which code a frame is at: two numbers of a key. */
static int read_place(PyObject *frame, uint64_t *place) {
    PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
    place[0] = (uint64_t)(uintptr_t)code;
    Py_DECREF((PyObject *)code); /* the frame has it */
    PyObject *instruction = PyObject_GetAttr(frame, names.f_lasti);
    if (!instruction) {
        return -1;
    }
    long long number = PyLong_AsLongLong(instruction);
    Py_DECREF(instruction);
    place[1] = (uint64_t)number;
    return number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Write the places of a frame and of those that called it, and zeros for callers that it does not have. */
static int read_places(PyObject *frame, uint64_t *key) {
    PyObject *here = frame;
    Py_INCREF(here);
    for (uint64_t *end = key + DIRECT_KEY; key < end; key += 2) {
        if (here == Py_None) {
            memset(key, 0, (size_t)(end - key) * sizeof *key);
            break;
        }
        PyObject *caller = read_place(here, key) < 0 ? NULL : PyObject_GetAttr(here, names.f_back);
        Py_DECREF(here);
        if (!caller) {
            return -1;
        }
        here = caller;
    }
    Py_DECREF(here);
    return 0;
}

static int ask_sites(RecordWriter *writer, PyObject *question, PyObject *code) {
    PyObject *answer = PyObject_CallMethodObjArgs(writer->sites, question, code, NULL);
    int yes = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return yes;
}

static int owner_of(RecordWriter *writer, PyObject *frame) {
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    uint64_t key = (uint64_t)(uintptr_t)code;
    int owner = (int)find_number(&writer->codes, &key);
    if (!owner) {
        int library = ask_sites(writer, names.is_of_library, code);
        int carrier = library > 0 ? ask_sites(writer, names.is_of_carrier, code) : library;
        if (carrier >= 0) {
            owner = !library ? OF_USER : carrier ? OF_CARRIER : OF_LIBRARY;
            if (!add_number(&writer->codes, &key, (uint32_t)owner)) {
                PyErr_NoMemory();
                owner = -1;
            }
        } else {
            owner = -1;
        }
    }
    Py_DECREF(code);
    return owner;
}

/* Look outwards for the user's frame, and write the key of the site. Return how many frames are further in; NOTHING_OF_USER
 * if none is the user's. */
enum { NOTHING_OF_USER = -2 };

static int read_library_key(RecordWriter *writer, PyObject *frame, uint64_t *key) {
    uint64_t *next = key + DIRECT_KEY, *end = key + LIBRARY_KEY;
    memset(next, 0, (size_t)(end - next) * sizeof *next);
    PyObject *here = frame;
    Py_INCREF(here);
    for (int further_in = 0; here != Py_None; further_in++) {
        int owner = owner_of(writer, here);
        if (owner == OF_USER) {
            int result = read_places(here, key);
            Py_DECREF(here);
            return result < 0 ? -1 : further_in;
        }
        if (owner < 0 || (owner == OF_LIBRARY && next < end && read_place(here, next) < 0)) {
            Py_DECREF(here);
            return -1;
        }
        if (owner == OF_LIBRARY && next < end) {
            next += 2;
        }
        PyObject *back = PyObject_GetAttr(here, names.f_back);
        Py_DECREF(here);
        if (!back) {
            return -1;
        }
        here = back;
    }
    Py_DECREF(here);
    return NOTHING_OF_USER;
}

/* Let Python find the site, and describe it if it is new. */
static int64_t ask_for_number(RecordWriter *writer, PyObject *frame) {
    PyObject *found = PyObject_CallMethodObjArgs(writer->sites, names.number, frame, NULL);
    long long site = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(found);
    if (!PyErr_Occurred() && (site < 0 || site > UINT32_MAX)) {
        PyErr_SetString(PyExc_OverflowError, "a record has 32 bits for a site");
    }
    return PyErr_Occurred() ? -1 : site;
}

int64_t site_of(RecordWriter *writer, PyObject *frame) {
    uint64_t key[LIBRARY_KEY];
    if (read_places(frame, key) < 0) {
        return -1;
    }
    int64_t site = find_number(&writer->direct_sites, key);
    if (site) {
        return site;
    }
    int further_in = read_library_key(writer, frame, key);
    if (further_in == -1) {
        return -1;
    }
    NumberTable *table = further_in == 0 ? &writer->direct_sites : &writer->library_sites;
    site = further_in == NOTHING_OF_USER ? 0 : find_number(table, key);
    if (!site) {
        site = ask_for_number(writer, frame);
        if (site > 0 && further_in >= 0 && !add_number(table, key, (uint32_t)site)) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return site;
}

uint64_t count_at_site(RecordWriter *writer, int64_t site) {
    size_t place = (size_t)site;
    if (place >= writer->num_site_counts) {
        size_t num = 2 * place + 64;
        uint64_t *counts = realloc(writer->site_counts, num * sizeof *counts);
        if (!counts) {
            PyErr_NoMemory();
            return 0;
        }
        memset(counts + writer->num_site_counts, 0, (num - writer->num_site_counts) * sizeof *counts);
        writer->site_counts = counts;
        writer->num_site_counts = num;
    }
    return ++writer->site_counts[place];
}
