/* Shutdown: which threads may still enter Python.
 *
 * Python ends a daemon thread where it next wants the GIL. Inside JAX's C++ that takes the process down. So daemon threads are held back:
 * at their next entry they stay in here until the process has ended.
 */
#define _DEFAULT_SOURCE /* pause */

#include "functions.h"

#include <stdlib.h>
#include <unistd.h>

volatile int ts_stage;
static unsigned long closing_thread;

typedef struct Held { /* never freed */
  unsigned long thread;
  volatile int stays;
  struct Held* next;
} Held;
static Held* volatile held_threads;

int ts_may_enter(void) {
  return ts_stage == TS_OPEN || ts_stage == TS_SHUTTING_DOWN || (ts_stage == TS_CLOSING && PyThread_get_thread_ident() == closing_thread);
}
static Held* held_of(unsigned long thread) {
  for (Held* held = held_threads; held; held = held->next)
    if (held->thread == thread) return held;
  return NULL;
}
int ts_may_begin(void) {
  if (ts_stage == TS_OPEN) return 1;
  Held* self = held_of(PyThread_get_thread_ident());
  if (!self) return ts_may_enter();
  if (ts_stage == TS_SHUTTING_DOWN) {
    (void)PyGILState_Ensure(); /* the thread may have the GIL or not; it gives it up */
    (void)PyEval_SaveThread();
  }
  self->stays = 1;
  for (;;) pause();
}
PyObject* ts_hold_back(PyObject* module, PyObject* thread) {
  (void)module;
  unsigned long number = PyLong_AsUnsignedLong(thread);
  if (PyErr_Occurred()) return NULL;
  Held* held = held_of(number);
  if (!held) {
    if (!(held = calloc(1, sizeof(Held)))) return PyErr_NoMemory();
    held->thread = number;
    held->next = held_threads;
    held_threads = held;
  }
  if (ts_stage == TS_OPEN) ts_stage = TS_SHUTTING_DOWN;
  return PyBool_FromLong(held->stays);
}
PyObject* ts_close(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  closing_thread = PyThread_get_thread_ident();
  ts_stage = TS_CLOSING;
  Py_RETURN_NONE;
}
