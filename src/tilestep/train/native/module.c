/* The module that Python sees: it feeds and drains the queues, and gives XLA the functions that programs call. */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "ffi.h"
#include "gather.h"
#include "queue.h"

/* From Python 3.12 on None is immortal, so the header's own macro takes no reference. Python 3.11, which the same build serves, would free
 * None in the end. */
#undef Py_RETURN_NONE
#define Py_RETURN_NONE return Py_NewRef(Py_None)

/* 0; -1 with a ValueError for a platform without feeds */
static int require_platform(int platform) {
  if (platform >= 0 && platform < num_platforms) return 0;
  PyErr_Format(PyExc_ValueError, "platform %d has no feeds", platform);
  return -1;
}

/* put(platform, ordinal, ((dtype code, dims, buffer), ...)) */
static PyObject* put(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal;
  PyObject* leaves;
  if (!PyArg_ParseTuple(args, "iiO!", &platform, &ordinal, &PyTuple_Type, &leaves) || require_platform(platform) < 0) return NULL;
  Py_ssize_t count = PyTuple_Size(leaves), viewed = 0;
  Element* element = element_make((size_t)count);
  Py_buffer* views = calloc((size_t)(count ? count : 1), sizeof(Py_buffer));
  if (!element || !views) {
    PyErr_NoMemory();
    goto fail;
  }
  element->count = (int)count;
  for (; viewed < count; viewed++) {
    PyObject *dims, *source;
    Leaf* leaf = &element->leaves[viewed];
    if (!PyArg_ParseTuple(PyTuple_GetItem(leaves, viewed), "iO!O", &leaf->code, &PyTuple_Type, &dims, &source)) goto fail;
    leaf->rank = (int)PyTuple_Size(dims);
    if (leaf->rank > MAX_RANK || !dtype_of(leaf->code)) {
      PyErr_Format(PyExc_ValueError, "leaf %zd has %d dimensions and dtype code %d: at most %d, and a known code", viewed, leaf->rank, leaf->code,
                   MAX_RANK);
      goto fail;
    }
    for (int d = 0; d < leaf->rank; d++) leaf->dims[d] = PyLong_AsLongLong(PyTuple_GetItem(dims, d));
    if (PyErr_Occurred() || PyObject_GetBuffer(source, &views[viewed], PyBUF_SIMPLE) < 0) goto fail;
  }
  if (!element_take_memory(element)) {
    PyErr_NoMemory();
    goto fail;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    if ((size_t)views[i].len != element->leaves[i].bytes) {
      PyErr_Format(PyExc_ValueError, "leaf %zd has %zd bytes, but its shape has %zu", i, views[i].len, element->leaves[i].bytes);
      goto fail;
    }
  int outcome;
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t i = 0; i < count; i++)
    if (views[i].len) memcpy(element->data + element->leaves[i].offset, views[i].buf, (size_t)views[i].len);
  outcome = infeed_add(platform, ordinal, element);
  Py_END_ALLOW_THREADS;
  if (outcome != ADDED) {
    PyErr_SetString(PyExc_RuntimeError, outcome == CLOSED ? "the process is ending: its feeds are closed" : "no memory for an infeed's queue");
    goto fail;
  }
  for (Py_ssize_t i = 0; i < count; i++) PyBuffer_Release(&views[i]);
  free(views);
  Py_RETURN_NONE;
fail:
  for (Py_ssize_t i = 0; i < viewed; i++) PyBuffer_Release(&views[i]);
  free(views);
  element_free(element);
  return NULL;
}

