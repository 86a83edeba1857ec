/* Helpers for the types that are made in C. */
#include "functions.h"

void ts_plain_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

int ts_no_keywords(PyObject* kwargs, const char* name) {
  if (!kwargs || !PyDict_Size(kwargs)) return 0;
  PyErr_Format(PyExc_TypeError, "%s takes positional arguments only", name);
  return -1;
}
