/* Calls of XLA:CPU's arrays, which compute the values. They need the GIL. */
#include "functions.h"

static _Thread_local int in_call;

int ts_in_host_call(void) { return in_call; }
static PyObject* call(PyObject* array, const char* method) {
  int before = in_call;
  in_call = 1;
  PyObject* result = PyObject_CallMethod(array, method, NULL);
  in_call = before;
  return result;
}
PyObject* ts_wait_for(PyObject* array) { return call(array, "block_until_ready"); }
PyObject* ts_ask_whether_ready(PyObject* array) { return call(array, "is_ready"); }
int ts_is_ready(PyObject* array) {
  PyObject* ready = ts_ask_whether_ready(array);
  if (!ready) { /* deleted or failed: a wait returns at once */
    int cannot_say = PyErr_ExceptionMatches(PyExc_AttributeError);
    ts_forget_error();
    return !cannot_say;
  }
  int yes = PyObject_IsTrue(ready);
  Py_DECREF(ready);
  return yes;
}
