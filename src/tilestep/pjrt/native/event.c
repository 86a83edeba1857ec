/* Events: a handful of arrays that somebody waits for.
 *
 * All results of a run are ready at one moment, but JAX asks to be told of each. One thread waits for the first of them that is asked
 * for, and tells those who asked for the others, its peers, too. It is the one that asked where that sleeps next anyhow (here.c).
 */
#include "native.h"

typedef void (*ReadyCallback)(void* error, void* user);
typedef struct Asked {
  Event* event;
  ReadyCallback callback;
  void* user;
  void* error;
} Asked;

PyTypeObject *ts_event_type, *ts_peers_type;
Event* ts_event_done;

Event* ts_event_make(PyObject* waitables, Peers* peers) {
  Event* self = (Event*)PyType_GenericAlloc(ts_event_type, 0);
  if (!self) return NULL;
  Py_XINCREF(waitables), Py_XINCREF((PyObject*)peers);
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
  if (ts_question_of((Event*)self)) ts_question(-1);
  Py_XDECREF(((Event*)self)->message);
  Py_XDECREF(((Event*)self)->waitables);
  Py_XDECREF((PyObject*)((Event*)self)->peers);
  ts_plain_dealloc(self);
}
static void peers_dealloc(PyObject* self) {
  PyMem_Free(((Peers*)self)->asked); /* empty: who asked holds an event, which holds this */
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
    PyObject* result = ts_wait_for(item);
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
      self->gone = 1;
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

/* The callbacks may take locks that a thread waiting for the GIL holds: they run without. The first to ask is told last, as who asks for
 * several waits for it first, and would wake up only to wait for the next. */
static void tell(Asked* asked, size_t count) {
  for (size_t i = 0; i < count; i++) asked[i].error = error_of(asked[i].event);
  Py_BEGIN_ALLOW_THREADS;
  for (size_t i = count; i-- > 0;) asked[i].callback(asked[i].error, asked[i].user);
  Py_END_ALLOW_THREADS;
}
static int ask(Peers* peers, Event* event, void* callback, void* user) {
  if (peers->count == peers->room) {
    size_t room = peers->room ? 2 * peers->room : 16;
    Asked* more = PyMem_Realloc(peers->asked, room * sizeof(Asked));
    if (!more) return PyErr_NoMemory(), -1;
    peers->asked = more;
    peers->room = room;
  }
  Py_INCREF((PyObject*)event);
  peers->asked[peers->count++] = (Asked){event, (ReadyCallback)callback, user, NULL};
  return 0;
}

static void tell_peers(Peers* peers, int all_done) {
  Asked* asked = peers->asked;
  size_t count = peers->count;
  peers->asked = NULL;
  peers->count = peers->room = 0;
  for (size_t i = 0; i < count; i++) {
    if (!all_done) ts_event_wait(asked[i].event);
    asked[i].event->done = 1;
  }
  tell(asked, count);
  for (size_t i = 0; i < count; i++) Py_DECREF((PyObject*)asked[i].event);
  PyMem_Free(asked);
}

/* (event, callback, user): waits, and tells, for its peers too. */
PyObject* ts_finish(PyObject* module, PyObject* wait) {
  (void)module;
  if (!PyTuple_Check(wait) || PyTuple_Size(wait) != 3) return PyErr_Format(PyExc_TypeError, "finish takes (event, callback, user)");
  Event* event = (Event*)PyTuple_GetItem(wait, 0);
  Asked own = {event, (ReadyCallback)PyLong_AsVoidPtr(PyTuple_GetItem(wait, 1)), PyLong_AsVoidPtr(PyTuple_GetItem(wait, 2)), NULL};
  Peers* peers = event->peers;
  Py_XINCREF((PyObject*)peers);
  ts_event_wait(event);
  int all_done = !event->gone && !event->code; /* all results of a run are there when one is */
  if (peers) {
    if (all_done) peers->ready = 1;
    tell_peers(peers, all_done);
  }
  tell(&own, 1);
  while (peers && peers->count) tell_peers(peers, all_done);
  if (peers) peers->waiting = 0;
  Py_XDECREF((PyObject*)peers);
  Py_RETURN_NONE;
}
static PyType_Slot peers_slots[] = {{Py_tp_dealloc, peers_dealloc}, {0, NULL}};
PyType_Spec ts_peers_spec = {"tilestep.pjrt._native.Peers", sizeof(Peers), 0, Py_TPFLAGS_DEFAULT, peers_slots};
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
  int open = ts_question_of(event);
  if (open && !ts_event_poll(event)) ts_question(-1), open = 0; /* it is no question any more */
  ts_event_wait(event);
  void* error = error_of(event);
  TS_LEAVE;
  if (open) ts_question(-1);
  return error;
}
static void* api_await(PJRT_Event_Await_Args* a) { return await_event(a->event); }
static void* api_error(PJRT_Event_Error_Args* a) { return await_event(a->event); }

static void* on_ready(PJRT_Event_OnReady_Args* a) {
  Event* event = a->event;
  if (event == ts_event_done || !ts_may_enter()) { /* not to be held back: a run in flight needs who waits for it */
    ((ReadyCallback)a->callback)(NULL, a->user_arg);
    return NULL;
  }
  void* error = NULL;
  TS_ENTER;
  Peers* peers = event->peers;
  if (ts_stage < TS_CLOSING && peers && peers->waiting) {
    if (ask(peers, event, a->callback, a->user_arg) < 0) error = ts_error_from_python();
  } else if (ts_stage >= TS_CLOSING || ts_event_poll(event)) {
    ts_event_wait(event);
    if (peers && !event->gone && !event->code) peers->ready = 1;
    Asked own = {event, (ReadyCallback)a->callback, a->user_arg, NULL};
    tell(&own, 1);
  } else { /* nothing in here runs bytecode, so that no signal can get in between; putting something into a queue doesn't either */
    PyObject* wait = Py_BuildValue("(ONN)", (PyObject*)event, PyLong_FromVoidPtr(a->callback), PyLong_FromVoidPtr(a->user_arg));
    int here = wait && ts_keep_wait(wait);
    PyObject* result = wait && !here ? PyObject_CallFunctionObjArgs(ts_wait_later, wait, NULL) : NULL;
    if (!result && !here) error = ts_error_from_python();
    else if (peers) peers->waiting = 1;
    Py_XDECREF(wait), Py_XDECREF(result);
  }
  TS_LEAVE;
  return error;
}
static void* api_on_ready(PJRT_Event_OnReady_Args* a) {
  int open = a->event != ts_event_done && ts_question_of((Event*)a->event);
  void* error = on_ready(a);
  if (open) ts_question(-1);
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
