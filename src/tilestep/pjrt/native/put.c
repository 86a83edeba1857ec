/* Values from the host: dense arrays whose elements DLPack has a code for.
 *
 * Python makes the others (buffer.py). It also makes one of PYTHON_EVERY of these, because Python replays the journal now and then.
 */

#include "functions.h"

#include <string.h>

#include "buffer.h"
#include "event.h"

enum { SHAPES = 65536, PYTHON_EVERY = 64 };

static void* (*slow_put)(PJRT_Client_BufferFromHostBuffer_Args*);
static PyObject *take_over, *shape_of_code; /* (tensor, host device, None) -> array; (type, dims) -> Shape */
static PyObject* shapes;                    /* bytes of type and dims -> Shape */
static unsigned num_puts;

PyObject* ts_configure_puts(PyObject* module, PyObject* args) {
  PyObject *take, *shape;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &take, &shape)) return NULL;
  if (!shapes && !(shapes = PyDict_New())) return NULL;
  Py_INCREF(take), Py_INCREF(shape);
  Py_XDECREF(take_over), Py_XDECREF(shape_of_code);
  take_over = take;
  shape_of_code = shape;
  Py_RETURN_NONE;
}

typedef struct {
  uint8_t code, bytes; /* DLPack's; 0 bytes: none */
} Element;
static Element element_of(int type) {
  switch (type) {
    case PJRT_Buffer_Type_PRED: return (Element){6, 1};
    case PJRT_Buffer_Type_S8: return (Element){0, 1};
    case PJRT_Buffer_Type_S16: return (Element){0, 2};
    case PJRT_Buffer_Type_S32: return (Element){0, 4};
    case PJRT_Buffer_Type_S64: return (Element){0, 8};
    case PJRT_Buffer_Type_U8: return (Element){1, 1};
    case PJRT_Buffer_Type_U16: return (Element){1, 2};
    case PJRT_Buffer_Type_U32: return (Element){1, 4};
    case PJRT_Buffer_Type_U64: return (Element){1, 8};
    case PJRT_Buffer_Type_F16: return (Element){2, 2};
    case PJRT_Buffer_Type_F32: return (Element){2, 4};
    case PJRT_Buffer_Type_F64: return (Element){2, 8};
    case PJRT_Buffer_Type_BF16: return (Element){4, 2};
    case PJRT_Buffer_Type_C64: return (Element){5, 8};
    case PJRT_Buffer_Type_C128: return (Element){5, 16};
    default: return (Element){0, 0};
  }
}

/* Bytes of a dense, row-major array; -1 if it is not dense, not row-major, or too large to count. */
static int64_t dense_bytes(const PJRT_Client_BufferFromHostBuffer_Args* a, int64_t element_bytes) {
  const int64_t *dims = a->dims, *strides = a->byte_strides;
  int64_t size = element_bytes;
  for (size_t i = a->num_dims; i-- > 0;) {
    if (a->num_byte_strides && dims[i] > 1 && strides[i] != size) return -1;
    if (dims[i] < 0 || __builtin_mul_overflow(size, dims[i], &size)) return -1;
  }
  return size;
}

static PyObject* shape_for(int type, const int64_t* dims, size_t rank) {
  int64_t key[17] = {type};
  if (rank >= sizeof(key) / sizeof(key[0])) return NULL;
  if (rank) memcpy(key + 1, dims, rank * sizeof(int64_t));
  PyObject* name = PyBytes_FromStringAndSize((const char*)key, (Py_ssize_t)((rank + 1) * sizeof(int64_t)));
  if (!name) return NULL;
  PyObject* shape = PyDict_GetItemWithError(shapes, name);
  if (shape) {
    Py_INCREF(shape);
    Py_DECREF(name);
    return shape;
  }
  PyObject* tuple = PyErr_Occurred() ? NULL : PyTuple_New((Py_ssize_t)rank);
  for (size_t i = 0; tuple && i < rank; i++) PyTuple_SetItem(tuple, (Py_ssize_t)i, PyLong_FromLongLong(dims[i]));
  shape = tuple ? PyObject_CallFunction(shape_of_code, "iO", type, tuple) : NULL;
  if (PyDict_Size(shapes) >= SHAPES) PyDict_Clear(shapes);
  if (shape && PyDict_SetItem(shapes, name, shape) < 0) Py_CLEAR(shape);
  Py_XDECREF(tuple);
  Py_DECREF(name);
  return shape;
}

