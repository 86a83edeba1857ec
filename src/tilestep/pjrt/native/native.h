/* What the C files of the platform share.
 *
 * Handles: PJRT's Buffer, Executable and Device pointers are pointers to the Python objects themselves, each handle owning one
 * reference. A PJRT_Memory and a PJRT_Error must begin with a table of their own, and a PJRT_Event is made without the GIL, so these
 * three are C structs.
 */
#ifndef TILESTEP_NATIVE_H
#define TILESTEP_NATIVE_H
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>

#include "pjrt_layout.h"

/* Takes the GIL and puts a pending exception aside (JAX's destructors call in while one is on its way up); and back. */
#define TS_ENTER                                 \
  PyGILState_STATE ts_gil = PyGILState_Ensure(); \
  PyObject *ts_type, *ts_value, *ts_trace;       \
  PyErr_Fetch(&ts_type, &ts_value, &ts_trace)
#define TS_LEAVE                              \
  PyErr_Restore(ts_type, ts_value, ts_trace); \
  PyGILState_Release(ts_gil)

typedef struct {
  PyObject_HEAD
  int type;
  size_t rank;
  int64_t* dims; /* rank entries, then minor_to_major's */
  int64_t* minor_to_major;
  long long size_bytes;
  PyObject* layout; /* Layout with the same order */
} Shape;

typedef struct {
  PyObject_HEAD
  PyObject* form; /* bytes: the order as text */
} Layout;

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
  long long live_bytes;    /* of buffers that exist */
  long long peak_bytes;
  long long buffers_made;
} Memory;

typedef struct Asked Asked;
typedef struct {
  PyObject_HEAD
  volatile int noted; /* whether it is noted that the host waits for one of them; this and `ready` come to stay */
  volatile int ready; /* whether one was waited for, without a failure */
  int waiting;        /* whether a thread waits for one of them, or is about to */
  Asked* asked;       /* who waits for the others, the last to ask first */
} Peers;

/* A PJRT_Event. Counted without the GIL; `peers` and `waitables` belong to it, and want the GIL. */
typedef struct Buffer Buffer;
typedef struct Event Event;
struct Event {
  int holders;
  int done;
  int gone; /* whether there was nothing to wait for any more: what it had been was donated on */
  void* error;    /* a PJRT_Error, or NULL */
  Buffer* buffer; /* borrowed; not NULL: a question about it, into which nobody has looked yet */
  int here;       /* whether it is answered in here.c */
  Event* next;    /* question about the same buffer */
  Peers* peers;   /* as a buffer's */
  PyObject* waitables; /* tuple of things with block_until_ready(), and is_ready() where they can be asked; NULL: set from outside */
};
typedef void (*ReadyCallback)(void* error, void* user);
struct Asked { /* somebody who wants to be told */
  Event* event;
  ReadyCallback callback;
  void* user;
  void* error;
  int leads; /* whether it is the one of its peers that is waited for */
  Asked* next;
};

struct Buffer {
  PyObject_HEAD
  PyObject* array; /* one-device array of the client that computes values; None once deleted; NULL: in `whole`, not taken out yet */
  PyObject* whole; /* array over all devices of a run that this is a part of, or NULL */
  int part, parts; /* which device of the whole, and of how many */
  PyObject* device;
  Memory* memory;
  Shape* shape;
  PyObject* value;  /* int: who this is in emulated time */
  PyObject* pinned; /* keeps the memory in place while somebody outside holds its address */
  Peers* peers;     /* what all results of one run on one device share; NULL: it is alone */
  int pins;
  int seen;           /* whether the host has looked at it while JAX guarded no reads */
  volatile int ready; /* whether it was seen to be there, without a failure; comes to stay */
  Event* questions;   /* about it, borrowed (event.c) */
};

typedef struct {
  PyObject_HEAD
  int num_replicas;
  int num_partitions;
  int num_outputs;
  int deleted;
  unsigned runs;      /* that took the short way */
  PyObject* direct;   /* what the short way calls, see execute.c; NULL: the program goes through Python */
  PyObject* in_flight; /* of a program over several devices: (what makes room for it, what notes it); NULL or None: nothing does */
  PyObject* devices;  /* tuple */
  PyObject* shapes;   /* tuple of Shape, one an output */
  PyObject* memories; /* tuple over devices of tuples of Memory, one an output */
} Executable;

/* state.c */
extern volatile long ts_dry; /* dry runs under way, and values of dry runs: while there are any, Python looks at every value */
extern PyObject* ts_forgotten;  /* list that takes the numbers of values whose buffer is gone */
/* How far the process's end has come. LEAVING: threads that were named come no further (state.c). CLOSING: only the thread that closed
 * may enter Python. CLOSED: nobody may. */
