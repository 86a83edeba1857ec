/* Entry points that JAX calls when the host looks at a value. */
#ifndef TILESTEP_READ_H
#define TILESTEP_READ_H
#include "native.h"

void ts_fill_read_entries(PJRT_Api* api, PJRT_Layouts_Extension* layouts);

#endif
