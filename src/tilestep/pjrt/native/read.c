/* Entry points that JAX calls when the host looks at a value: np.asarray, and the buffer protocol without a copy.
 *
 * Python answers for values of a dry run, but for whether one was deleted, and for elements that the buffer protocol has no letter for
 * (buffer.py). Methods of jaxlib's arrays run no bytecode, so a Ctrl-C waits until the answer is given.
 */

#include "buffer.h"
#include "functions.h"
#include "shape.h"

static void* (*slow_is_deleted)(PJRT_Buffer_IsDeleted_Args*);
static void* (*slow_pointer)(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args*);
static void* (*slow_pin)(PJRT_Buffer_IncreaseExternalReferenceCount_Args*);

static void* api_is_deleted(PJRT_Buffer_IsDeleted_Args* a) {
  Buffer* buffer = a->buffer;
  if (!ts_may_begin()) return slow_is_deleted(a);
  TS_ENTER;
  int deleted = ts_buffer_is_deleted(buffer);
  if (deleted < 0) ts_forget_error();
  TS_LEAVE;
  if (deleted < 0) return slow_is_deleted(a);
  a->is_deleted = deleted != 0;
  return NULL;
}

/* The array, borrowed. NULL: it has no value, and Python says what is wrong. Needs the GIL. */
static PyObject* live_array(Buffer* buffer) {
  PyObject* array = ts_buffer_is_deleted(buffer) ? NULL : ts_buffer_array(buffer);
  if (!array) ts_forget_error();
  return array;
}

static void* api_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* a) {
  Buffer* buffer = a->buffer;
  if (!ts_may_begin() || ts_dry) return slow_pointer(a);
  void* address = NULL;
  TS_ENTER;
  PyObject* array = live_array(buffer);
  Py_XINCREF(array);
  PyObject* ready = array ? ts_wait_for(array) : NULL;
  if (ready) ts_set_ready(buffer);
  PyObject* pointer = ready ? PyObject_CallMethod(array, "unsafe_buffer_pointer", NULL) : NULL;
  if (pointer) address = PyLong_AsVoidPtr(pointer);
  int failed = !pointer || PyErr_Occurred();
  ts_forget_error();
  Py_XDECREF(ready), Py_XDECREF(pointer);
  Py_XDECREF(array);
  TS_LEAVE;
  if (failed) return slow_pointer(a);
  a->device_memory_ptr = address;
  return NULL;
}

/* Keeps the memory where it is, and notes that the host reads the value. -1: Python must do it. Needs the GIL. */
static int pin(Buffer* buffer) {
  if (!buffer->pins) {
    PyObject* array = live_array(buffer);
    PyObject* view = array ? PyMemoryView_FromObject(array) : NULL;
    PyObject* note = view ? PyObject_GetAttrString(buffer->device, "note_read") : NULL; /* like note_wait (buffer.c) */
    PyObject* entry = note ? PyTuple_Pack(2, PyTuple_GetItem(note, 0), buffer->value) : NULL;
    PyObject* noted = entry ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(note, 1), entry, NULL) : NULL;
    Py_XDECREF(note), Py_XDECREF(entry);
    if (!noted) {
      ts_forget_error();
      Py_XDECREF(view);
      return -1;
    }
    Py_DECREF(noted);
    PyObject* before = buffer->pinned;
    buffer->pinned = view;
    Py_XDECREF(before);
  }
  buffer->pins++;
  return 0;
}
static void* api_pin(PJRT_Buffer_IncreaseExternalReferenceCount_Args* a) {
  if (!ts_may_begin() || ts_dry || ts_watched) return slow_pin(a);
  TS_ENTER;
  int failed = pin(a->buffer) < 0;
  TS_LEAVE;
  return failed ? slow_pin(a) : NULL;
}
static void* api_unpin(PJRT_Buffer_DecreaseExternalReferenceCount_Args* a) {
  Buffer* buffer = a->buffer;
  if (!ts_may_enter()) return NULL;
  TS_ENTER;
  if (!--buffer->pins) {
    PyObject* pinned = buffer->pinned;
    buffer->pinned = NULL;
    Py_XDECREF(pinned);
  }
  TS_LEAVE;
  return NULL;
}

static void* api_layout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* a) {
  a->layout = ((Buffer*)a->buffer)->shape->layout;
  return NULL;
}
static void delete_nothing(void* text) { (void)text; /* layouts are never freed */ }
static void* api_layout_text(PJRT_Layouts_MemoryLayout_Serialize_Args* a) {
  PyObject* form = ((Layout*)a->layout)->form; /* bytes never move, so their address needs no GIL */
  a->serialized_bytes = PyBytes_AsString(form);
  a->serialized_bytes_size = (size_t)PyBytes_Size(form);
  a->serialized_layout = a->layout;
  a->serialized_layout_deleter = (void*)delete_nothing;
  return NULL;
}

void ts_fill_read_entries(PJRT_Api* api, PJRT_Layouts_Extension* layouts) {
  slow_is_deleted = (void*)api->PJRT_Buffer_IsDeleted;
  slow_pointer = (void*)api->PJRT_Buffer_OpaqueDeviceMemoryDataPointer;
  slow_pin = (void*)api->PJRT_Buffer_IncreaseExternalReferenceCount;
  api->PJRT_Buffer_IsDeleted = api_is_deleted;
  api->PJRT_Buffer_OpaqueDeviceMemoryDataPointer = api_pointer;
  api->PJRT_Buffer_IncreaseExternalReferenceCount = api_pin;
  api->PJRT_Buffer_DecreaseExternalReferenceCount = api_unpin;
  layouts->PJRT_Layouts_PJRT_Buffer_MemoryLayout = api_layout;
  layouts->PJRT_Layouts_MemoryLayout_Serialize = api_layout_text;
}
