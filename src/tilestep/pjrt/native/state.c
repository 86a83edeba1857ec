/* Errors, and who may still enter Python. */
#define _DEFAULT_SOURCE /* pause */
#include "native.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

PyObject* ts_forgotten;
volatile int ts_stage;
volatile long ts_dry;
static PyObject* describe_error; /* exception -> (code, bytes) */
static unsigned long closing_thread;

int ts_may_enter(void) {
  return ts_stage == TS_OPEN || ts_stage == TS_LEAVING || (ts_stage == TS_CLOSING && PyThread_get_thread_ident() == closing_thread);
}

/* Daemon threads that the end of the process would meet in the midst of JAX. Python ends such a thread where it next wants the GIL, and
 * its end within JAX's C++ takes the process down. They stay in here instead, and cease with the process. Entries are never freed. */
typedef struct Held {
  unsigned long thread;
  volatile int stays;
  struct Held* next;
} Held;
static Held* volatile held;

static Held* held_of(unsigned long thread) {
  for (Held* each = held; each; each = each->next)
    if (each->thread == thread) return each;
  return NULL;
}
int ts_may_begin(void) {
  if (ts_stage == TS_OPEN) return 1;
  Held* self = held_of(PyThread_get_thread_ident());
  if (!self) return ts_may_enter();
  if (ts_stage == TS_LEAVING) {
    (void)PyGILState_Ensure(); /* whether it has the GIL or not: it gives it up */
    (void)PyEval_SaveThread();
  }
  self->stays = 1;
  for (;;) pause();
}
PyObject* ts_hold_back(PyObject* module, PyObject* thread) {
  (void)module;
  unsigned long number = PyLong_AsUnsignedLong(thread);
  if (PyErr_Occurred()) return NULL;
  Held* found = held_of(number);
  if (!found) {
    if (!(found = calloc(1, sizeof(Held)))) return PyErr_NoMemory();
    found->thread = number;
    found->next = held;
    held = found;
  }
  if (ts_stage == TS_OPEN) ts_stage = TS_LEAVING;
  return PyBool_FromLong(found->stays);
}

int ts_interrupted(void) { return PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception); }
PyObject* ts_take_interrupt(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Py_XDECREF(type), Py_XDECREF(trace);
  return value;
}
int ts_put_off(PyObject** interrupt) {
  if (!ts_interrupted()) return 0;
  Py_XDECREF(*interrupt); /* one of several is enough */
  *interrupt = ts_take_interrupt();
  return 1;
}
static int raise_later(void* error) {
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_DECREF((PyObject*)error);
  return -1;
}
void ts_interrupt_later(PyObject* error) {
  if (error && Py_AddPendingCall(raise_later, error) < 0) { /* too many are pending: what is asked of every program gets through */
    Py_DECREF(error);
    PyErr_SetInterrupt();
  }
}

void ts_forget_error(void) {
  if (ts_interrupted()) ts_interrupt_later(ts_take_interrupt());
  else PyErr_Clear();
}

typedef struct {
  const PJRT_Error_FunctionTable* vtable; /* first: a PJRT_Error points here */
  int code;
  size_t size;
  const char* message;
} Error;

static Error no_memory; /* what is said where not even an error can be made */
void ts_error_free(void* error) {
  if (error != &no_memory) free(error);
}
int ts_error_code(const void* error) { return ((const Error*)error)->code; }
void ts_error_read(const void* error, const char** message, size_t* size) {
  *message = ((const Error*)error)->message;
  *size = ((const Error*)error)->size;
}
static void error_payloads(const void* error, void* visitor, void* user) { (void)error, (void)visitor, (void)user; /* it has none */ }

static PJRT_Error_FunctionTable error_table = {
    sizeof(PJRT_Error_FunctionTable), sizeof(Error), NULL, ts_error_free, ts_error_read, ts_error_code, error_payloads};

static Error no_memory = {&error_table, PJRT_Error_Code_RESOURCE_EXHAUSTED, 13, "Out of memory"};

void* ts_error(int code, const char* message, size_t size) {
  Error* error = malloc(sizeof(Error) + size + 1);
  if (!error) return &no_memory;
  char* text = (char*)(error + 1);
  error->vtable = &error_table;
  error->code = code;
  error->size = size;
  memcpy(text, message, size);
  text[size] = 0;
  error->message = text;
  return error;
}

void* ts_error_text(int code, const char* text) { return ts_error(code, text, strlen(text)); }

void* ts_error_from_python(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && trace) PyException_SetTraceback(value, trace);
  void* error = NULL;
  PyObject *pair = NULL, *interrupt = NULL;
  do { /* Ctrl-C while it is described comes behind the error */
    if (describe_error && value) pair = PyObject_CallFunctionObjArgs(describe_error, value, NULL);
  } while (!pair && ts_put_off(&interrupt));
  ts_interrupt_later(interrupt);
  if (pair) {
    int code;
    PyObject* text; /* a format with a length, built on 3.13, would fail on 3.11 */
    if (PyArg_ParseTuple(pair, "iS", &code, &text)) error = ts_error(code, PyBytes_AsString(text), (size_t)PyBytes_Size(text));
    Py_DECREF(pair);
  }
  if (!error) {
    PyErr_WriteUnraisable(describe_error); /* says why, and clears it */
    error = ts_error_text(PJRT_Error_Code_INTERNAL, "an exception could not be described");
  }
  /* Ctrl-C while a function of ours ran: JAX makes an error of its own of ours, so the interrupt is asked for again behind it. */
  if (value && !PyErr_GivenExceptionMatches(value, PyExc_Exception)) {
    Py_INCREF(value);
    ts_interrupt_later(value);
  }
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  return error;
}

static void* api_destroy(PJRT_Error_Destroy_Args* a) {
  ts_error_free(a->error);
  return NULL;
}
static void* api_message(PJRT_Error_Message_Args* a) {
  ts_error_read(a->error, (const char**)&a->message, &a->message_size);
  return NULL;
}
static void* api_code(PJRT_Error_GetCode_Args* a) {
  a->code = ts_error_code(a->error);
  return NULL;
}
static void* api_payloads(PJRT_Error_ForEachPayload_Args* a) {
  (void)a; /* it has none */
  return NULL;
}
void ts_fill_error_entries(PJRT_Api* api) {
  api->PJRT_Error_Destroy = api_destroy;
  api->PJRT_Error_Message = api_message;
  api->PJRT_Error_GetCode = api_code;
  api->PJRT_Error_ForEachPayload = api_payloads;
}

void ts_plain_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

int ts_no_keywords(PyObject* kwargs, const char* what) {
  if (!kwargs || !PyDict_Size(kwargs)) return 0;
  PyErr_Format(PyExc_TypeError, "%s takes positional arguments only", what);
  return -1;
}

PyObject* ts_configure(PyObject* module, PyObject* args) {
  PyObject *describe, *list;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO!", &describe, &PyList_Type, &list)) return NULL;
  Py_INCREF(describe), Py_INCREF(list);
  Py_XDECREF(describe_error), Py_XDECREF(ts_forgotten);
  describe_error = describe;
  ts_forgotten = list;
  Py_RETURN_NONE;
}

PyObject* ts_close(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  closing_thread = PyThread_get_thread_ident();
  ts_stage = TS_CLOSING;
  Py_RETURN_NONE;
}

PyObject* ts_count_dry(PyObject* module, PyObject* change) {
  (void)module;
  long more = PyLong_AsLong(change);
  if (more == -1 && PyErr_Occurred()) return NULL;
  ts_dry = ts_dry + more;
  Py_RETURN_NONE;
}
