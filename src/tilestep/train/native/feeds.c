/* Infeed and outfeed inside of a program: queues of host memory, and the two functions through which XLA:CPU takes from them and adds.
 *
 * The functions run on whatever thread executes the program. They never take Python's lock: a busy interpreter doesn't slow feeds down,
 * and a program may wait for data on the very thread that dispatched it. Layouts are those of XLA's FFI (xla/ffi/api/c_api.h, API 0.3),
 * whose structs only ever grow at their end.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define _POSIX_C_SOURCE 200809L
#include <Python.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gather.h"

/* ------------------------------------------------------------------------------------------------------------- XLA's FFI */

enum { API_MAJOR = 0, API_MINOR = 3, EXTENSION_METADATA = 1, STAGE_EXECUTE = 3, TOKEN = 17, ATTRIBUTE_SCALAR = 3 };
enum { INVALID_ARGUMENT = 3, DEADLINE_EXCEEDED = 4, RESOURCE_EXHAUSTED = 8, CANCELLED = 1, FAILED_PRECONDITION = 9 };

typedef struct Extension {
  size_t struct_size;
  int type;
  struct Extension* next;
} Extension;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int major, minor;
} Version;
typedef struct {
  size_t struct_size;
  Version version;
} Metadata;
typedef struct {
  Extension base;
  Metadata* metadata;
} MetadataExtension;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  int code;
} ErrorArgs;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  void* context;
  int32_t ordinal;
} OrdinalArgs;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  void* (*error_create)(ErrorArgs*);
  void* others[16]; /* Error_GetMessage ... RunId_Get */
  void* (*ordinal_get)(OrdinalArgs*);
} Api;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
} Array;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  Array** arrays;
} Arrays;
typedef struct {
  const char* text;
  size_t size;
} Span;
typedef struct {
  int dtype;
  void* value;
} Scalar;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  Span** names;
  void** values;
} Attributes;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Arrays arguments;
  Arrays results;
  Attributes attributes;
} Frame;

typedef struct {
  int code;
  size_t bytes;
  const char* name;
} Dtype;
static const Dtype dtypes[] = {
    {1, 1, "bool"},        {2, 1, "int8"},           {3, 2, "int16"},           {4, 4, "int32"},        {5, 8, "int64"},
    {6, 1, "uint8"},       {7, 2, "uint16"},         {8, 4, "uint32"},          {9, 8, "uint64"},       {10, 2, "float16"},
    {11, 4, "float32"},    {12, 8, "float64"},       {15, 8, "complex64"},      {16, 2, "bfloat16"},    {18, 16, "complex128"},
    {19, 1, "float8_e5m2"}, {20, 1, "float8_e4m3fn"}, {23, 1, "float8_e4m3b11fnuz"}, {24, 1, "float8_e5m2fnuz"}, {25, 1, "float8_e4m3fnuz"},
    {28, 1, "float8_e4m3"}, {29, 1, "float8_e3m4"},   {33, 1, "float8_e8m0fnu"}};
