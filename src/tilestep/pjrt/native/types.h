/* Helpers for the types that are made in C. */
#ifndef TILESTEP_TYPES_H
#define TILESTEP_TYPES_H
#include "native.h"

void ts_plain_dealloc(PyObject* self);
int ts_no_keywords(PyObject* kwargs, const char* name); /* -1 and an exception if there are any */

#endif
