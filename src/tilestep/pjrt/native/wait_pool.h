/* The pool of threads that wait for events (wait_pool.py starts them). */
#ifndef TILESTEP_WAIT_POOL_H
#define TILESTEP_WAIT_POOL_H
#include "event.h"
#include "native.h"

void ts_finish_later(Request* request); /* a thread of the pool waits and calls back; takes the request. Needs no GIL */
PyObject* ts_serve_waits(PyObject* module, PyObject* grow);
PyObject* ts_pending_waits(PyObject* module, PyObject* unused);
void ts_prepare_pool_for_forks(void);

#endif