enum { NUM_DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

static const Dtype* dtype_of(int code) {
  for (int i = 0; i < NUM_DTYPES; i++)
    if (dtypes[i].code == code) return &dtypes[i];
  return NULL;
}

/* ---------------------------------------------------------------------------------------------------------------- queues */

enum { MAX_RANK = 32, ALIGNMENT = 64 };
typedef struct {
  int code;
  int rank;
  int64_t dims[MAX_RANK];
  size_t bytes;
  size_t offset; /* from the element's data */
} Leaf;
typedef struct Element {
  struct Element* next;
  char* data;
  size_t bytes; /* of the data, each leaf aligned */
  int count;
  Leaf leaves[];
} Element;
typedef struct Queue {
  struct Queue* next;
  int platform, ordinal, outward;
  Element *head, *tail;
  Py_ssize_t length;
  unsigned long long moved; /* elements that programs have taken or given */
  pthread_cond_t arrived;
} Queue;

static const char* const platforms[] = {"cpu", "ipu"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Queue* queues;
static double timeout_wall_s = 60.0; /* negative: for ever */
static int closing;

/* The caller holds the lock. */
static Queue* queue_of(int platform, int ordinal, int outward) {
  for (Queue* queue = queues; queue; queue = queue->next)
    if (queue->platform == platform && queue->ordinal == ordinal && queue->outward == outward) return queue;
  Queue* queue = calloc(1, sizeof(Queue));
  if (!queue) return NULL;
  queue->platform = platform, queue->ordinal = ordinal, queue->outward = outward;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&queue->arrived, &monotonic);
  pthread_condattr_destroy(&monotonic);
  queue->next = queues;
  return queues = queue;
}

/* Blocks of memory that were used before: touching new pages costs as much as copying into them. The caller holds the lock, for both. */
typedef struct Block {
  struct Block* next;
  size_t bytes;
} Block;
enum { MAX_SPARE_BYTES = 64 << 20 };
static Block* spare;
static size_t spare_bytes;

static char* reuse(size_t bytes) {
  for (Block** at = &spare; *at; at = &(*at)->next)
    if ((*at)->bytes == bytes) {
      Block* block = *at;
      *at = block->next;
      spare_bytes -= bytes;
      return (char*)block;
    }
  return NULL;
}
static int keep(char* data, size_t bytes) {
  if (spare_bytes + bytes > MAX_SPARE_BYTES) return 0;
  Block* block = (Block*)data;
  block->bytes = bytes;
  block->next = spare;
  spare = block;
  spare_bytes += bytes;
  return 1;
}

/* An element with room for its data, whose leaves have code, rank and dims already; NULL if there is no memory. */
static Element* with_data(Element* element) {
  size_t bytes = 0;
  for (int i = 0; i < element->count; i++) {
    Leaf* leaf = &element->leaves[i];
    leaf->bytes = dtype_of(leaf->code)->bytes;
    for (int d = 0; d < leaf->rank; d++) leaf->bytes *= (size_t)leaf->dims[d];
    leaf->offset = bytes;
    bytes += (leaf->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  element->bytes = bytes ? bytes : ALIGNMENT;
  pthread_mutex_lock(&lock);
  element->data = reuse(element->bytes);
  pthread_mutex_unlock(&lock);
  if (!element->data) element->data = malloc(element->bytes);
  return element->data ? element : NULL;
}
static void discard(Element* element) {
  if (element && element->data) {
    pthread_mutex_lock(&lock);
    int kept = keep(element->data, element->bytes);
    pthread_mutex_unlock(&lock);
    if (!kept) free(element->data);
  }
  free(element);
}
static void append(Queue* queue, Element* element) {
  element->next = NULL;
  if (queue->tail) queue->tail->next = element;
  else queue->head = element;
  queue->tail = element;
  queue->length++;
  pthread_cond_broadcast(&queue->arrived);
}
static Element* take(Queue* queue) {
  Element* element = queue->head;
  if (!element) return NULL;
  queue->head = element->next;
  if (!queue->head) queue->tail = NULL;
  queue->length--;
  return element;
}

/* --------------------------------------------------------------------------------------------------------------- Ctrl-C */

/* Python's handler only sets a flag, which the main thread sees when it runs Python again; one that waits for a program doesn't.
 * While programs wait for data, this handler stands before it. */
static volatile sig_atomic_t interrupts;
static struct sigaction python_handler;
static int waiting, installed;

static void on_interrupt(int number, siginfo_t* info, void* context) {
  interrupts++;
  if (python_handler.sa_flags & SA_SIGINFO) python_handler.sa_sigaction(number, info, context);
  else python_handler.sa_handler(number);
}
/* The caller holds the lock, for both. */
static void watch(void) {
  if (waiting++) return;
  sigaction(SIGINT, NULL, &python_handler);
  installed = (python_handler.sa_flags & SA_SIGINFO) || (python_handler.sa_handler != SIG_DFL && python_handler.sa_handler != SIG_IGN);
  if (!installed) return;
  struct sigaction own = {.sa_mask = python_handler.sa_mask, .sa_flags = python_handler.sa_flags | SA_SIGINFO};
  own.sa_sigaction = on_interrupt;
  sigaction(SIGINT, &own, NULL);
}
static void unwatch(void) {
  if (--waiting || !installed) return;
  struct sigaction now;
  sigaction(SIGINT, NULL, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_interrupt) sigaction(SIGINT, &python_handler, NULL);
}

/* --------------------------------------------------------------------------------------------------------------- waiting */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static void wait_slice(Queue* queue, double until_s) {
  double end = now_s() + 0.02; /* how often flags are looked at that wake nobody up */
  if (until_s >= 0 && until_s < end) end = until_s;
  struct timespec at = {.tv_sec = (time_t)end, .tv_nsec = (long)(1e9 * (end - (double)(time_t)end))};
  pthread_cond_timedwait(&queue->arrived, &lock, &at);
}

/* -------------------------------------------------------------------------------------------- what the program calls */

static void* refuse(const Frame* frame, int code, const char* form, ...) {
  char message[4096];
  va_list values;
  va_start(values, form);
  vsnprintf(message, sizeof(message), form, values);
  va_end(values);
  ErrorArgs args = {.struct_size = sizeof(args), .message = message, .code = code};
  return frame->api->error_create(&args);
}
static int answer_metadata(Frame* frame) {
  if (!frame->extensions || frame->extensions->type != EXTENSION_METADATA) return 0;
  Version* version = &((MetadataExtension*)frame->extensions)->metadata->version;
  version->major = API_MAJOR, version->minor = API_MINOR;
  return 1;
}
static int64_t attribute(const Frame* frame, const char* name) {
  for (int64_t i = 0; i < frame->attributes.size; i++)
    if (frame->attributes.types[i] == ATTRIBUTE_SCALAR && frame->attributes.names[i]->size == strlen(name) &&
        !memcmp(frame->attributes.names[i]->text, name, strlen(name)))
      return *(int64_t*)((Scalar*)frame->attributes.values[i])->value;
  return 0;
}
static int ordinal_of(const Frame* frame) {
  OrdinalArgs args = {.struct_size = sizeof(args), .context = frame->context};
  return frame->api->ordinal_get(&args) ? 0 : args.ordinal;
}
static size_t add_shape(char* text, size_t at, size_t room, int code, int64_t rank, const int64_t* dims) {
  const Dtype* dtype = dtype_of(code);
  if (at < room) at += (size_t)snprintf(text + at, room - at, "%s[", dtype ? dtype->name : "?");
  for (int64_t d = 0; d < rank && at < room; d++) at += (size_t)snprintf(text + at, room - at, d ? ",%lld" : "%lld", (long long)dims[d]);
  if (at < room) at += (size_t)snprintf(text + at, room - at, "]");
  return at;
}
enum { SHAPES = 1024 };
static const char* expected_shapes(const Arrays* arrays, char* text) {
  size_t at = 0;
  strcpy(text, "nothing");
  for (int64_t i = 0; i < arrays->size; i++) {
    Array* array = arrays->arrays[i];
    if (array->dtype == TOKEN) continue;
    if (at && at < SHAPES) at += (size_t)snprintf(text + at, SHAPES - at, ", ");
    at = add_shape(text, at, SHAPES, array->dtype, array->rank, array->dims);
  }
  return text;
}
static const char* found_shapes(const Element* element, char* text) {
  size_t at = 0;
  strcpy(text, "nothing");
  for (int i = 0; i < element->count; i++) {
    if (at && at < SHAPES) at += (size_t)snprintf(text + at, SHAPES - at, ", ");
    at = add_shape(text, at, SHAPES, element->leaves[i].code, element->leaves[i].rank, element->leaves[i].dims);
  }
  return text;
}
static int fits(const Leaf* leaf, const Array* array) {
  return leaf->code == array->dtype && leaf->rank == array->rank && !memcmp(leaf->dims, array->dims, (size_t)leaf->rank * sizeof(int64_t));
}

/* A daemon thread that runs the program itself may not go back to Python while that ends: it stays here until the process is gone. */
static void stay_if_pythons_own(void) {
  if (!PyGILState_GetThisThreadState()) return;
  for (;;) pause();
}

static void* infeed(Frame* frame) {
  if (answer_metadata(frame) || frame->stage != STAGE_EXECUTE) return NULL;
  char expected[SHAPES + 1], found[SHAPES + 1];
  int platform = (int)attribute(frame, "platform"), ordinal = ordinal_of(frame);
  const char* name = platforms[platform];
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, 0);
  Element* element = queue ? take(queue) : NULL;
  int stopped = 0, late = 0;
  double patience = timeout_wall_s;
  if (queue && !element) {
    double until = patience < 0 ? -1 : now_s() + patience;
    watch();
    sig_atomic_t before = interrupts;
    /* Once interrupted it takes nothing more: who was told may feed another program before this one looks again. */
    while (!(stopped = closing || interrupts != before) && !(element = take(queue)) && !(late = until >= 0 && now_s() >= until))
      wait_slice(queue, until);
    unwatch();
  }
  unsigned long long number = queue ? queue->moved : 0;
  int ending = !element && closing;
  if (element) queue->moved++;
  pthread_mutex_unlock(&lock);
  if (ending) stay_if_pythons_own();
  if (!queue) return refuse(frame, RESOURCE_EXHAUSTED, "infeed of %s:%d: no memory for its queue", name, ordinal);
  expected_shapes(&frame->results, expected);
  if (!element && stopped)
    return refuse(frame, CANCELLED, "infeed of %s:%d: interrupted while the program waited for element %llu (%s)", name, ordinal, number, expected);
  if (!element && late)
    return refuse(frame, DEADLINE_EXCEEDED,
                  "infeed of %s:%d: the program asked for element %llu (%s), got %llu, and waited %g s in vain; feed it before the program is "
                  "called or from another thread (transfer_to_infeed), or let it wait longer (set_feed_timeout)",
                  name, ordinal, number, expected, number, patience);
  int64_t leaf = 0;
  int good = 1;
  for (int64_t i = 0; i < frame->results.size; i++) {
    Array* array = frame->results.arrays[i];
    if (array->dtype == TOKEN) continue;
    good = good && leaf < element->count && fits(&element->leaves[leaf], array);
    leaf++;
  }
  if (!good || leaf != element->count) {
    void* error = refuse(frame, INVALID_ARGUMENT, "infeed of %s:%d: element %llu is (%s), but the program expects (%s)", name, ordinal, number,
                         found_shapes(element, found), expected);
    discard(element);
    return error;
  }
  leaf = 0;
  for (int64_t i = 0; i < frame->results.size; i++) {
    Array* array = frame->results.arrays[i];
    if (array->dtype == TOKEN) continue;
    Leaf* source = &element->leaves[leaf++];
    if (source->bytes) memcpy(array->data, element->data + source->offset, source->bytes);
  }
  discard(element);
  return NULL;
}

static void* outfeed(Frame* frame) {
  if (answer_metadata(frame) || frame->stage != STAGE_EXECUTE) return NULL;
  int platform = (int)attribute(frame, "platform"), ordinal = ordinal_of(frame), count = 0;
  Element* element = calloc(1, sizeof(Element) + (size_t)frame->arguments.size * sizeof(Leaf));
  for (int64_t i = 0; element && i < frame->arguments.size; i++) {
    Array* array = frame->arguments.arrays[i];
    if (array->dtype == TOKEN) continue;
    Leaf* leaf = &element->leaves[count++];
    leaf->code = array->dtype, leaf->rank = (int)array->rank;
    memcpy(leaf->dims, array->dims, (size_t)array->rank * sizeof(int64_t));
  }
  if (element) element->count = count;
  if (!element || !with_data(element)) {
    discard(element);
    return refuse(frame, RESOURCE_EXHAUSTED, "outfeed of %s:%d: no memory for an element; drain it (transfer_from_outfeed)", platforms[platform],
                  ordinal);
  }
  count = 0;
  for (int64_t i = 0; i < frame->arguments.size; i++) {
    Array* array = frame->arguments.arrays[i];
    if (array->dtype == TOKEN) continue;
    Leaf* leaf = &element->leaves[count++];
    if (leaf->bytes) memcpy(element->data + leaf->offset, array->data, leaf->bytes);
  }
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, 1);
  if (queue) {
    append(queue, element);
    queue->moved++;
  }
  pthread_mutex_unlock(&lock);
  if (queue) return NULL;
  discard(element);
  return refuse(frame, RESOURCE_EXHAUSTED, "outfeed of %s:%d: no memory for its queue", platforms[platform], ordinal);
}

/* Zeros of which the compiler knows nothing. */
static void* unknown_zero(Frame* frame) {
  if (answer_metadata(frame) || frame->stage != STAGE_EXECUTE) return NULL;
  for (int64_t i = 0; i < frame->results.size; i++) {
    Array* array = frame->results.arrays[i];
    const Dtype* dtype = dtype_of(array->dtype);
    size_t bytes = dtype ? dtype->bytes : 0;
    for (int64_t d = 0; d < array->rank; d++) bytes *= (size_t)array->dims[d];
    if (bytes) memset(array->data, 0, bytes);
  }
  return NULL;
}

/* ------------------------------------------------------------------------------------------------------- Python's side */

static int a_platform(int platform) {
  if (platform >= 0 && platform < (int)(sizeof(platforms) / sizeof(platforms[0]))) return 0;
  PyErr_Format(PyExc_ValueError, "platform %d has no feeds", platform);
  return -1;
}

/* put(platform, ordinal, ((dtype code, dims, buffer), ...)) */
static PyObject* put(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal;
  PyObject* leaves;
  if (!PyArg_ParseTuple(args, "iiO!", &platform, &ordinal, &PyTuple_Type, &leaves) || a_platform(platform) < 0) return NULL;
  Py_ssize_t count = PyTuple_Size(leaves), viewed = 0;
  Element* element = calloc(1, sizeof(Element) + (size_t)count * sizeof(Leaf));
  Py_buffer* views = calloc((size_t)(count ? count : 1), sizeof(Py_buffer));
  if (!element || !views) {
    PyErr_NoMemory();
    goto fail;
  }
  element->count = (int)count;
  for (; viewed < count; viewed++) {
    PyObject *dims, *source;
    Leaf* leaf = &element->leaves[viewed];
    if (!PyArg_ParseTuple(PyTuple_GetItem(leaves, viewed), "iO!O", &leaf->code, &PyTuple_Type, &dims, &source)) goto fail;
    leaf->rank = (int)PyTuple_Size(dims);
    if (leaf->rank > MAX_RANK || !dtype_of(leaf->code)) {
      PyErr_Format(PyExc_ValueError, "leaf %zd has %d dimensions and dtype code %d: at most %d, and a known code", viewed, leaf->rank, leaf->code,
                   MAX_RANK);
      goto fail;
    }
    for (int d = 0; d < leaf->rank; d++) leaf->dims[d] = PyLong_AsLongLong(PyTuple_GetItem(dims, d));
    if (PyErr_Occurred() || PyObject_GetBuffer(source, &views[viewed], PyBUF_SIMPLE) < 0) goto fail;
  }
  if (!with_data(element)) {
    PyErr_NoMemory();
    goto fail;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    if ((size_t)views[i].len != element->leaves[i].bytes) {
      PyErr_Format(PyExc_ValueError, "leaf %zd has %zd bytes, but its shape has %zu", i, views[i].len, element->leaves[i].bytes);
      goto fail;
    }
  Queue* queue;
  int closed;
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t i = 0; i < count; i++)
    if (views[i].len) memcpy(element->data + element->leaves[i].offset, views[i].buf, (size_t)views[i].len);
  pthread_mutex_lock(&lock);
  closed = closing;
  queue = closed ? NULL : queue_of(platform, ordinal, 0);
  if (queue) append(queue, element);
  pthread_mutex_unlock(&lock);
  Py_END_ALLOW_THREADS;
  if (!queue) {
    PyErr_SetString(PyExc_RuntimeError, closed ? "the process is ending: its feeds are closed" : "no memory for an infeed's queue");
    goto fail;
  }
  for (Py_ssize_t i = 0; i < count; i++) PyBuffer_Release(&views[i]);
  free(views);
  Py_RETURN_NONE;
fail:
  for (Py_ssize_t i = 0; i < viewed; i++) PyBuffer_Release(&views[i]);
  free(views);
  discard(element);
  return NULL;
}

/* get(platform, ordinal, seconds to wait or None) -> ((dtype code, dims, bytearray), ...), or None if it waited in vain */
static PyObject* get(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal;
  PyObject* seconds;
  if (!PyArg_ParseTuple(args, "iiO", &platform, &ordinal, &seconds) || a_platform(platform) < 0) return NULL;
  double patience = seconds == Py_None ? timeout_wall_s : PyFloat_AsDouble(seconds);
  if (PyErr_Occurred()) return NULL;
  double until = patience < 0 ? -1 : now_s() + patience;
  Element* element = NULL;
  for (;;) {
    int late;
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&lock);
    Queue* queue = queue_of(platform, ordinal, 1);
    element = queue ? take(queue) : NULL;
    late = closing || !queue || (until >= 0 && now_s() >= until);
    if (!element && !late) {
      wait_slice(queue, until);
      element = take(queue);
    }
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS;
    if (element) break;
    if (PyErr_CheckSignals() < 0) return NULL;
    if (late) Py_RETURN_NONE;
  }
  PyObject* result = PyTuple_New(element->count);
  for (int i = 0; result && i < element->count; i++) {
    Leaf* leaf = &element->leaves[i];
    PyObject* dims = PyTuple_New(leaf->rank);
    for (int d = 0; dims && d < leaf->rank; d++) PyTuple_SetItem(dims, d, PyLong_FromLongLong(leaf->dims[d]));
    PyObject* bytes = dims ? PyByteArray_FromStringAndSize(element->data + leaf->offset, (Py_ssize_t)leaf->bytes) : NULL;
    PyObject* entry = bytes ? Py_BuildValue("(iNN)", leaf->code, dims, bytes) : NULL;
    if (!entry) Py_CLEAR(result);
    else PyTuple_SetItem(result, i, entry);
  }
  discard(element);
  return result;
}