/* NULL, and perhaps an exception: Python says what is wrong. */
static Buffer* make(PyObject* device, Memory* memory, PyObject* tensor, int type, const int64_t* dims, size_t rank) {
  PyObject* note = PyObject_GetAttrString(device, "note_put"); /* (type of entry, function that appends it, IPU, XLA:CPU's device) */
  if (!note) return NULL;
  PyObject *shape = NULL, *array = NULL, *value = NULL, *size = NULL, *entry = NULL, *noted = NULL;
  Buffer* buffer = NULL;
  if (note != Py_None && (shape = shape_for(type, dims, rank)) &&
      (array = PyObject_CallFunctionObjArgs(take_over, tensor, PyTuple_GetItem(note, 3), Py_None, NULL)) &&
      (value = PyLong_FromUnsignedLongLong(ts_take_values(1))) && (size = PyLong_FromLongLong(((Shape*)shape)->size_bytes)) &&
      (entry = PyTuple_Pack(5, PyTuple_GetItem(note, 0), value, PyTuple_GetItem(note, 2), size, Py_False)) &&
      (noted = PyObject_CallFunctionObjArgs(PyTuple_GetItem(note, 1), entry, NULL)))
    buffer = ts_buffer_make(array, device, memory, (Shape*)shape, value);
  Py_XDECREF(shape), Py_XDECREF(array), Py_XDECREF(value), Py_XDECREF(size), Py_XDECREF(entry), Py_XDECREF(noted);
  Py_DECREF(note);
  return buffer;
}

static void* api_put(PJRT_Client_BufferFromHostBuffer_Args* a) {
  Element element = element_of(a->type);
  int64_t size = element.bytes && !a->device_layout && ts_may_begin() && !ts_dry && !ts_watched ? dense_bytes(a, element.bytes) : -1;
  Memory* memory = a->memory ? (Memory*)((MemoryHandle*)a->memory)->object : NULL;
  if (size < 0 || !shapes || ++num_puts % PYTHON_EVERY == 0 || (memory && strcmp(PyBytes_AsString(memory->kind), "device"))) return slow_put(a);
  void *data, *block = ts_block_take(element.code, element.bytes * 8, a->dims, a->num_dims, size, &data);
  if (!block) return slow_put(a);
  if (size && a->data) memcpy(data, a->data, (size_t)size);
  TS_ENTER;
  PyObject* tensor = ts_block_capsule(block); /* releases the block if XLA does not take it */
  PyObject* device = a->device ? a->device : memory->device_array[0];
  PyObject* memories = memory ? NULL : PyObject_GetAttrString(device, "memories");
  if (memories) memory = (Memory*)PyTuple_GetItem(memories, 0);
  Buffer* buffer = tensor && memory && ts_same_settings() ? make(device, memory, tensor, a->type, a->dims, a->num_dims) : NULL;
  if (!buffer) ts_forget_error();
  Py_XDECREF(tensor), Py_XDECREF(memories);
  TS_LEAVE;
  if (!buffer) return slow_put(a);
  a->done_with_host_buffer = ts_event_done;
  a->buffer = buffer;
  return NULL;
}

void ts_fill_put_entries(PJRT_Api* api) {
  slow_put = (void*)api->PJRT_Client_BufferFromHostBuffer;
  api->PJRT_Client_BufferFromHostBuffer = api_put;
}
