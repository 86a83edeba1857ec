/* Memory for a value from the host: a DLPack tensor, which XLA:CPU takes over without a copy.
 *
 * Any thread may release it, without Python and without the GIL. Some released blocks are kept, because a training loop asks for the same
 * size again and fresh pages cost more than the copy.
 */
#define _DEFAULT_SOURCE /* madvise */

#include "functions.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64 };                       /* from which XLA:CPU uses memory without a copy */
enum { PAGE = 4096, HUGE_FROM_BYTES = 4 << 20 }; /* NumPy's value: huge pages cut the cost of filling large memory to a third */
enum { KEPT = 16, KEPT_FROM_BYTES = 64 << 10, KEPT_AT_MOST_BYTES = 64 << 20 }; /* malloc keeps smaller blocks itself */

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
  size_t bytes;    /* of the whole block */
  int64_t dims[];  /* then the values, aligned */
} Block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Block* kept[KEPT];
static size_t kept_bytes;

static Block* block_of(size_t bytes) {
  Block* block = NULL;
  if (bytes >= KEPT_FROM_BYTES) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && !block; i++) {
      if (!kept[i] || kept[i]->bytes != bytes) continue;
      block = kept[i];
      kept[i] = NULL;
      kept_bytes -= bytes;
    }
    pthread_mutex_unlock(&lock);
  }
  if (!block && (block = malloc(bytes))) block->bytes = bytes;
  return block;
}
static void release(Managed* managed) {
  Block* block = (Block*)managed;
  if (block->bytes >= KEPT_FROM_BYTES && block->bytes <= KEPT_AT_MOST_BYTES) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && block && kept_bytes + block->bytes <= KEPT_AT_MOST_BYTES; i++) {
      if (kept[i]) continue;
      kept[i] = block;
      kept_bytes += block->bytes;
      block = NULL;
    }
    pthread_mutex_unlock(&lock);
  }
  free(block);
}

/* The capsule keeps its first name until XLA takes the tensor over. */
static void forget(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) release(PyCapsule_GetPointer(capsule, "dltensor"));
}

void* ts_block_take(int code, int bits, const int64_t* dims, size_t rank, int64_t size_bytes, void** data) {
  size_t head = sizeof(Block) + rank * sizeof(int64_t) + ALIGNMENT;
  if ((uint64_t)size_bytes > SIZE_MAX - head) return NULL;
  Block* block = block_of(head + (size_t)size_bytes);
  if (!block) return NULL;
  for (size_t i = 0; i < rank; i++) block->dims[i] = dims[i];
  uintptr_t start = ((uintptr_t)(block->dims + rank) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (size_bytes >= HUGE_FROM_BYTES) {
    uintptr_t page = (start + PAGE - 1) / PAGE * PAGE;
    madvise((void*)page, (size_t)size_bytes - PAGE, MADV_HUGEPAGE); /* a hint: its failure does not matter */
  }
  block->managed = (Managed){{(void*)start, ON_CPU, 0, (int32_t)rank, (uint8_t)code, (uint8_t)bits, 1, block->dims, NULL, 0}, NULL, release};
  *data = (void*)start;
  return block;
}
PyObject* ts_block_capsule(void* block) {
  PyObject* capsule = PyCapsule_New(block, "dltensor", forget);
  if (!capsule) release(block);
  return capsule;
}

PyObject* ts_host_tensor(PyObject* module, PyObject* args) {
  int code, bits;
  PyObject* tuple;
  long long size_bytes;
  (void)module;
  if (!PyArg_ParseTuple(args, "iiO!L", &code, &bits, &PyTuple_Type, &tuple, &size_bytes)) return NULL;
  Py_ssize_t rank = PyTuple_Size(tuple);
  int64_t* dims = calloc((size_t)rank + 1, sizeof(int64_t));
  if (!dims) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < rank; i++) dims[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
  void *data, *block = NULL;
  if (!PyErr_Occurred() && (size_bytes < 0 || !(block = ts_block_take(code, bits, dims, (size_t)rank, size_bytes, &data))))
    PyErr_Format(PyExc_MemoryError, "Out of memory allocating %lld bytes.", size_bytes); /* XLA:CPU's own words */
  free(dims);
  PyObject* capsule = block ? ts_block_capsule(block) : NULL;
  return capsule ? Py_BuildValue("(NN)", capsule, PyLong_FromVoidPtr(data)) : NULL;
}