/* length(platform, ordinal, outward) */
static PyObject* length(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal, outward;
  if (!PyArg_ParseTuple(args, "iip", &platform, &ordinal, &outward) || a_platform(platform) < 0) return NULL;
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, outward);
  Py_ssize_t found = queue ? queue->length : 0;
  pthread_mutex_unlock(&lock);
  return PyLong_FromSsize_t(found);
}

/* clear(platform, ordinal, outward) -> how many elements were dropped */
static PyObject* clear(PyObject* module, PyObject* args) {
  (void)module;
  int platform, ordinal, outward;
  if (!PyArg_ParseTuple(args, "iip", &platform, &ordinal, &outward) || a_platform(platform) < 0) return NULL;
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, outward);
  Element* element = queue ? queue->head : NULL;
  Py_ssize_t dropped = queue ? queue->length : 0;
  if (queue) queue->head = queue->tail = NULL, queue->length = 0;
  pthread_mutex_unlock(&lock);
  while (element) {
    Element* next = element->next;
    discard(element);
    element = next;
  }
  return PyLong_FromSsize_t(dropped);
}

/* set_timeout(seconds; negative: for ever) -> what it was */
static PyObject* set_timeout(PyObject* module, PyObject* args) {
  (void)module;
  double seconds;
  if (!PyArg_ParseTuple(args, "d", &seconds)) return NULL;
  pthread_mutex_lock(&lock);
  double before = timeout_wall_s;
  timeout_wall_s = seconds;
  pthread_mutex_unlock(&lock);
  return PyFloat_FromDouble(before);
}

