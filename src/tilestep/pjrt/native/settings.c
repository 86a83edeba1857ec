/* Whether the settings are still those that Python has looked at. Reading each variable in Python would cost as much as a dispatch. */

#include "functions.h"

#include <string.h>

static const char* const BEGINS[] = {"JAX_IPU_", "TILESTEP_", "POPLAR_ENGINE_OPTIONS"};
extern char** environ;
static uint64_t noted;

/* 64-bit FNV-1a of all variables that may be settings (settings.py); never 0. */
static uint64_t stated(void) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char** each = environ; each && *each; each++)
    for (size_t i = 0; i < sizeof(BEGINS) / sizeof(BEGINS[0]); i++)
      if (**each == *BEGINS[i] && !strncmp(*each, BEGINS[i], strlen(BEGINS[i])))
        for (const char* byte = *each;; byte++) {
          hash = (hash ^ (unsigned char)*byte) * 0x100000001B3u;
          if (!*byte) break;
        }
  return hash | 1;
}

int ts_same_settings(void) { return noted == stated(); }

PyObject* ts_same_settings_for_python(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(ts_same_settings());
}

PyObject* ts_note_settings(PyObject* module, PyObject* seen) {
  (void)module;
  int is = PyObject_IsTrue(seen);
  if (is < 0) return NULL;
  noted = is ? stated() : 0;
  Py_RETURN_NONE;
}

volatile long ts_dry;

PyObject* ts_count_dry(PyObject* module, PyObject* change) {
  (void)module;
  long more = PyLong_AsLong(change);
  if (more == -1 && PyErr_Occurred()) return NULL;
  ts_dry = ts_dry + more;
  Py_RETURN_NONE;
}

volatile int ts_watched;

PyObject* ts_set_watched(PyObject* module, PyObject* watched) {
  (void)module;
  int is = PyObject_IsTrue(watched);
  if (is < 0) return NULL;
  ts_watched = is;
  Py_RETURN_NONE;
}
