/* Errors, and who may still enter Python. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

PyObject* ts_wait_later;
PyObject* ts_forgotten;
volatile int ts_closing;
volatile int ts_no_dry_values = 1;
static PyObject* describe_error; /* exception -> (code, bytes) */
static unsigned long closing_thread;

int ts_may_enter(void) { return ts_closing == 0 || (ts_closing == 1 && PyThread_get_thread_ident() == closing_thread); }

typedef struct {
  const PJRT_Error_FunctionTable* vtable; /* first: a PJRT_Error points here */
  int code;
  size_t size;
  char message[];
} Error;

static void error_destroy(void* error) { free(error); }
int ts_error_code(const void* error) { return ((const Error*)error)->code; }
void ts_error_read(const void* error, const char** message, size_t* size) {
  *message = ((const Error*)error)->message;
  *size = ((const Error*)error)->size;
}
static void error_payloads(const void* error, void* visitor, void* user) { (void)error, (void)visitor, (void)user; /* it has none */ }

static PJRT_Error_FunctionTable error_table = {
    sizeof(PJRT_Error_FunctionTable), sizeof(Error), NULL, error_destroy, ts_error_read, ts_error_code, error_payloads};

void* ts_error(int code, const char* message, size_t size) {
  Error* error = malloc(sizeof(Error) + size + 1);
  if (!error) abort(); /* nothing is left to say it with */
  error->vtable = &error_table;
  error->code = code;
  error->size = size;
  memcpy(error->message, message, size);
  error->message[size] = 0;
  return error;
}

void* ts_error_text(int code, const char* text) { return ts_error(code, text, strlen(text)); }

void* ts_error_from_python(void) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && trace) PyException_SetTraceback(value, trace);
  void* error = NULL;
  PyObject* pair = describe_error && value ? PyObject_CallFunctionObjArgs(describe_error, value, NULL) : NULL;
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
  if (value && PyErr_GivenExceptionMatches(value, PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
  return error;
}

static void* api_destroy(PJRT_Error_Destroy_Args* a) {
  free(a->error);
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
  PyObject *describe, *later, *list;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO!", &describe, &later, &PyList_Type, &list)) return NULL;
  Py_INCREF(describe), Py_INCREF(later), Py_INCREF(list);
  Py_XDECREF(describe_error), Py_XDECREF(ts_wait_later), Py_XDECREF(ts_forgotten);
  describe_error = describe;
  ts_wait_later = later;
  ts_forgotten = list;
  Py_RETURN_NONE;
}

PyObject* ts_close(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  closing_thread = PyThread_get_thread_ident();
  ts_closing = 1;
  Py_RETURN_NONE;
}

PyObject* ts_expect_dry_values(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  ts_no_dry_values = 0;
  Py_RETURN_NONE;
}
