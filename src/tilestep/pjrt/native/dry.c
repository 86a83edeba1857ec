/* Whether dry runs are under way. */
#include "dry.h"

volatile long ts_dry;

PyObject* ts_count_dry(PyObject* module, PyObject* change) {
  (void)module;
  long more = PyLong_AsLong(change);
  if (more == -1 && PyErr_Occurred()) return NULL;
  ts_dry = ts_dry + more;
  Py_RETURN_NONE;
}
