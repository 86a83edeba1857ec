/* The HLO of a program that XLA compiles. */
#ifndef TILESTEP_HLO_H
#define TILESTEP_HLO_H
#include "native.h"

PyObject* ts_hlo_taker(PyObject* module, PyObject* args);

#endif
