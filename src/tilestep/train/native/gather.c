/* Elements of a dataset, copied one after the other into the rows of a chunk.
 *
 * For small elements this loop is what feeding costs, and in Python it takes longer than a small training step. It knows plain containers
 * of NumPy's own arrays that are just as they should be. Whatever else comes out of the dataset is handed back, to be judged with a
 * message or converted elsewhere; so is an element with a whole number of 64 bits that the row's 32 do not hold.
 */
#define _POSIX_C_SOURCE 200809L
#include "gather.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGE_BYTES = 1 << 16 }; /* a copy from this size on lets other threads run Python */
#if defined(__GNUC__) && !defined(__clang__)
#define FOR_MANY __attribute__((optimize("O3"))) /* GCC uses vectors from there on only: three times as fast */
#else
#define FOR_MANY
#endif

enum { GATHERED = 0, ODD = 1, RAISED = 2, OVER = 3 };

typedef struct {
  PyObject* array;    /* where rows go */
  Py_buffer rows;     /* its memory */
  const char* format; /* of an element's array, as buffers name it */
  int same;           /* whether that is the rows' format, too */
  char narrows;       /* 'i', 'I': it is of signed, unsigned whole numbers of 64 bits, and the rows' of 32; else 0 */
  Py_ssize_t bytes;   /* of a row */
  PyObject* found;    /* the array of the element at hand */
} Leaf;

typedef struct {
  PyObject* array_type;
  Leaf* leaves;
  Py_ssize_t count;
} Leaves;

static double wall_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Finds an element's leaves. A skeleton is a leaf's number, or (type, keys or None, skeletons of the children).
 * Returns: 1 if the element is so, 0 if it is not, -1 with an error set. */
static int match(const Leaves* leaves, PyObject* skeleton, PyObject* element) {
  if (PyLong_Check(skeleton)) {
    Py_ssize_t index = PyLong_AsSsize_t(skeleton);
    if (index < 0 || index >= leaves->count) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "a skeleton has a leaf that there is no array for");
      return -1;
    }
    if ((PyObject*)Py_TYPE(element) != leaves->array_type) return 0;
    Py_CLEAR(leaves->leaves[index].found);
    leaves->leaves[index].found = Py_NewRef(element);
    return 1;
  }
  PyObject *type, *keys, *children;
  if (!PyArg_ParseTuple(skeleton, "OOO!", &type, &keys, &PyTuple_Type, &children)) return -1;
  if ((PyObject*)Py_TYPE(element) != type) return 0;
  Py_ssize_t size = PyTuple_Size(children);
  int is_dict = PyDict_Check(element), is_tuple = PyTuple_Check(element), is_list = PyList_Check(element);
  if (!is_dict && !is_tuple && !is_list) return size == 0; /* None */
  if ((is_dict ? PyDict_Size(element) : is_tuple ? PyTuple_Size(element) : PyList_Size(element)) != size) return 0;
  for (Py_ssize_t i = 0; i < size; i++) {
    PyObject* key = is_dict ? PyTuple_GetItem(keys, i) : NULL;
    if (is_dict && !key) return -1;
    PyObject* child = is_dict ? PyDict_GetItemWithError(element, key) : is_tuple ? PyTuple_GetItem(element, i) : PyList_GetItem(element, i);
    if (!child) return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(child); /* a key's comparison, or another thread, may change the container */
    int found = match(leaves, PyTuple_GetItem(children, i), child);
    Py_DECREF(child);
    if (found <= 0) return found;
  }
  return 1;
}

static int is_64(const char* format, char signedness) {
  char quad = signedness == 'i' ? 'q' : 'Q', word = signedness == 'i' ? 'l' : 'L';
  return (format[0] == quad || (format[0] == word && sizeof(long) == 8)) && !format[1];
}

/* 'i', 'I', or 0: as `narrows` of a leaf. */
static char narrows(const char* from, const char* to) {
  char signedness = (to[0] == 'i' || to[0] == 'I') && !to[1] ? to[0] : 0;
  return signedness && is_64(from, signedness) ? signedness : 0;
}

/* Copies whole numbers of 64 bits to 32. Returns: whether all of them are the same there. */
FOR_MANY static int narrow(char* to, const char* from, Py_ssize_t count, char signedness) {
  const uint64_t offset = signedness == 'i' ? (uint64_t)1 << 31 : 0; /* the least number of 32 bits becomes 0 */
  uint64_t bits = 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    uint64_t wide;
    memcpy(&wide, from + i * 8, 8); /* NumPy's arrays need not be aligned */
    uint32_t slim = (uint32_t)wide;
    memcpy(to + i * 4, &slim, 4);
    bits |= wide + offset;
  }
  return !(bits >> 32);
}

