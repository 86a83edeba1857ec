/* Whether a recording keeps the calls of the host program. */
#ifndef TILESTEP_WATCHED_H
#define TILESTEP_WATCHED_H
#include "native.h"

extern volatile int ts_watched; /* while it is set, Python makes the entries of runs, puts and reads, because they have a line each */
PyObject* ts_set_watched(PyObject* module, PyObject* watched);

#endif