/* get(platform, ordinal, seconds to wait or None) -> ((dtype code, dims, bytearray), ...); None if no element came in time */
static PyObject* get(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal;
  PyObject* seconds;
  if (!PyArg_ParseTuple(args, "iiO", &platform, &ordinal, &seconds) || require_platform(platform) < 0) return NULL;
  double patience = seconds == Py_None ? timeout_get() : PyFloat_AsDouble(seconds);
  if (PyErr_Occurred()) return NULL;
  double until = patience < 0 ? -1 : wall_now_s() + patience;
  Element* element = NULL;
  for (;;) {
    int late;
    Py_BEGIN_ALLOW_THREADS;
    element = outfeed_take(platform, ordinal, until, &late);
    Py_END_ALLOW_THREADS;
    if (element) break;
    if (PyErr_CheckSignals() < 0) return NULL;
    if (late) Py_RETURN_NONE;
  }
  PyObject* result = PyTuple_New(element->count);
  for (int i = 0; result && i < element->count; i++) {
    Leaf* leaf = &element->leaves[i];
    PyObject* dims = PyTuple_New(leaf->rank);
    for (int d = 0; dims && d < leaf->rank; d++) PyTuple_SetItem(dims, d, PyLong_FromLongLong(leaf->dims[d]));
    PyObject* bytes = dims ? PyByteArray_FromStringAndSize(element->data + leaf->offset, (Py_ssize_t)leaf->bytes) : NULL;
    if (!bytes) Py_CLEAR(dims);
    PyObject* entry = bytes ? Py_BuildValue("(iNN)", leaf->code, dims, bytes) : NULL;
    if (!entry) Py_CLEAR(result);
    else PyTuple_SetItem(result, i, entry);
  }
  element_free(element);
  return result;
}

/* length(platform, ordinal, outward) */
static PyObject* length(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal, outward;
  if (!PyArg_ParseTuple(args, "iip", &platform, &ordinal, &outward) || require_platform(platform) < 0) return NULL;
  return PyLong_FromSize_t(queue_length(platform, ordinal, outward));
}

/* clear(platform, ordinal, outward) -> how many elements were dropped */
static PyObject* clear(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal, outward;
  if (!PyArg_ParseTuple(args, "iip", &platform, &ordinal, &outward) || require_platform(platform) < 0) return NULL;
  size_t dropped;
  Element* element = queue_clear(platform, ordinal, outward, &dropped);
  while (element) {
    Element* next = element->next;
    element_free(element);
    element = next;
  }
  return PyLong_FromSize_t(dropped);
}

/* set_timeout(seconds; negative: for ever) -> the timeout before */
static PyObject* set_timeout(PyObject* module, PyObject* args) {
  (void)module;
  double seconds;
  if (!PyArg_ParseTuple(args, "d", &seconds)) return NULL;
  return PyFloat_FromDouble(timeout_set(seconds));
}

/* close(): refuses programs that wait, and programs that will ask */
static PyObject* close_all(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  queues_close();
  Py_RETURN_NONE;
}

static PyObject* targets(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  return Py_BuildValue("(NNN)", PyCapsule_New((void*)infeed, NULL, NULL), PyCapsule_New((void*)outfeed, NULL, NULL),
                       PyCapsule_New((void*)unknown_zero, NULL, NULL));
}
static PyObject* dtype_codes(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  PyObject* codes = PyDict_New();
  for (int i = 0; codes && i < num_dtypes; i++) {
    PyObject* code = PyLong_FromLong(dtypes[i].code);
    if (!code || PyDict_SetItemString(codes, dtypes[i].name, code) < 0) Py_CLEAR(codes);
    Py_XDECREF(code);
  }
  return codes;
}

static PyMethodDef methods[] = {{"put", put, METH_VARARGS, "Copies an element into the infeed of a device."},
                                {"get", get, METH_VARARGS, "Takes an element out of the outfeed of a device, or None in time."},
                                {"length", length, METH_VARARGS, "Elements in a queue."},
                                {"clear", clear, METH_VARARGS, "Drops a queue's elements; how many."},
                                {"set_timeout", set_timeout, METH_VARARGS, "How long programs wait for data, in seconds; what it was."},
                                {"close", close_all, METH_NOARGS, "Refuses programs that wait, or will ask."},
                                {"targets", targets, METH_NOARGS, "The functions that XLA calls: for infeeds, for outfeeds, for a zero that it doesn't know."},
                                {"gather", gather, METH_VARARGS, "Copies elements of an iterator into the rows of arrays."},
                                {"dtype_codes", dtype_codes, METH_NOARGS, "XLA's number of each dtype that can be fed, by NumPy's name."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_feeds", "Queues of infeeds and outfeeds (native/module.c).", -1, methods, NULL, NULL,
                                        NULL, NULL};

PyMODINIT_FUNC PyInit__feeds(void) { return PyModule_Create(&definition); }
