/* Memory for a value from the host, which XLA:CPU takes over as it is: a DLPack tensor. Its release runs on whatever thread drops
 * the value last and needs neither Python nor the GIL.
 */
#define _DEFAULT_SOURCE /* madvise */
#include "native.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64 };                       /* from here on XLA:CPU uses memory as it is */
enum { PAGE = 4096, HUGE_FROM_BYTES = 4 << 20 }; /* as NumPy: filling large memory costs a third in huge pages */

/* DLPack's structs, version 0.8: https://dmlc.github.io/dlpack/latest/c_api.html */
typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t* dims;
  int64_t* strides; /* NULL: row-major */
  uint64_t byte_offset;
} Tensor;
typedef struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(struct Managed*);
} Managed;
enum { ON_CPU = 1 };

typedef struct {
  Managed managed; /* first: its address is the block's */
  int64_t dims[];  /* then the values, aligned */
} Block;

static void release(Managed* managed) { free(managed); }

/* Nobody took it over: it has its first name still. */
static void forget(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) release(PyCapsule_GetPointer(capsule, "dltensor"));
}

PyObject* ts_host_tensor(PyObject* module, PyObject* args) {
  int code, bits;
  PyObject* dims;
  long long size_bytes;
  (void)module;
  if (!PyArg_ParseTuple(args, "iiO!L", &code, &bits, &PyTuple_Type, &dims, &size_bytes)) return NULL;
  Py_ssize_t rank = PyTuple_Size(dims);
  size_t head = sizeof(Block) + (size_t)rank * sizeof(int64_t) + ALIGNMENT;
  if (size_bytes < 0 || (unsigned long long)size_bytes > SIZE_MAX - head) return PyErr_NoMemory();
  Block* block = malloc(head + (size_t)size_bytes);
  if (!block) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < rank; i++) block->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
  uintptr_t data = ((uintptr_t)(block->dims + rank) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (size_bytes >= HUGE_FROM_BYTES) {
    uintptr_t page = (data + PAGE - 1) / PAGE * PAGE;
    madvise((void*)page, (size_t)size_bytes - PAGE, MADV_HUGEPAGE); /* a wish */
  }
  block->managed = (Managed){{(void*)data, ON_CPU, 0, (int32_t)rank, (uint8_t)code, (uint8_t)bits, 1, block->dims, NULL, 0}, NULL, release};
  PyObject* capsule = PyErr_Occurred() ? NULL : PyCapsule_New(block, "dltensor", forget);
  if (!capsule) {
    free(block);
    return NULL;
  }
  return Py_BuildValue("(NN)", capsule, PyLong_FromVoidPtr((void*)data));
}
