/* Elements of a dataset, copied one after the other into the rows of a chunk. */
#ifndef TILESTEP_GATHER_H
#define TILESTEP_GATHER_H
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

PyObject* gather(PyObject* module, PyObject* args);

#endif
