/* Calls of XLA:CPU's arrays, which compute the values. */
#ifndef TILESTEP_HOST_ARRAY_H
#define TILESTEP_HOST_ARRAY_H
#include "native.h"

PyObject* ts_wait_for(PyObject* array);          /* its block_until_ready() */
PyObject* ts_ask_whether_ready(PyObject* array); /* its is_ready() */
int ts_is_ready(PyObject* array);                /* whether a wait would return at once */
int ts_in_host_call(void); /* whether this thread is in one of these calls, which ask nothing of the platform */

#endif
