/* Buffers: values on the emulated machine. Their memory is an array of XLA:CPU. */
#include "buffer.h"
#include "functions.h"


PyTypeObject *ts_buffer_type, *ts_peers_type;
static uint64_t next_value = 1;
static PyObject* forgotten; /* list that gets the values whose buffer is gone */

void ts_list_forgotten_in(PyObject* list) {
  Py_INCREF(list);
  Py_XDECREF(forgotten);
  forgotten = list;
}

uint64_t ts_take_values(uint64_t count) {
  uint64_t first = next_value;
  next_value += count;
  return first;
}

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
  if (buffer->peers) buffer->peers->ready = 1; /* all results of a run are ready when one is */
}
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
  if (forgotten && self->value && PyList_Append(forgotten, self->value) < 0) PyErr_Clear();
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
                                       {"pins", T_INT, offsetof(Buffer, pins), 0, "holders of its address"},
                                       {NULL, 0, 0, 0, NULL}};
static PyGetSetDef buffer_getset[] = {{"array", get_array, set_array, "the value's array, None once deleted", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot buffer_slots[] = {{Py_tp_new, buffer_make}, {Py_tp_dealloc, buffer_dealloc}, {Py_tp_members, buffer_members},
                                     {Py_tp_getset, buffer_getset}, {0, NULL}};
PyType_Spec ts_buffer_spec = {"tilestep.pjrt._native.Buffer", sizeof(Buffer), 0, Py_TPFLAGS_DEFAULT, buffer_slots};

/* All results of a run are ready at one moment of emulated time, so a wait for one is a wait for its peers. But an append in Python may drop
 * the wait, because it is not the program's own. Only an append in C drops nothing. */
static int note_wait(Buffer* buffer) {
  /* (type of entry, function that appends it, function that gives the user's line, or None) */
  PyObject* note = PyObject_GetAttrString(buffer->device, "note_wait");
  PyObject* look = note ? PyTuple_GetItem(note, 2) : NULL;
  PyObject* line = look && look != Py_None ? ts_line_of_wait(look) : NULL;
  PyObject* entry = line ? PyTuple_Pack(3, PyTuple_GetItem(note, 0), buffer->value, line) : NULL;
  if (look == Py_None) entry = PyTuple_Pack(2, PyTuple_GetItem(note, 0), buffer->value);
  PyObject* noted = entry ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(note, 1), entry, NULL) : NULL;
  if (noted && buffer->peers) buffer->peers->noted = look == Py_None && PyCFunction_CheckExact(PyTuple_GetItem(note, 1));
  Py_XDECREF(note), Py_XDECREF(line), Py_XDECREF(entry), Py_XDECREF(noted);
  return noted ? 0 : -1;
}
void ts_note_wait(Buffer* buffer) {
  PyObject* interrupt = NULL;
  if (buffer->peers && buffer->peers->noted) return;
  Py_INCREF((PyObject*)buffer);
  while (note_wait(buffer) < 0 && ts_put_off(&interrupt)) continue; /* a Ctrl-C is raised afterwards */
  if (PyErr_Occurred()) PyErr_WriteUnraisable((PyObject*)buffer);
  ts_interrupt_later(interrupt);
  Py_DECREF((PyObject*)buffer);
}

static PyType_Slot peers_slots[] = {{Py_tp_dealloc, ts_plain_dealloc}, {0, NULL}}; /* requests hold an event, and the event holds its peers */
PyType_Spec ts_peers_spec = {"tilestep.pjrt._native.Peers", sizeof(Peers), 0, Py_TPFLAGS_DEFAULT, peers_slots};
