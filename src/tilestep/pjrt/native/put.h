/* Values from the host. */
#ifndef TILESTEP_PUT_H
#define TILESTEP_PUT_H
#include "native.h"

PyObject* ts_configure_puts(PyObject* module, PyObject* args);
void ts_fill_put_entries(PJRT_Api* api);

#endif
