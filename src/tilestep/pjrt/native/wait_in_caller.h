/* Functions of JAX whose questions and waits are answered in the thread that called them. */
#ifndef TILESTEP_WAIT_IN_CALLER_H
#define TILESTEP_WAIT_IN_CALLER_H
#include "native.h"

PyObject* ts_waits_in_its_thread(PyObject* module, PyObject* function);
PyObject* ts_answers_in_its_thread(PyObject* module, PyObject* function);
PyObject* ts_threads_waiting(PyObject* module, PyObject* unused);
int ts_add_caller_wait_type(void); /* -1 and an exception if it cannot be made */

#endif
