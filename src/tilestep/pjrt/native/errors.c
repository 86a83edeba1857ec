/* PJRT_Error: status code and message. */

#include "functions.h"

#include <stdlib.h>
#include <string.h>


static PyObject* describe_error; /* exception -> (code, bytes) */

typedef struct {
  const PJRT_Error_FunctionTable* vtable; /* first: a PJRT_Error points here */
  int code;
  size_t size;
  const char* message;
} Error;

static Error no_memory; /* stands for an error for which there is no memory */
void ts_error_free(void* error) {
  if (error != &no_memory) free(error);
}
int ts_error_code(const void* error) { return ((const Error*)error)->code; }
void ts_error_read(const void* error, const char** message, size_t* size) {
  *message = ((const Error*)error)->message;
  *size = ((const Error*)error)->size;
}
static void error_payloads(const void* error, void* visitor, void* user) { (void)error, (void)visitor, (void)user; /* there are none */ }

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
  do { /* a Ctrl-C meanwhile is raised after the error */
    if (describe_error && value) pair = PyObject_CallFunctionObjArgs(describe_error, value, NULL);
  } while (!pair && ts_put_off(&interrupt));
  ts_interrupt_later(interrupt);
  if (pair) {
    int code;
    PyObject* text; /* a format with a length would be built on 3.13 and fail on 3.11 */
    if (PyArg_ParseTuple(pair, "iS", &code, &text)) error = ts_error(code, PyBytes_AsString(text), (size_t)PyBytes_Size(text));
    Py_DECREF(pair);
  }
  if (!error) {
    PyErr_WriteUnraisable(describe_error); /* prints the reason and clears it */
    error = ts_error_text(PJRT_Error_Code_INTERNAL, "an exception could not be described");
  }
  /* JAX makes an error of its own of ours. So an interrupt that ended our function is raised again after it. */
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
  (void)a; /* there are none */
  return NULL;
}
void ts_fill_error_entries(PJRT_Api* api) {
  api->PJRT_Error_Destroy = api_destroy;
  api->PJRT_Error_Message = api_message;
  api->PJRT_Error_GetCode = api_code;
  api->PJRT_Error_ForEachPayload = api_payloads;
}

void ts_describe_errors_with(PyObject* describe) {
  Py_INCREF(describe);
  Py_XDECREF(describe_error);
  describe_error = describe;
}
