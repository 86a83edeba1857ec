/* Entry points about buffers. They answer without the GIL where they can. */

#include "functions.h"

#include <string.h>

#include "buffer.h"
#include "event.h"
#include "query.h"

static void* api_destroy(PJRT_Buffer_Destroy_Args* a) {
  if (!ts_may_enter()) return NULL;
  TS_ENTER;
  ts_resolve_questions(a->buffer);
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
/* JAX calls this before each look, without the array's lock. A buffer that is ready then needs no question later (event.c). */
static void see_whether_ready(Buffer* buffer) {
  if (buffer->ready || (buffer->peers && buffer->peers->ready) || !ts_may_begin() || ts_dry) return;
  TS_ENTER;
  PyObject* array = ts_buffer_is_deleted(buffer) ? NULL : buffer->array ? buffer->array : buffer->whole;
  Py_XINCREF(array);
  PyObject* seen = array && ts_is_ready(array) ? ts_wait_for(array) : NULL; /* says whether it has failed */
  if (seen) ts_set_ready(buffer);
  ts_forget_error();
  Py_XDECREF(array), Py_XDECREF(seen);
  TS_LEAVE;
}
static void* api_on_cpu(PJRT_Buffer_IsOnCpu_Args* a) {
  /* Values are in this process's memory, so np.asarray needs no copy. But JAX guards only copies, so the first look claims to be one. */
  Buffer* buffer = a->buffer;
  ts_query_note_look();
  if (!reads_guarded) buffer->seen = 1;
  a->is_on_cpu = buffer->seen;
  see_whether_ready(buffer);
  return NULL;
}
/* wait_in_caller.c notes the program's own waits. A wait before a look is noted as the look. */
static void* api_ready_event(PJRT_Buffer_ReadyEvent_Args* a) {
  Buffer* buffer = a->buffer;
  Peers* peers = buffer->peers;
  a->event = ts_event_done;
  int ready = buffer->ready || (peers && peers->ready), asks = ts_query_takes_requests();
  if (!ts_may_enter() || (ready && !(asks && !(peers && peers->noted)))) return NULL;
  a->event = ts_event_question(buffer, asks);
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