/* close(): programs that wait, and that ask from now on, are refused */
static PyObject* close_all(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  pthread_mutex_lock(&lock);
  closing = 1;
  for (Queue* queue = queues; queue; queue = queue->next) pthread_cond_broadcast(&queue->arrived);
  pthread_mutex_unlock(&lock);
  Py_RETURN_NONE;
}

static PyObject* targets(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  return Py_BuildValue("(NNN)", PyCapsule_New((void*)infeed, NULL, NULL), PyCapsule_New((void*)outfeed, NULL, NULL),
                       PyCapsule_New((void*)unknown_zero, NULL, NULL));
}
static PyObject* dtype_codes(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  PyObject* codes = PyDict_New();
  for (int i = 0; codes && i < NUM_DTYPES; i++) {
    PyObject* code = PyLong_FromLong(dtypes[i].code);
    if (!code || PyDict_SetItemString(codes, dtypes[i].name, code) < 0) Py_CLEAR(codes);
    Py_XDECREF(code);
  }
  return codes;
}

static PyMethodDef methods[] = {{"put", put, METH_VARARGS, "Copies an element into the infeed of a device."},
                                {"get", get, METH_VARARGS, "Takes an element out of the outfeed of a device, or None in time."},
                                {"length", length, METH_VARARGS, "Elements in a queue."},
                                {"clear", clear, METH_VARARGS, "Drops a queue's elements; how many."},
                                {"set_timeout", set_timeout, METH_VARARGS, "How long programs wait for data, in seconds; what it was."},
                                {"close", close_all, METH_NOARGS, "Refuses programs that wait, or will ask."},
                                {"targets", targets, METH_NOARGS, "The functions that XLA calls: for infeeds, for outfeeds, for a zero that it doesn't know."},
                                {"gather", gather, METH_VARARGS, "Copies elements of an iterator into the rows of arrays."},
                                {"dtype_codes", dtype_codes, METH_NOARGS, "XLA's number of each dtype that can be fed, by NumPy's name."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_feeds", "Queues of infeeds and outfeeds (native/feeds.c).", -1, methods, NULL, NULL,
                                        NULL, NULL};

PyMODINIT_FUNC PyInit__feeds(void) { return PyModule_Create(&definition); }
