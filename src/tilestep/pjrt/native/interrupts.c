/* Interrupts: exceptions that a signal's handler raises in the midst of our work. They are raised again when the work is done. */
#include "functions.h"

int ts_interrupted(void) { return PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception); }
PyObject* ts_take_interrupt(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Py_XDECREF(type), Py_XDECREF(trace);
  return value;
}
int ts_put_off(PyObject** interrupt) {
  if (!ts_interrupted()) return 0;
  Py_XDECREF(*interrupt); /* one of several is enough */
  *interrupt = ts_take_interrupt();
  return 1;
}
static int raise_later(void* error) {
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_DECREF((PyObject*)error);
  return -1;
}
void ts_interrupt_later(PyObject* error) {
  if (error && Py_AddPendingCall(raise_later, error) < 0) { /* too many calls are pending: SIGINT's own flag always gets through */
    Py_DECREF(error);
    PyErr_SetInterrupt();
  }
}
void ts_forget_error(void) {
  if (ts_interrupted()) ts_interrupt_later(ts_take_interrupt());
  else PyErr_Clear();
}
