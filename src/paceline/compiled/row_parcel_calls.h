#ifndef PACELINE_ROW_PARCEL_CALLS_H
#define PACELINE_ROW_PARCEL_CALLS_H

#include <Python.h>

/* Add the functions for parcels of rows to the module. */
int add_row_parcels(PyObject *module);

#endif
