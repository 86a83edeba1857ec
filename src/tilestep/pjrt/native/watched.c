/* Whether a recording keeps the calls of the host program. */
#include "watched.h"

volatile int ts_watched;

PyObject* ts_set_watched(PyObject* module, PyObject* watched) {
  (void)module;
  int is = PyObject_IsTrue(watched);
  if (is < 0) return NULL;
  ts_watched = is;
  Py_RETURN_NONE;
}
