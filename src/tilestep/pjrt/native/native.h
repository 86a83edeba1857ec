/* What every C file of the platform needs: Python, PJRT's layout, and how an entry point enters Python.
 *
 * PJRT's Buffer, Executable and Device pointers are pointers to the Python objects themselves, and each handle owns one reference. A
 * PJRT_Memory and a PJRT_Error must begin with a table of their own, and a PJRT_Event is made without the GIL: these three are C structs.
 */
#ifndef TILESTEP_NATIVE_H
#define TILESTEP_NATIVE_H
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>

/* From Python 3.12 on None is immortal, so its header's macro takes no reference. Python 3.11, which the same build serves, would free None
 * in the end. */
#undef Py_RETURN_NONE
#define Py_RETURN_NONE return Py_NewRef(Py_None)

#include "pjrt_layout.h"

/* Takes the GIL and puts a pending exception aside, because JAX's destructors call in while one is raised. TS_LEAVE restores both. */
#define TS_ENTER                                 \
  PyGILState_STATE ts_gil = PyGILState_Ensure(); \
  PyObject *ts_type, *ts_value, *ts_trace;       \
  PyErr_Fetch(&ts_type, &ts_value, &ts_trace)
#define TS_LEAVE                              \
  PyErr_Restore(ts_type, ts_value, ts_trace); \
  PyGILState_Release(ts_gil)

#endif
