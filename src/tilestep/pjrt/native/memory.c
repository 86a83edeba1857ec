/* Memories of the IPUs. They are never freed, because JAX keeps pointers to them. */
#include "functions.h"
#include "memory.h"

#include <stdlib.h>


PyTypeObject* ts_memory_type;

struct MemoryEntry {
  void* key;
  void* data;
  void (*destroy)(void*);
  MemoryEntry* next;
};

static void* user_get(void* memory, void* key) {
  for (MemoryEntry* e = ((MemoryHandle*)memory)->entries; e; e = e->next)
    if (e->key == key) return e->data;
  return NULL;
}
static void user_set(void* memory, void* key, void* data, void (*destroy)(void*)) {
  MemoryHandle* handle = memory;
  MemoryEntry* e = handle->entries;
  while (e && e->key != key) e = e->next;
  if (!e) {
    e = calloc(1, sizeof(MemoryEntry));
    if (!e) abort();
    e->key = key;
    e->next = handle->entries;
    handle->entries = e;
  } else if (e->destroy) {
    e->destroy(e->data);
  }
  e->data = data;
  e->destroy = destroy;
}
static PJRT_Memory_FunctionTable table = {sizeof(PJRT_Memory_FunctionTable), NULL, sizeof(MemoryHandle), user_get, user_set};

static PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  int id, kind_id;
  PyObject *kind, *name;
  if (ts_no_keywords(kwargs, "Memory") < 0 || !PyArg_ParseTuple(args, "iiSS", &id, &kind_id, &kind, &name)) return NULL;
  Memory* self = (Memory*)PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  self->handle.vtable = &table;
  self->handle.object = (PyObject*)self;
  self->id = id;
  self->kind_id = kind_id;
  Py_INCREF(kind), Py_INCREF(name);
  self->kind = kind;
  self->name = name;
  Py_INCREF((PyObject*)self); /* immortal */
  return (PyObject*)self;
}
static PyObject* set_devices(PyObject* object, PyObject* devices) {
  Memory* self = (Memory*)object;
  if (!PyTuple_Check(devices) || self->devices) return PyErr_Format(PyExc_TypeError, "set_devices takes a tuple, once");
  Py_ssize_t n = PyTuple_Size(devices);
  self->device_array = calloc((size_t)n + 1, sizeof(PyObject*));
  if (!self->device_array) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) self->device_array[i] = PyTuple_GetItem(devices, i);
  Py_INCREF(devices);
  self->devices = devices;
  Py_RETURN_NONE;
}
static PyObject* address(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromVoidPtr(&((Memory*)self)->handle);
}
static PyMethodDef methods[] = {{"set_devices", set_devices, METH_O, "The devices that address this memory; once."}, {NULL, NULL, 0, NULL}};
static PyMemberDef members[] = {{"id", T_INT, offsetof(Memory, id), READONLY, NULL},
                                {"kind", T_OBJECT, offsetof(Memory, kind), READONLY, NULL},
                                {"devices", T_OBJECT, offsetof(Memory, devices), READONLY, NULL},
                                {"live_bytes", T_LONGLONG, offsetof(Memory, live_bytes), READONLY, "of all buffers"},
                                {"peak_bytes", T_LONGLONG, offsetof(Memory, peak_bytes), 0, "largest live_bytes so far"},
                                {"buffers_made", T_LONGLONG, offsetof(Memory, buffers_made), READONLY, NULL},
                                {NULL, 0, 0, 0, NULL}};
static PyGetSetDef getset[] = {{"address", address, NULL, "the PJRT_Memory*", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, make},        {Py_tp_dealloc, ts_plain_dealloc}, {Py_tp_methods, methods}, {Py_tp_members, members},
                              {Py_tp_getset, getset}, {0, NULL}};
PyType_Spec ts_memory_spec = {"tilestep.pjrt._native.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT, slots};

#define OF(pointer) ((Memory*)((MemoryHandle*)(pointer))->object)
static void text(PyObject* bytes, void** out, size_t* size) {
  *out = PyBytes_AsString(bytes);
  *size = (size_t)PyBytes_Size(bytes);
}
static void* api_id(PJRT_Memory_Id_Args* a) {
  a->id = OF(a->memory)->id;
  return NULL;
}
static void* api_kind(PJRT_Memory_Kind_Args* a) {
  text(OF(a->memory)->kind, &a->kind, &a->kind_size);
  return NULL;
}
static void* api_kind_id(PJRT_Memory_Kind_Id_Args* a) {
  a->kind_id = OF(a->memory)->kind_id;
  return NULL;
}
static void* api_debug_string(PJRT_Memory_DebugString_Args* a) {
  text(OF(a->memory)->name, &a->debug_string, &a->debug_string_size);
  return NULL;
}
static void* api_to_string(PJRT_Memory_ToString_Args* a) {
  text(OF(a->memory)->name, &a->to_string, &a->to_string_size);
  return NULL;
}
static void* api_devices(PJRT_Memory_AddressableByDevices_Args* a) {
  Memory* memory = OF(a->memory);
  a->devices = memory->device_array;
  a->num_devices = memory->devices ? (size_t)PyTuple_Size(memory->devices) : 0;
  return NULL;
}
void ts_fill_memory_entries(PJRT_Api* api) {
  api->PJRT_Memory_Id = api_id;
  api->PJRT_Memory_Kind = api_kind;
  api->PJRT_Memory_Kind_Id = api_kind_id;
  api->PJRT_Memory_DebugString = api_debug_string;
  api->PJRT_Memory_ToString = api_to_string;
  api->PJRT_Memory_AddressableByDevices = api_devices;
}
