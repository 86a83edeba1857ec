/* Runs of a program. */
#ifndef TILESTEP_EXECUTE_H
#define TILESTEP_EXECUTE_H
#include "native.h"

extern PyType_Spec ts_executable_spec;
PyObject* ts_once(PyObject* module, PyObject* args);
void ts_fill_executable_entries(PJRT_Api* api);

#endif
