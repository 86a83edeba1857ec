/* jax.profiler: the table through which its sessions ask for the emulated timeline. */
#ifndef TILESTEP_PROFILER_H
#define TILESTEP_PROFILER_H
#include "native.h"

/* The extension behind which JAX finds the table. make_session(bytes of the session's options) gives an object with begin(), end() and
   data(), which gives bytes. Each may be called again after an interrupt. Returns: NULL if Python's module sys has not what it needs. */
void* ts_profiler_extension(PyObject* make_session);

#endif