/* Copies a leaf into row `row`. Returns: 1, 0 if it is another kind of array than it should be, -1 with an error set. */
static int copy(Leaf* leaf, Py_ssize_t row) {
  Py_buffer view;
  if (PyObject_GetBuffer(leaf->found, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
    PyErr_Clear(); /* NumPy's own copy knows arrays of any strides and of any dtype */
    return 0;
  }
  int alike = view.ndim == leaf->rows.ndim - 1 && view.format && strcmp(view.format, leaf->format) == 0;
  for (int d = 0; alike && d < view.ndim; d++) alike = view.shape[d] == leaf->rows.shape[d + 1];
  char* to = (char*)leaf->rows.buf + row * leaf->bytes;
  int known = leaf->same || leaf->narrows;
  if (alike && leaf->narrows) {
    if (leaf->bytes >= LARGE_BYTES) {
      Py_BEGIN_ALLOW_THREADS;
      alike = narrow(to, view.buf, leaf->bytes / 4, leaf->narrows);
      Py_END_ALLOW_THREADS;
    } else alike = narrow(to, view.buf, leaf->bytes / 4, leaf->narrows);
  } else if (alike && leaf->same) {
    if (leaf->bytes >= LARGE_BYTES) {
      Py_BEGIN_ALLOW_THREADS;
      memcpy(to, view.buf, (size_t)leaf->bytes);
      Py_END_ALLOW_THREADS;
    } else if (leaf->bytes) memcpy(to, view.buf, (size_t)leaf->bytes);
  }
  PyBuffer_Release(&view);
  if (!alike || known) return alike;
  PyObject* index = PyLong_FromSsize_t(row);
  int failed = !index || PyObject_SetItem(leaf->array, index, leaf->found) < 0;
  Py_XDECREF(index);
  return failed ? -1 : 1;
}

static int take(Leaves* leaves, PyObject* skeleton, PyObject* element, Py_ssize_t row) {
  int found = match(leaves, skeleton, element);
  for (Py_ssize_t i = 0; found > 0 && i < leaves->count; i++) found = leaves->leaves[i].found ? copy(&leaves->leaves[i], row) : 0;
  for (Py_ssize_t i = 0; i < leaves->count; i++) Py_CLEAR(leaves->leaves[i].found);
  return found;
}

static void release(Leaves* leaves) {
  for (Py_ssize_t i = 0; i < leaves->count; i++) PyBuffer_Release(&leaves->leaves[i].rows);
  free(leaves->leaves);
}

/* The arrays that rows go to. Returns: -1 with an error set, and then nothing is held. */
static int open_leaves(Leaves* leaves, PyObject* given, Py_ssize_t end) {
  Py_ssize_t count = PyTuple_Size(given);
  leaves->count = 0;
  leaves->leaves = calloc(count ? (size_t)count : 1, sizeof(Leaf));
  if (!leaves->leaves) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    Leaf* leaf = &leaves->leaves[i];
    if (!PyArg_ParseTuple(PyTuple_GetItem(given, i), "Os", &leaf->array, &leaf->format)) break;
    if (PyObject_GetBuffer(leaf->array, &leaf->rows, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) break;
    leaves->count++;
    if (leaf->rows.ndim < 1 || leaf->rows.shape[0] < end || !leaf->rows.format) {
      PyErr_SetString(PyExc_ValueError, "an array has fewer rows than are wanted");
      break;
    }
    leaf->same = strcmp(leaf->rows.format, leaf->format) == 0;
    leaf->narrows = narrows(leaf->format, leaf->rows.format);
    leaf->bytes = leaf->rows.shape[0] ? leaf->rows.len / leaf->rows.shape[0] : 0;
  }
  if (!PyErr_Occurred()) return 0;
  release(leaves);
  return -1;
}

/* gather(iterator, skeleton, ((rows, format of an element's array), ...), array type, row, end, seconds) -> (elements, outcome, value) */
PyObject* gather(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *iterator, *skeleton, *given, *value = NULL;
  Leaves leaves;
  Py_ssize_t row, end;
  double seconds;
  if (!PyArg_ParseTuple(args, "OOO!Onnd", &iterator, &skeleton, &PyTuple_Type, &given, &leaves.array_type, &row, &end, &seconds)) return NULL;
  if (!PyIter_Check(iterator)) return PyErr_Format(PyExc_TypeError, "%R is no iterator", iterator);
  if (row < 0) return PyErr_Format(PyExc_ValueError, "row is %zd", row);
  if (open_leaves(&leaves, given, end) < 0) return NULL;
  const Py_ssize_t first = row;
  int outcome = GATHERED;
  for (double until = wall_s() + seconds; row < end;) {
    PyObject* element = PyIter_Next(iterator);
    if (!element) {
      outcome = PyErr_Occurred() ? RAISED : OVER;
      break;
    }
    int taken = take(&leaves, skeleton, element, row);
    if (taken <= 0) {
      outcome = taken < 0 ? RAISED : ODD;
      if (outcome == ODD) value = element;
      else Py_DECREF(element);
      break;
    }
    Py_DECREF(element);
    row++;
    if (wall_s() >= until) break;
  }
  if (outcome == RAISED) { /* what was gathered before counts: the caller hears of both */
    PyObject *type, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
  }
  release(&leaves);
  return Py_BuildValue("(niN)", row - first, outcome, value ? value : Py_NewRef(Py_None));
}
