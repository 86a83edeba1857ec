/* Entry points about buffers. */
#ifndef TILESTEP_BUFFER_ENTRIES_H
#define TILESTEP_BUFFER_ENTRIES_H
#include "native.h"

PyObject* ts_guard_reads(PyObject* module, PyObject* guarded);
void ts_fill_buffer_entries(PJRT_Api* api);

#endif
