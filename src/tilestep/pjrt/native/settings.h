/* Whether the settings are still those that Python has looked at. */
#ifndef TILESTEP_SETTINGS_H
#define TILESTEP_SETTINGS_H
#include "native.h"

int ts_same_settings(void); /* with the GIL: Python's threads then leave the environment alone */
PyObject* ts_same_settings_for_python(PyObject* module, PyObject* unused);
PyObject* ts_note_settings(PyObject* module, PyObject* seen);

#endif
