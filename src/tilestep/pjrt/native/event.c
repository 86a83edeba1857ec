/* Events: a handful of arrays that somebody waits for.
 *
 * All results of a run are ready at one moment, but JAX asks to be told of each. One thread waits for the first of them that is asked
 * for; the others go into the list that they share, their peers, and are told by that thread. The list is empty while nobody waits,
 * else it begins with None, and (event, callback address, user address) follow.
 */
#include "native.h"

#include <stdlib.h>

PyTypeObject* ts_event_type;
Event* ts_event_done;

Event* ts_event_make(PyObject* waitables, PyObject* peers) {
  Event* self = (Event*)PyType_GenericAlloc(ts_event_type, 0);
  if (!self) return NULL;
  Py_XINCREF(waitables), Py_XINCREF(peers);
  self->waitables = waitables;
  self->peers = peers;
  self->done = waitables == NULL;
  return self;
}
static PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* waitables;
  (void)type;
  if (ts_no_keywords(kwargs, "Event") < 0 || !PyArg_ParseTuple(args, "O!", &PyTuple_Type, &waitables)) return NULL;
  return (PyObject*)ts_event_make(PyTuple_Size(waitables) ? waitables : NULL, NULL);
}
static void dealloc(PyObject* self) {
  Py_XDECREF(((Event*)self)->message);
  Py_XDECREF(((Event*)self)->waitables);
  Py_XDECREF(((Event*)self)->peers);
  ts_plain_dealloc(self);
}

/* Whether waiting would return at once. Needs the GIL. */
int ts_event_poll(Event* self) {
  if (self->done) return 1;
  if (!self->waitables) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->waitables); i++) {
    PyObject* ready = PyObject_CallMethod(PyTuple_GetItem(self->waitables, i), "is_ready", NULL);
    if (!ready) {
      int cannot_say = PyErr_ExceptionMatches(PyExc_AttributeError);
      PyErr_Clear();
      if (cannot_say) return 0;
      continue; /* deleted or failed: waiting returns at once */
    }
    int yes = PyObject_IsTrue(ready);
    Py_DECREF(ready);
    if (!yes) return 0;
  }
  return 1;
}

