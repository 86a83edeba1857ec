/* Shapes of arrays, and layouts: the order of their dimensions in memory. */
#include "functions.h"
#include "shape.h"

#include <stdlib.h>


PyTypeObject *ts_shape_type, *ts_layout_type;

static PyObject* layout_make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* form;
  if (ts_no_keywords(kwargs, "Layout") < 0 || !PyArg_ParseTuple(args, "S", &form)) return NULL;
  Layout* self = (Layout*)PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  Py_INCREF(form);
  self->form = form;
  return (PyObject*)self;
}
static void layout_dealloc(PyObject* self) {
  Py_XDECREF(((Layout*)self)->form);
  ts_plain_dealloc(self);
}
static PyMemberDef layout_members[] = {{"form", T_OBJECT, offsetof(Layout, form), READONLY, "as text: b'{1,0}'"}, {NULL, 0, 0, 0, NULL}};
static PyType_Slot layout_slots[] = {{Py_tp_new, layout_make}, {Py_tp_dealloc, layout_dealloc}, {Py_tp_members, layout_members}, {0, NULL}};
PyType_Spec ts_layout_spec = {"tilestep.pjrt._native.Layout", sizeof(Layout), 0, Py_TPFLAGS_DEFAULT, layout_slots};

static PyObject* shape_make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  int code;
  PyObject *dims, *order, *layout;
  long long size_bytes;
  if (ts_no_keywords(kwargs, "Shape") < 0 ||
      !PyArg_ParseTuple(args, "iO!O!LO!", &code, &PyTuple_Type, &dims, &PyTuple_Type, &order, &size_bytes, ts_layout_type, &layout))
    return NULL;
  Py_ssize_t rank = PyTuple_Size(dims);
  if (PyTuple_Size(order) != rank) return PyErr_Format(PyExc_ValueError, "minor_to_major has another rank than dims");
  Shape* self = (Shape*)PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  self->type = code;
  self->rank = (size_t)rank;
  self->size_bytes = size_bytes;
  Py_INCREF(layout);
  self->layout = layout;
  self->dims = calloc((size_t)(2 * rank + 1), sizeof(int64_t));
  if (!self->dims) {
    Py_DECREF((PyObject*)self);
    return PyErr_NoMemory();
  }
  self->minor_to_major = self->dims + rank;
  for (Py_ssize_t i = 0; i < rank; i++) {
    self->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
    self->minor_to_major[i] = PyLong_AsLongLong(PyTuple_GetItem(order, i));
  }
  if (PyErr_Occurred()) {
    Py_DECREF((PyObject*)self);
    return NULL;
  }
  return (PyObject*)self;
}
static void shape_dealloc(PyObject* self) {
  free(((Shape*)self)->dims);
  Py_XDECREF(((Shape*)self)->layout);
  ts_plain_dealloc(self);
}
static PyMemberDef shape_members[] = {{"type", T_INT, offsetof(Shape, type), READONLY, "PJRT_Buffer_Type"},
                                      {"size_bytes", T_LONGLONG, offsetof(Shape, size_bytes), READONLY, "bytes on the device"},
                                      {NULL, 0, 0, 0, NULL}};
static PyType_Slot shape_slots[] = {{Py_tp_new, shape_make}, {Py_tp_dealloc, shape_dealloc}, {Py_tp_members, shape_members}, {0, NULL}};
PyType_Spec ts_shape_spec = {"tilestep.pjrt._native.Shape", sizeof(Shape), 0, Py_TPFLAGS_DEFAULT, shape_slots};
