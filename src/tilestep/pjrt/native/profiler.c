/* jax.profiler: the table through which its sessions ask for the emulated timeline.
 *
 * JAX calls these for every session of the process, whether it uses an IPU or not. A session is made and destroyed in C. It begins, ends
 * and gives its data in Python. JAX holds the GIL meanwhile, or not; a thread of its server for profiles has never had it.
 */

#include "functions.h"

#include <stdlib.h>
#include <string.h>


typedef struct {
  PyObject* session; /* Python's, from its begin on */
  PyObject* data;    /* bytes, once JAX has asked for them; it copies them before it destroys the session */
  size_t options_size;
  char options[];
} Profiler;

static PyObject* make_session;  /* options as bytes -> session */
static PyObject* is_finalizing; /* sys.is_finalizing: modules are torn down, and JAX ends a session that the program has left open */

static void* create(PLUGIN_Profiler_Create_Args* a) { /* may not fail: JAX would go on with a session that does not exist */
  Profiler* profiler = calloc(1, sizeof(Profiler) + a->options_size);
  if (profiler && a->options_size) {
    profiler->options_size = a->options_size;
    memcpy(profiler->options, a->options, a->options_size);
  }
  a->profiler = profiler; /* NULL, where there is no memory, is a session without a timeline */
  return NULL;
}
static void* destroy(PLUGIN_Profiler_Destroy_Args* a) {
  Profiler* profiler = a->profiler;
  if (!profiler) return NULL;
  if ((profiler->session || profiler->data) && ts_may_enter()) {
    TS_ENTER;
    Py_CLEAR(profiler->session);
    Py_CLEAR(profiler->data);
    TS_LEAVE;
  }
  free(profiler);
  return NULL;
}

/* Whether Python's modules are whole. Needs the GIL. */
static int is_whole(void) {
  PyObject* answer = PyObject_CallNoArgs(is_finalizing);
  int whole = answer == Py_False;
  if (!answer) ts_forget_error();
  Py_XDECREF(answer);
  return whole;
}
/* Calls a method of the session until no interrupt ends it; raises the interrupt later. Needs the GIL. */
static PyObject* call(PyObject* session, const char* method) {
  PyObject *result, *interrupt = NULL;
  do result = PyObject_CallMethod(session, method, NULL);
  while (!result && ts_put_off(&interrupt));
  ts_interrupt_later(interrupt);
  return result;
}
static PyObject* made(const Profiler* profiler) {
  PyObject *session, *interrupt = NULL; /* a format with a length would be built on 3.13 and fail on 3.11 */
  do session = PyObject_CallFunction(make_session, "N", PyBytes_FromStringAndSize(profiler->options, (Py_ssize_t)profiler->options_size));
  while (!session && ts_put_off(&interrupt));
  ts_interrupt_later(interrupt);
  return session;
}
static void* start(PLUGIN_Profiler_Start_Args* a) {
  Profiler* profiler = a->profiler;
  void* error = NULL;
  if (!profiler || !ts_may_begin()) return NULL;
  TS_ENTER;
  if (is_whole()) {
    PyObject* session = made(profiler);
    PyObject* begun = session ? call(session, "begin") : NULL;
    if (begun) {
      profiler->session = session;
      Py_DECREF(begun);
    } else {
      error = ts_error_from_python();
      Py_XDECREF(session);
    }
  }
  TS_LEAVE;
  return error;
}
static void* stop(PLUGIN_Profiler_Stop_Args* a) {
  Profiler* profiler = a->profiler;
  void* error = NULL;
  if (!profiler || !profiler->session || !ts_may_begin()) return NULL;
  TS_ENTER;
  if (is_whole()) {
    PyObject* ended = call(profiler->session, "end");
    if (!ended) error = ts_error_from_python();
    Py_XDECREF(ended);
  }
  TS_LEAVE;
  return error;
}
static void* collect_data(PLUGIN_Profiler_CollectData_Args* a) {
  Profiler* profiler = a->profiler;
  void* error = NULL;
  a->buffer = NULL;
  a->buffer_size_in_bytes = 0;
  if (!profiler || !profiler->session || !ts_may_begin()) return NULL;
  TS_ENTER;
  if (!profiler->data && is_whole()) {
    profiler->data = call(profiler->session, "data");
    if (!profiler->data) error = ts_error_from_python();
  }
  if (profiler->data) {
    char* bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(profiler->data, &bytes, &size) < 0) {
      error = ts_error_from_python();
    } else {
      a->buffer = bytes;
      a->buffer_size_in_bytes = (size_t)size;
    }
  }
  TS_LEAVE;
  return error;
}

static void destroy_error(PLUGIN_Profiler_Error_Destroy_Args* a) { ts_error_free(a->error); }
static void error_message(PLUGIN_Profiler_Error_Message_Args* a) {
  ts_error_read(a->error, (const char**)&a->message, &a->message_size);
}
static void* error_code(PLUGIN_Profiler_Error_GetCode_Args* a) {
  a->code = ts_error_code(a->error);
  return NULL;
}

static PLUGIN_Profiler_Api table = {
    sizeof(PLUGIN_Profiler_Api), NULL, destroy_error, error_message, error_code, create, destroy, start, stop, collect_data};
static PJRT_Profiler_Extension extension = {{sizeof(PJRT_Profiler_Extension), PJRT_Extension_Type_Profiler, NULL}, &table, 0};

void* ts_profiler_extension(PyObject* make) {
  PyObject* sys = PyImport_ImportModule("sys");
  PyObject* found = sys ? PyObject_GetAttrString(sys, "is_finalizing") : NULL;
  Py_XDECREF(sys);
  if (!found) return NULL;
  Py_XDECREF(is_finalizing);
  is_finalizing = found;
  Py_INCREF(make);
  Py_XDECREF(make_session);
  make_session = make;
  return &extension;
}
