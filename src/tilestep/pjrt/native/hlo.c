/* The HLO of a program that XLA compiles. This is C so that no signal's handler runs inside XLA, which would turn the handler's exception
 * into an error of its own. */

#include "functions.h"

#include <string.h>

enum { NAME = 2 }; /* where a module's name begins: it is field 1, and its length takes one byte where it is shorter than 128 */

/* Keeps a module whose name begins with the tag, and ends its compilation. self: (tag, dict of modules by name). */
static PyObject* take(PyObject* self, PyObject* module) {
  PyObject *tag = PyTuple_GetItem(self, 0), *modules = PyTuple_GetItem(self, 1), *name = NULL, *copy = NULL;
  Py_buffer view;
  if (PyObject_GetBuffer(module, &view, PyBUF_SIMPLE) < 0) return NULL;
  const unsigned char* data = view.buf;
  Py_ssize_t size = PyBytes_Size(tag);
  if (view.len < NAME + size || data[1] < size || data[1] > view.len - NAME || memcmp(data + NAME, PyBytes_AsString(tag), (size_t)size)) {
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
  }
  name = PyUnicode_DecodeUTF8((const char*)data + NAME, data[1], NULL);
  copy = PyBytes_FromStringAndSize(view.buf, view.len);
  if (name && copy && !PyDict_SetItem(modules, name, copy)) PyErr_SetString(PyExc_RuntimeError, "this was all that was wanted of the program");
  Py_XDECREF(name);
  Py_XDECREF(copy);
  PyBuffer_Release(&view);
  return NULL;
}

static PyMethodDef taker = {"take", take, METH_O, "keeps a module's bytes and ends its compilation"};

PyObject* ts_hlo_taker(PyObject* module, PyObject* args) {
  PyObject *tag, *modules;
  (void)module;
  if (!PyArg_ParseTuple(args, "SO!", &tag, &PyDict_Type, &modules)) return NULL;
  PyObject* self = PyTuple_Pack(2, tag, modules);
  PyObject* function = self ? PyCFunction_NewEx(&taker, self, NULL) : NULL;
  Py_XDECREF(self);
  return function;
}
