/* Memories of the IPUs. */
#ifndef TILESTEP_MEMORY_H
#define TILESTEP_MEMORY_H
#include "native.h"

typedef struct MemoryEntry MemoryEntry;
typedef struct {
  const PJRT_Memory_FunctionTable* vtable; /* first: a PJRT_Memory points here */
  PyObject* object;
  MemoryEntry* entries;
} MemoryHandle;

typedef struct {
  PyObject_HEAD
  MemoryHandle handle;
  int id;
  int kind_id;
  PyObject* kind;          /* bytes */
  PyObject* name;          /* bytes */
  PyObject* devices;       /* tuple, set once */
  PyObject** device_array; /* the same, borrowed */
  long long live_bytes;    /* of all buffers */
  long long peak_bytes;
  long long buffers_made;
} Memory;

extern PyTypeObject* ts_memory_type;
extern PyType_Spec ts_memory_spec;
void ts_fill_memory_entries(PJRT_Api* api);

#endif
