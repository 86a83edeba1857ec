/* Buffers: values on the emulated machine. */
#ifndef TILESTEP_BUFFER_H
#define TILESTEP_BUFFER_H
#include "memory.h"
#include "native.h"
#include "shape.h"

/* All results of one run on one device. They become ready together. */
typedef struct {
  PyObject_HEAD
  volatile int noted; /* whether the journal has a wait for one of them; like `ready` it is never taken back */
  volatile int ready; /* whether a wait for one of them ended without a failure */
  int waiting;        /* whether a thread waits for one of them, or is about to */
  struct Request* requests; /* about the others, the last one first (event.h) */
} Peers;

typedef struct {
  PyObject_HEAD
  PyObject* array; /* one-device array of the client that computes values; None: deleted; NULL: in `whole`, not taken out yet */
  PyObject* whole; /* array over all devices of a run that this is a part of, or NULL */
  int part, parts; /* which device of the whole, and of how many */
  PyObject* device;
  Memory* memory;
  Shape* shape;
  PyObject* value;  /* int: the value's number in emulated time */
  PyObject* pinned; /* keeps the memory where it is while a caller holds its address */
  Peers* peers;     /* NULL: the run has no other result */
  int pins;
  int seen;                /* whether the host has looked at it while JAX guarded no reads */
  volatile int ready;      /* whether a wait for it ended without a failure; never taken back */
  struct Event* questions; /* about it, borrowed (event.h) */
} Buffer;

extern PyTypeObject *ts_buffer_type, *ts_peers_type;
extern PyType_Spec ts_buffer_spec, ts_peers_spec;

Buffer* ts_buffer_make(PyObject* array, PyObject* device, Memory* memory, Shape* shape, PyObject* value);
Buffer* ts_buffer_part(PyObject* whole, int part, int parts, PyObject* device, Memory* memory, Shape* shape, PyObject* value);
PyObject* ts_buffer_array(Buffer* buffer); /* borrowed; takes a whole apart. NULL and an exception if it cannot */
int ts_buffer_is_deleted(Buffer* buffer);  /* or donated: 1, 0, or -1 and an exception */
void ts_set_ready(Buffer* buffer);         /* a wait for it ended without a failure */
void ts_note_wait(Buffer* buffer);         /* notes in the journal that the host waits for it */
uint64_t ts_take_values(uint64_t count);   /* numbers for new values: the first of `count` */
void ts_list_forgotten_in(PyObject* list); /* list that gets the values whose buffer is gone */

#endif
