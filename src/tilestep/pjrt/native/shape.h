/* Shapes of arrays, and layouts: the order of their dimensions in memory. */
#ifndef TILESTEP_SHAPE_H
#define TILESTEP_SHAPE_H
#include "native.h"

typedef struct {
  PyObject_HEAD
  PyObject* form; /* bytes: the order as text */
} Layout;

typedef struct {
  PyObject_HEAD
  int type; /* PJRT_Buffer_Type */
  size_t rank;
  int64_t* dims; /* rank entries, then minor_to_major's */
  int64_t* minor_to_major;
  long long size_bytes;
  PyObject* layout; /* Layout with the same order */
} Shape;

extern PyTypeObject *ts_shape_type, *ts_layout_type;
extern PyType_Spec ts_shape_spec, ts_layout_spec;

#endif
