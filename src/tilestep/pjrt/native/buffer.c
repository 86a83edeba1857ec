/* Shapes, and the buffers that have them. What JAX asks of a buffer is answered here, without the GIL. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *ts_shape_type, *ts_buffer_type;
static uint64_t next_value = 1;

uint64_t ts_take_values(uint64_t count) {
  uint64_t first = next_value;
  next_value += count;
  return first;
}

static PyObject* shape_make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  int code;
  PyObject *dims, *minor, *layout;
  long long size_bytes;
  if (ts_no_keywords(kwargs, "Shape") < 0 ||
      !PyArg_ParseTuple(args, "iO!O!LO!", &code, &PyTuple_Type, &dims, &PyTuple_Type, &minor, &size_bytes, ts_layout_type, &layout))
    return NULL;
  Py_ssize_t rank = PyTuple_Size(dims);
  if (PyTuple_Size(minor) != rank) return PyErr_Format(PyExc_ValueError, "minor_to_major has another rank than dims");
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
    self->minor_to_major[i] = PyLong_AsLongLong(PyTuple_GetItem(minor, i));
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

Buffer* ts_buffer_make(PyObject* array, PyObject* device, Memory* memory, Shape* shape, PyObject* value) {
  Buffer* self = (Buffer*)PyType_GenericAlloc(ts_buffer_type, 0);
  if (!self) return NULL;
  Py_XINCREF(array), Py_INCREF(device), Py_INCREF((PyObject*)memory), Py_INCREF((PyObject*)shape), Py_INCREF(value);
  self->array = array;
  self->device = device;
  self->memory = memory;
  self->shape = shape;
  self->value = value;
  memory->buffers_made++;
  memory->live_bytes += shape->size_bytes;
  if (memory->live_bytes > memory->peak_bytes) memory->peak_bytes = memory->live_bytes;
  return self;
}
Buffer* ts_buffer_part(PyObject* whole, int part, int parts, PyObject* device, Memory* memory, Shape* shape, PyObject* value) {
  Buffer* self = ts_buffer_make(NULL, device, memory, shape, value);
  if (!self) return NULL;
  Py_INCREF(whole);
  self->whole = whole;
  self->part = part;
  self->parts = parts;
  return self;
}
void ts_set_ready(Buffer* buffer) {
  buffer->ready = 1;
  if (buffer->peers) buffer->peers->ready = 1; /* all results of a run are there when one is */
}
/* Whether a run took it over, or somebody deleted it. */
int ts_buffer_is_deleted(Buffer* buffer) {
  PyObject* array = buffer->array ? buffer->array : buffer->whole;
  if (array == Py_None) return 1;
  PyObject* answer = PyObject_CallMethod(array, "is_deleted", NULL);
  if (!answer) return -1;
  int yes = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  return yes;
}
PyObject* ts_buffer_array(Buffer* buffer) {
  if (buffer->array) return buffer->array;
  int deleted = ts_buffer_is_deleted(buffer);
  if (deleted < 0) return NULL;
  PyObject *array = Py_None, *arrays = deleted ? NULL : PyObject_GetAttrString(buffer->whole, "_arrays");
  if (!deleted && !(array = arrays ? PyList_GetItem(arrays, buffer->part) : NULL)) {
    Py_XDECREF(arrays);
    return NULL;
  }
  Py_INCREF(array);
  if (buffer->array) { /* another thread was faster */
    Py_DECREF(array);
  } else {
    buffer->array = array;
    if (array == Py_None) Py_CLEAR(buffer->whole);
  }
  Py_XDECREF(arrays);
  return buffer->array;
}
static PyObject* get_array(PyObject* self, void* unused) {
  (void)unused;
  PyObject* array = ts_buffer_array((Buffer*)self);
  Py_XINCREF(array);
  return array;
}
static int set_array(PyObject* self, PyObject* array, void* unused) {
  (void)unused;
  PyObject *array_before = ((Buffer*)self)->array, *whole_before = ((Buffer*)self)->whole;
  if (!array) {
    PyErr_SetString(PyExc_AttributeError, "a buffer's array cannot be removed: None says that it is deleted");
    return -1;
  }
  Py_INCREF(array);
  ((Buffer*)self)->array = array;
  ((Buffer*)self)->whole = NULL;
  Py_XDECREF(array_before), Py_XDECREF(whole_before);
  return 0;
}
static PyObject* buffer_make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *array, *device, *memory, *shape;
  (void)type;
  if (ts_no_keywords(kwargs, "Buffer") < 0 ||
      !PyArg_ParseTuple(args, "OOO!O!", &array, &device, ts_memory_type, &memory, ts_shape_type, &shape))
    return NULL;
  PyObject* value = PyLong_FromUnsignedLongLong(ts_take_values(1));
  if (!value) return NULL;
  Buffer* self = ts_buffer_make(array, device, (Memory*)memory, (Shape*)shape, value);
  Py_DECREF(value);
  return (PyObject*)self;
}
static void buffer_dealloc(PyObject* object) {
  Buffer* self = (Buffer*)object;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (self->memory) self->memory->live_bytes -= self->shape->size_bytes;
  if (ts_forgotten && self->value && PyList_Append(ts_forgotten, self->value) < 0) PyErr_Clear();
  Py_XDECREF(self->pinned), Py_XDECREF((PyObject*)self->peers), Py_XDECREF(self->array), Py_XDECREF(self->whole), Py_XDECREF(self->device);
  Py_XDECREF((PyObject*)self->memory), Py_XDECREF((PyObject*)self->shape), Py_XDECREF(self->value);
  PyErr_Restore(type, value, trace);
  ts_plain_dealloc(object);
}
static PyMemberDef buffer_members[] = {{"device", T_OBJECT, offsetof(Buffer, device), READONLY, NULL},
                                       {"memory", T_OBJECT, offsetof(Buffer, memory), READONLY, NULL},
                                       {"shape", T_OBJECT, offsetof(Buffer, shape), READONLY, NULL},
                                       {"value", T_OBJECT, offsetof(Buffer, value), READONLY, "number of this value in emulated time"},
                                       {"pinned", T_OBJECT, offsetof(Buffer, pinned), 0, "keeps the memory in place"},
                                       {"pins", T_INT, offsetof(Buffer, pins), 0, "how many hold its address"},
                                       {NULL, 0, 0, 0, NULL}};
