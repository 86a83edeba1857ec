/* Shutdown: which threads may still enter Python. */
#ifndef TILESTEP_SHUTDOWN_H
#define TILESTEP_SHUTDOWN_H
#include "native.h"

/* SHUTTING_DOWN: threads that are held back come no further. CLOSING: only the thread that closed may enter. CLOSED: no thread may. */
enum { TS_OPEN, TS_SHUTTING_DOWN, TS_CLOSING, TS_CLOSED };
extern volatile int ts_stage;

int ts_may_enter(void);
int ts_may_begin(void); /* the same for new work; does not return in a thread that is held back */
PyObject* ts_hold_back(PyObject* module, PyObject* thread);
PyObject* ts_close(PyObject* module, PyObject* unused);

#endif