enum { TS_OPEN, TS_LEAVING, TS_CLOSING, TS_CLOSED };
extern volatile int ts_stage;
int ts_may_enter(void);
int ts_may_begin(void); /* the same, for what a thread that is held back must not begin: it does not return */
int ts_interrupted(void); /* whether the pending exception is none of the work's own: Ctrl-C, or SystemExit of a signal's handler */
PyObject* ts_take_interrupt(void); /* clears it */
int ts_put_off(PyObject** interrupt); /* whether it is one, which is taken: what has failed is to be done again */
void ts_forget_error(void); /* clears the pending exception; an interrupt is raised later */
void ts_interrupt_later(PyObject* error); /* raises it again, if any, where the main thread is next in Python; takes the reference */
void ts_error_free(void* error);
void* ts_error(int code, const char* message, size_t size);
void* ts_error_text(int code, const char* text);
void* ts_error_from_python(void); /* the pending exception, cleared */
int ts_error_code(const void* error);
void ts_error_read(const void* error, const char** message, size_t* size);
void ts_plain_dealloc(PyObject* self);
int ts_no_keywords(PyObject* kwargs, const char* what); /* -1 and an exception if there are any */

/* here.c */
int ts_asks(void);              /* whether what JAX is about to ask is answered in here.c */
int ts_ask(Asked* asked);       /* whether it is, and then it belongs to the question that is under way */
void ts_look(void);             /* JAX is about to look at an array: what it asks next is not */
struct Question* ts_set_question(struct Question* now); /* what is under way from now on, NULL: nothing; and what was */
PyObject* ts_wait_for(PyObject* array);          /* XLA:CPU's: its block_until_ready() */
PyObject* ts_ask_whether_ready(PyObject* array); /* its is_ready() */
int ts_add_waiting_type(void);  /* -1 and an exception if it cannot be made */

/* memory.c, event.c, buffer.c, execute.c, put.c, read.c: their types, and their entries of the table */
extern PyTypeObject *ts_memory_type, *ts_peers_type, *ts_shape_type, *ts_layout_type, *ts_buffer_type;
extern PyType_Spec ts_memory_spec, ts_peers_spec, ts_shape_spec, ts_layout_spec, ts_buffer_spec, ts_executable_spec;
extern Event* const ts_event_done; /* the event that has happened; its handles are not counted */
Event* ts_event_make(PyObject* waitables); /* NULL: there is no memory */
Event* ts_event_ask(Buffer* buffer, int here); /* a question, and where it is answered; NULL likewise. Needs no GIL */
void ts_settle_questions(Buffer* buffer);  /* before its handle is let go of */
int ts_is_ready(PyObject* array);          /* whether waiting would return at once */
int ts_finish(Asked* asked, int to_the_end); /* waits and tells, its peers too; takes what was asked, as these two do. Else -1: interrupted */
int ts_finish_at_once(Asked* asked);       /* 1: done; 0: another thread does it; -1: not ready, and not taken */
void ts_finish_later(Asked* asked);        /* a thread of the pool does it. Needs no GIL */
long ts_pending_waits(void);
void ts_note_wait(Buffer* buffer);         /* that the host waits for it, in emulated time */
void ts_note_question(Event* event);       /* the same, of what it asks about, if it is a question; needs the GIL */
void ts_set_ready(Buffer* buffer);         /* it was waited for, without a failure */
PyObject* ts_buffer_array(Buffer* buffer); /* borrowed; takes a whole apart. NULL and an exception if it cannot */
int ts_buffer_is_deleted(Buffer* buffer);  /* 1, 0, or -1 and an exception */
Buffer* ts_buffer_make(PyObject* array, PyObject* device, Memory* memory, Shape* shape, PyObject* value);
Buffer* ts_buffer_part(PyObject* whole, int part, int parts, PyObject* device, Memory* memory, Shape* shape, PyObject* value);
uint64_t ts_take_values(uint64_t count); /* numbers for new values: the first of `count` */
/* tensor.c: `data` is where the values go; a block belongs to its capsule */
void* ts_block_take(int code, int bits, const int64_t* dims, size_t rank, int64_t size_bytes, void** data);
PyObject* ts_block_capsule(void* block);
void ts_fill_error_entries(PJRT_Api* api);
void ts_fill_memory_entries(PJRT_Api* api);
void ts_fill_event_entries(PJRT_Api* api);
void ts_fill_buffer_entries(PJRT_Api* api);
void ts_fill_executable_entries(PJRT_Api* api);
void ts_fill_put_entries(PJRT_Api* api);
void ts_fill_read_entries(PJRT_Api* api, PJRT_Layouts_Extension* layouts);

#endif