static PyGetSetDef buffer_getset[] = {{"array", get_array, set_array, "the value's array, None once deleted", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot buffer_slots[] = {{Py_tp_new, buffer_make}, {Py_tp_dealloc, buffer_dealloc}, {Py_tp_members, buffer_members},
                                     {Py_tp_getset, buffer_getset}, {0, NULL}};
PyType_Spec ts_buffer_spec = {"tilestep.pjrt._native.Buffer", sizeof(Buffer), 0, Py_TPFLAGS_DEFAULT, buffer_slots};

static void* api_destroy(PJRT_Buffer_Destroy_Args* a) {
  if (!ts_may_enter()) return NULL;
  TS_ENTER;
  ts_settle_questions(a->buffer);
  Py_DECREF((PyObject*)a->buffer);
  TS_LEAVE;
  return NULL;
}
static void* api_type(PJRT_Buffer_ElementType_Args* a) {
  a->type = ((Buffer*)a->buffer)->shape->type;
  return NULL;
}
static void* api_dims(PJRT_Buffer_Dimensions_Args* a) {
  Shape* shape = ((Buffer*)a->buffer)->shape;
  a->dims = shape->dims;
  a->num_dims = shape->rank;
  return NULL;
}
static void* api_unpadded(PJRT_Buffer_UnpaddedDimensions_Args* a) {
  Shape* shape = ((Buffer*)a->buffer)->shape;
  a->unpadded_dims = shape->dims;
  a->num_dims = shape->rank;
  return NULL;
}
static void* api_dynamic(PJRT_Buffer_DynamicDimensionIndices_Args* a) {
  a->dynamic_dim_indices = NULL;
  a->num_dynamic_dims = 0;
  return NULL;
}
static void* api_layout(PJRT_Buffer_GetMemoryLayout_Args* a) {
  Shape* shape = ((Buffer*)a->buffer)->shape;
  memset(&a->layout, 0, sizeof(a->layout));
  a->layout.struct_size = sizeof(a->layout);
  a->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  a->layout.tiled.struct_size = sizeof(a->layout.tiled);
  a->layout.tiled.minor_to_major = shape->minor_to_major;
  a->layout.tiled.minor_to_major_size = shape->rank;
  return NULL;
}
static void* api_size(PJRT_Buffer_OnDeviceSizeInBytes_Args* a) {
  a->on_device_size_in_bytes = (size_t)((Buffer*)a->buffer)->shape->size_bytes;
  return NULL;
}
static void* api_device(PJRT_Buffer_Device_Args* a) {
  a->device = ((Buffer*)a->buffer)->device;
  return NULL;
}
static void* api_memory(PJRT_Buffer_Memory_Args* a) {
  a->memory = &((Buffer*)a->buffer)->memory->handle;
  return NULL;
}
static volatile int reads_guarded;

PyObject* ts_guard_reads(PyObject* module, PyObject* guarded) {
  (void)module;
  int yes = PyObject_IsTrue(guarded);
  if (yes < 0) return NULL;
  reads_guarded = yes;
  Py_RETURN_NONE;
}
/* JAX asks this before each look, with no lock of the array's: what is ready needs no question then (event.c). */
static void see_whether_ready(Buffer* buffer) {
  if (buffer->ready || (buffer->peers && buffer->peers->ready) || !ts_may_begin() || ts_dry) return;
  TS_ENTER;
  PyObject* array = ts_buffer_is_deleted(buffer) ? NULL : buffer->array ? buffer->array : buffer->whole;
  Py_XINCREF(array);
  PyObject* seen = array && ts_is_ready(array) ? ts_wait_for(array) : NULL; /* which says whether it has failed */
  if (seen) ts_set_ready(buffer);
  ts_forget_error();
  Py_XDECREF(array), Py_XDECREF(seen);
  TS_LEAVE;
}
static void* api_on_cpu(PJRT_Buffer_IsOnCpu_Args* a) {
  /* Values lie in this process's memory: np.asarray needs no copy. JAX asks before a look, and guards only copies: the first look is one. */
  Buffer* buffer = a->buffer;
  ts_look();
  if (!reads_guarded) buffer->seen = 1;
  a->is_on_cpu = buffer->seen;
  see_whether_ready(buffer);
  return NULL;
}
/* All results of a run are there at one moment of emulated time, so a wait for one is a wait for its peers. But the journal may drop what
 * another thread does, which is no wait of the program's: only an append that is none of Python's drops nothing. */
static int note_wait(Buffer* buffer) {
  PyObject* note = PyObject_GetAttrString(buffer->device, "note_wait"); /* (what the journal does, the journal's append) */
  PyObject* entry = note ? PyTuple_Pack(2, PyTuple_GetItem(note, 0), buffer->value) : NULL;
  PyObject* noted = entry ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(note, 1), entry, NULL) : NULL;
  if (noted && buffer->peers) buffer->peers->noted = PyCFunction_CheckExact(PyTuple_GetItem(note, 1));
  Py_XDECREF(note), Py_XDECREF(entry), Py_XDECREF(noted);
  return noted ? 0 : -1;
}
void ts_note_wait(Buffer* buffer) {
  PyObject* interrupt = NULL;
  if (buffer->peers && buffer->peers->noted) return;
  Py_INCREF((PyObject*)buffer);
  while (note_wait(buffer) < 0 && ts_put_off(&interrupt)) continue; /* Ctrl-C comes behind it */
  if (PyErr_Occurred()) PyErr_WriteUnraisable((PyObject*)buffer);
  ts_interrupt_later(interrupt);
  Py_DECREF((PyObject*)buffer);
}
/* A wait of the program's own comes through here.c, which notes it; one for a look is noted as the look. */
static void* api_ready_event(PJRT_Buffer_ReadyEvent_Args* a) {
  Buffer* buffer = a->buffer;
  Peers* peers = buffer->peers;
  a->event = ts_event_done;
  int ready = buffer->ready || (peers && peers->ready), asks = ts_asks();
  if (!ts_may_enter() || (ready && !(asks && !(peers && peers->noted)))) return NULL;
  a->event = ts_event_ask(buffer, asks);
  return a->event ? NULL : ts_error_text(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory");
}

void ts_fill_buffer_entries(PJRT_Api* api) {
  api->PJRT_Buffer_Destroy = api_destroy;
  api->PJRT_Buffer_ElementType = api_type;
  api->PJRT_Buffer_Dimensions = api_dims;
  api->PJRT_Buffer_UnpaddedDimensions = api_unpadded;
  api->PJRT_Buffer_DynamicDimensionIndices = api_dynamic;
  api->PJRT_Buffer_GetMemoryLayout = api_layout;
  api->PJRT_Buffer_OnDeviceSizeInBytes = api_size;
  api->PJRT_Buffer_Device = api_device;
  api->PJRT_Buffer_Memory = api_memory;
  api->PJRT_Buffer_IsOnCpu = api_on_cpu;
  api->PJRT_Buffer_ReadyEvent = api_ready_event;
}
