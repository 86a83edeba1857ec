/* Whether dry runs are under way. */
#ifndef TILESTEP_DRY_H
#define TILESTEP_DRY_H
#include "native.h"

extern volatile long ts_dry; /* dry runs under way and their values: while there are any, Python looks at every value */
PyObject* ts_count_dry(PyObject* module, PyObject* change);

#endif
