/* Memory for values from the host, as DLPack tensors. */
#ifndef TILESTEP_TENSOR_H
#define TILESTEP_TENSOR_H
#include "native.h"

/* data: gets the address of the values. NULL: there is no memory. */
void* ts_block_take(int code, int bits, const int64_t* dims, size_t rank, int64_t size_bytes, void** data);
PyObject* ts_block_capsule(void* block); /* owns the block from now on, also if it cannot be made */
PyObject* ts_host_tensor(PyObject* module, PyObject* args);

#endif