/* Waits. Needs the GIL, which the waiting itself gives up. */
void ts_event_wait(Event* self) {
  if (self->done || !self->waitables) return;
  PyObject* waitables = self->waitables;
  Py_INCREF(waitables);
  for (Py_ssize_t i = 0; i < PyTuple_Size(waitables); i++) {
    PyObject* item = PyTuple_GetItem(waitables, i);
    PyObject* result = PyObject_CallMethod(item, "block_until_ready", NULL);
    if (result) {
      Py_DECREF(result);
      continue;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* deleted = PyObject_CallMethod(item, "is_deleted", NULL);
    if (!deleted) PyErr_Clear();
    int gone = deleted && PyObject_IsTrue(deleted);
    Py_XDECREF(deleted);
    PyErr_Restore(type, value, trace);
    if (gone || self->code) { /* donated on: whoever took it reports its failure */
      PyErr_Clear();
      continue;
    }
    void* error = ts_error_from_python();
    const char* text;
    size_t size;
    ts_error_read(error, &text, &size);
    self->message = PyBytes_FromStringAndSize(text, (Py_ssize_t)size);
    if (!self->message) PyErr_Clear();
    self->code = ts_error_code(error);
    ts_error_free(error);
  }
  Py_DECREF(waitables);
  Py_CLEAR(self->waitables);
  self->done = 1;
}

static void* error_of(Event* self) {
  if (!self->code) return NULL;
  if (!self->message) return ts_error_text(self->code, "");
  return ts_error(self->code, PyBytes_AsString(self->message), (size_t)PyBytes_Size(self->message));
}

typedef void (*ReadyCallback)(void* error, void* user);

/* The callback may take locks that a thread waiting for the GIL holds: it runs without. */
static void fire(Event* self, void* callback, void* user) {
  void* error = error_of(self);
  Py_BEGIN_ALLOW_THREADS;
  ((ReadyCallback)callback)(error, user);
  Py_END_ALLOW_THREADS;
}

/* (event, callback, user): waits, and tells. */
static void finish(PyObject* wait) {
  Event* event = (Event*)PyTuple_GetItem(wait, 0);
  void *callback = PyLong_AsVoidPtr(PyTuple_GetItem(wait, 1)), *user = PyLong_AsVoidPtr(PyTuple_GetItem(wait, 2));
  ts_event_wait(event);
  fire(event, callback, user);
}
PyObject* ts_finish(PyObject* module, PyObject* wait) {
  (void)module;
  if (!PyTuple_Check(wait) || PyTuple_Size(wait) != 3) return PyErr_Format(PyExc_TypeError, "finish takes (event, callback, user)");
  PyObject* peers = ((Event*)PyTuple_GetItem(wait, 0))->peers;
  Py_XINCREF(peers);
  finish(wait);
  while (peers && PyList_Size(peers) > 1) {
    PyObject* others = PyList_GetSlice(peers, 1, PyList_Size(peers));
    if (!others || PyList_SetSlice(peers, 1, PyList_Size(peers), NULL) < 0) {
      Py_XDECREF(others), Py_DECREF(peers);
      return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_Size(others); i++) finish(PyList_GetItem(others, i));
    Py_DECREF(others);
  }
  if (peers) PyList_SetSlice(peers, 0, 1, NULL);
  Py_XDECREF(peers);
  Py_RETURN_NONE;
}
static PyType_Slot slots[] = {{Py_tp_new, make}, {Py_tp_dealloc, dealloc}, {0, NULL}};
PyType_Spec ts_event_spec = {"tilestep.pjrt._native.Event", sizeof(Event), 0, Py_TPFLAGS_DEFAULT, slots};

static void* api_destroy(PJRT_Event_Destroy_Args* a) {
  if (a->event == ts_event_done || !ts_may_enter()) return NULL;
  TS_ENTER;
  Py_DECREF((PyObject*)a->event);
  TS_LEAVE;
  return NULL;
}
static void* api_is_ready(PJRT_Event_IsReady_Args* a) {
  Event* event = a->event;
  a->is_ready = true;
  if (event->done || !ts_may_begin()) return NULL;
  TS_ENTER;
  a->is_ready = ts_event_poll(event);
  TS_LEAVE;
  return NULL;
}
static void* await_event(Event* event) {
  if (event == ts_event_done || !ts_may_begin()) return NULL;
  TS_ENTER;
  ts_event_wait(event);
  void* error = error_of(event);
  TS_LEAVE;
  return error;
}
static void* api_await(PJRT_Event_Await_Args* a) { return await_event(a->event); }
static void* api_error(PJRT_Event_Error_Args* a) { return await_event(a->event); }

static void* api_on_ready(PJRT_Event_OnReady_Args* a) {
  Event* event = a->event;
  if (event == ts_event_done || !ts_may_enter()) { /* not to be held back: a run in flight needs who waits for it */
    ((ReadyCallback)a->callback)(NULL, a->user_arg);
    return NULL;
  }
  void* error = NULL;
  TS_ENTER;
  if (ts_stage >= TS_CLOSING || ts_event_poll(event)) {
    ts_event_wait(event);
    fire(event, a->callback, a->user_arg);
  } else { /* nothing in here runs bytecode, so that no signal can get in between; putting something into a queue doesn't either */
    PyObject *peers = event->peers, *result = NULL;
    PyObject* wait = Py_BuildValue("(ONN)", (PyObject*)event, PyLong_FromVoidPtr(a->callback), PyLong_FromVoidPtr(a->user_arg));
    if (wait && peers && PyList_Size(peers)) {
      if (PyList_Append(peers, wait) < 0) error = ts_error_from_python();
    } else if (!wait || (peers && PyList_Append(peers, Py_None) < 0) ||
               !(result = PyObject_CallFunctionObjArgs(ts_wait_later, wait, NULL))) {
      error = ts_error_from_python();
    }
    Py_XDECREF(wait), Py_XDECREF(result);
  }
  TS_LEAVE;
  return error;
}
static void* api_create(PJRT_Event_Create_Args* a) {
  void* error = NULL;
  TS_ENTER;
  Event* event = ts_event_make(NULL, NULL);
  if (event) event->done = 0;
  else error = ts_error_from_python();
  a->event = event;
  TS_LEAVE;
  return error;
}
static void* api_set(PJRT_Event_Set_Args* a) {
  Event* event = a->event;
  TS_ENTER;
  if (a->error_code) {
    event->message = PyBytes_FromStringAndSize(a->error_message, (Py_ssize_t)a->error_message_size);
    if (!event->message) PyErr_Clear();
    event->code = a->error_code;
  }
  event->done = 1;
  TS_LEAVE;
  return NULL;
}
void ts_fill_event_entries(PJRT_Api* api) {
  api->PJRT_Event_Destroy = api_destroy;
  api->PJRT_Event_IsReady = api_is_ready;
  api->PJRT_Event_Error = api_error;
  api->PJRT_Event_Await = api_await;
  api->PJRT_Event_OnReady = api_on_ready;
  api->PJRT_Event_Create = api_create;
  api->PJRT_Event_Set = api_set;
}
