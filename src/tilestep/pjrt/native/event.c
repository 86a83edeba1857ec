/* Events: a handful of arrays that somebody waits for.
 *
 * All results of a run are ready at one moment, but JAX asks to be told of each. One thread waits for the first of them that is asked
 * for, and tells those who asked for the others, its peers, too. It is the one that asked where that sleeps next anyhow (here.c), else one
 * of a pool.
 *
 * JAX asks of an array while it holds a lock of the array's, which others take with the GIL held: np.asarray does. So what it asks then,
 * PJRT_Buffer_ReadyEvent and PJRT_Event_IsReady, Error and OnReady of what that gave, neither takes the GIL nor gives it up. The event is a
 * question until a thread that holds no such lock looks into the buffer.
 */
#include "native.h"

#include <pthread.h>
#include <stdlib.h>

PyTypeObject* ts_peers_type;
static Event done_event = {.holders = 1, .done = 1};
Event* const ts_event_done = &done_event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of who is a question of which buffer; held for a few lines */
static pthread_cond_t something_to_wait_for = PTHREAD_COND_INITIALIZER;
static Asked *first, *last; /* what a thread of the pool takes next */
static long pending;        /* what the pool was asked to wait for, and has not told */
static long busy;           /* threads of the pool that do */
static long threads = 1;    /* of the pool, as far as its threads know */

Event* ts_event_make(PyObject* waitables) {
  Event* self = calloc(1, sizeof(Event));
  if (!self) return NULL;
  Py_XINCREF(waitables);
  self->holders = 1;
  self->waitables = waitables;
  return self;
}
Event* ts_event_ask(Buffer* buffer, int here) {
  Event* self = calloc(1, sizeof(Event));
  if (!self) return NULL;
  self->holders = 1;
  self->here = here;
  self->buffer = buffer;
  pthread_mutex_lock(&lock);
  self->next = buffer->questions;
  buffer->questions = self;
  pthread_mutex_unlock(&lock);
  return self;
}
static int is_question(const Event* self) { return __atomic_load_n(&self->buffer, __ATOMIC_ACQUIRE) != NULL; }
/* With the lock. The buffer, borrowed; NULL if it is no question any more. */
static Buffer* answer(Event* self) {
  Buffer* buffer = self->buffer;
  if (!buffer) return NULL;
  Event** place = &buffer->questions;
  while (*place != self) place = &(*place)->next;
  *place = self->next;
  __atomic_store_n(&self->buffer, NULL, __ATOMIC_RELEASE);
  return buffer;
}
static void hold(Event* self) { __atomic_add_fetch(&self->holders, 1, __ATOMIC_RELAXED); }
static void let_go(Event* self) {
  if (self == ts_event_done) return;
  pthread_mutex_lock(&lock);
  int held = __atomic_sub_fetch(&self->holders, 1, __ATOMIC_ACQ_REL);
  if (!held) answer(self);
  pthread_mutex_unlock(&lock);
  if (held) return;
  if (self->waitables || self->peers) {
    if (!ts_may_enter()) return;
    TS_ENTER;
    Py_XDECREF(self->waitables), Py_XDECREF((PyObject*)self->peers);
    TS_LEAVE;
  }
  ts_error_free(self->error);
  free(self);
}
static void set_done(Event* self) { __atomic_store_n(&self->done, 1, __ATOMIC_RELEASE); }
static int is_done(Event* self) { return __atomic_load_n(&self->done, __ATOMIC_ACQUIRE); }

static void fail(Event* self, void* error) {
  ts_error_free(self->error);
  self->error = error;
}
static void* error_of(Event* self) {
  const char* message;
  size_t size;
  if (!self->error) return NULL;
  ts_error_read(self->error, &message, &size);
  return ts_error(ts_error_code(self->error), message, size);
}

/* Looks into the buffer that a question is about. Needs the GIL. */
static void settle(Event* self) {
  pthread_mutex_lock(&lock);
  Buffer* buffer = answer(self);
  pthread_mutex_unlock(&lock);
  if (!buffer) return;
  Py_INCREF((PyObject*)buffer); /* with the GIL held it was there: who lets go of it settles first */
  int gone = ts_buffer_is_deleted(buffer);
  PyObject* waitables = gone ? NULL : PyTuple_Pack(1, buffer->array ? buffer->array : buffer->whole);
  if (waitables) {
    Py_XINCREF((PyObject*)buffer->peers);
    self->peers = buffer->peers;
    self->waitables = waitables;
  } else {
    if (gone <= 0) fail(self, ts_error_from_python());
    set_done(self);
  }
  Py_DECREF((PyObject*)buffer);
}
void ts_note_question(Event* self) {
  if (self->buffer) ts_note_wait(self->buffer); /* as above */
}
void ts_settle_questions(Buffer* buffer) {
  for (;;) {
    pthread_mutex_lock(&lock);
    Event* question = buffer->questions;
    if (question) hold(question);
    pthread_mutex_unlock(&lock);
    if (!question) return;
    settle(question);
    let_go(question);
  }
}

/* Whether waiting would return at once. Needs the GIL. */
int ts_is_ready(PyObject* array) {
  PyObject* ready = ts_ask_whether_ready(array);
  if (!ready) { /* deleted or failed: waiting returns at once */
    int cannot_say = PyErr_ExceptionMatches(PyExc_AttributeError);
    ts_forget_error();
    return !cannot_say;
  }
  int yes = PyObject_IsTrue(ready);
  Py_DECREF(ready);
  return yes;
}
static int poll(Event* self) {
  if (is_done(self)) return 1;
  if (!self->waitables) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->waitables); i++)
    if (!ts_is_ready(PyTuple_GetItem(self->waitables, i))) return 0;
  return 1;
}

/* Waits. Needs the GIL, which the waiting itself gives up. -1 and an exception: interrupted, and as before. */
static int wait_for(Event* self) {
  settle(self);
  if (is_done(self) || !self->waitables) return 0;
  PyObject* waitables = self->waitables;
  Py_INCREF(waitables);
  for (Py_ssize_t i = 0; i < PyTuple_Size(waitables); i++) {
    PyObject* item = PyTuple_GetItem(waitables, i);
    PyObject* result = ts_wait_for(item);
    if (result) {
      Py_DECREF(result);
      continue;
    }
    if (ts_interrupted()) {
      Py_DECREF(waitables);
      return -1;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* deleted = PyObject_CallMethod(item, "is_deleted", NULL);
    if (!deleted) ts_forget_error();
    int gone = deleted && PyObject_IsTrue(deleted);
    Py_XDECREF(deleted);
    PyErr_Restore(type, value, trace);
    if (gone || self->error) { /* donated on: whoever took it reports its failure */
      PyErr_Clear();
      self->gone = 1;
    } else fail(self, ts_error_from_python());
  }
  Py_DECREF(waitables);
  Py_CLEAR(self->waitables);
  set_done(self);
  return 0;
}
static void wait_to_the_end(Event* self) {
  PyObject* interrupt = NULL;
  while (wait_for(self) < 0 && ts_put_off(&interrupt)) continue; /* Ctrl-C comes behind it */
  ts_interrupt_later(interrupt);
}

/* The callbacks may take locks that a thread waiting for the GIL holds: they run without. The first to ask is told last, as who asks for
 * several waits for it first, and would wake up only to wait for the next. */
static void tell(Asked* asked) {
  for (Asked* each = asked; each; each = each->next) each->error = error_of(each->event);
  Py_BEGIN_ALLOW_THREADS;
  for (Asked* each = asked; each; each = each->next) each->callback(each->error, each->user);
  Py_END_ALLOW_THREADS;
  while (asked) {
    Asked* next = asked->next;
    let_go(asked->event);
    free(asked);
    asked = next;
  }
}
static void tell_peers(Peers* peers, int all_done) {
  Asked* asked = peers->asked;
  peers->asked = NULL;
  for (Asked* each = asked; each; each = each->next) {
    if (!all_done) wait_to_the_end(each->event);
    set_done(each->event);
  }
  tell(asked);
}

int ts_finish(Asked* asked, int to_the_end) {
  Event* event = asked->event;
  settle(event);
  Peers* peers = event->peers;
  Py_XINCREF((PyObject*)peers);
  if (peers) peers->waiting = asked->leads = 1;
  if (to_the_end) wait_to_the_end(event);
  else if (wait_for(event) < 0) {
    Py_XDECREF((PyObject*)peers);
    return -1;
  }
  int all_done = !event->gone && !event->error; /* all results of a run are there when one is */
  if (peers) {
    if (all_done) peers->ready = 1;
    tell_peers(peers, all_done);
  }
  asked->next = NULL;
  tell(asked);
  while (peers && peers->asked) tell_peers(peers, all_done);
  if (peers) peers->waiting = 0;
  Py_XDECREF((PyObject*)peers);
  return 0;
}
/* Whether another thread waits for one of its peers, and will tell. */
static int join_peers(Asked* asked) {
  Peers* peers = asked->event->peers;
  if (!peers || !peers->waiting) return 0;
  asked->next = peers->asked;
  peers->asked = asked;
  return 1;
}
int ts_finish_at_once(Asked* asked) {
  settle(asked->event);
  if (join_peers(asked)) return 0;
  if (!poll(asked->event)) {
    if (asked->event->peers) asked->event->peers->waiting = asked->leads = 1;
    return -1;
  }
  ts_finish(asked, 1);
  return 1;
}
void ts_finish_later(Asked* asked) {
  asked->next = NULL;
  pthread_mutex_lock(&lock);
  if (first) last->next = asked;
  else first = asked;
  last = asked;
  pending++;
  pthread_cond_signal(&something_to_wait_for);
  pthread_mutex_unlock(&lock);
}

static Asked* take_pending(int* all_busy) {
  Asked* taken;
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&lock);
  while (!first) pthread_cond_wait(&something_to_wait_for, &lock);
  taken = first;
  first = taken->next;
  *all_busy = ++busy >= threads;
  pthread_mutex_unlock(&lock);
  Py_END_ALLOW_THREADS;
  return taken;
}
static void grow_pool(PyObject* grow) {
  PyObject* number = PyObject_CallFunctionObjArgs(grow, NULL);
  long now = number ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(grow);
  pthread_mutex_lock(&lock);
  if (now > threads) threads = now;
  pthread_mutex_unlock(&lock);
}
PyObject* ts_serve_waits(PyObject* module, PyObject* grow) {
  (void)module;
  for (;;) {
    int all_busy;
    Asked* asked = take_pending(&all_busy);
    if (all_busy) grow_pool(grow);
    settle(asked->event);
    if (asked->leads || !join_peers(asked)) ts_finish(asked, 1);
    pthread_mutex_lock(&lock);
    pending--;
    busy--;
    pthread_mutex_unlock(&lock);
  }
}
long ts_pending_waits(void) {
  pthread_mutex_lock(&lock);
  long now = pending;
  pthread_mutex_unlock(&lock);
  return now;
}

static PyType_Slot peers_slots[] = {{Py_tp_dealloc, ts_plain_dealloc}, {0, NULL}}; /* who has asked holds an event, which holds it */
PyType_Spec ts_peers_spec = {"tilestep.pjrt._native.Peers", sizeof(Peers), 0, Py_TPFLAGS_DEFAULT, peers_slots};

static void* api_destroy(PJRT_Event_Destroy_Args* a) {
  let_go(a->event);
  return NULL;
}
static void* api_is_ready(PJRT_Event_IsReady_Args* a) {
  Event* event = a->event;
  a->is_ready = is_done(event);
  if (a->is_ready || is_question(event)) return NULL;
  a->is_ready = true;
  if (!ts_may_begin()) return NULL;
  TS_ENTER;
  a->is_ready = poll(event);
  TS_LEAVE;
  return NULL;
}
static void* await_event(Event* event) {
  if (!is_done(event)) {
    if (!ts_may_begin()) return NULL;
    TS_ENTER;
    wait_to_the_end(event);
    TS_LEAVE;
  }
  return error_of(event);
}
static void* api_await(PJRT_Event_Await_Args* a) { return await_event(a->event); }
static void* api_error(PJRT_Event_Error_Args* a) { return await_event(a->event); }

static void* api_on_ready(PJRT_Event_OnReady_Args* a) {
  Event* event = a->event;
  ReadyCallback callback = (ReadyCallback)a->callback;
  if (is_done(event) || !ts_may_enter()) { /* not to be held back: a run in flight needs who waits for it */
    callback(is_done(event) ? error_of(event) : NULL, a->user_arg);
    return NULL;
  }
  Asked* asked = calloc(1, sizeof(Asked));
  if (!asked) return ts_error_text(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory");
  hold(event);
  asked->event = event;
  asked->callback = callback;
  asked->user = a->user_arg;
  if (ts_stage < TS_CLOSING && is_question(event)) {
    if (!ts_ask(asked)) ts_finish_later(asked);
    return NULL;
  }
  TS_ENTER;
  if (ts_stage >= TS_CLOSING) ts_finish(asked, 1);
  else if (ts_finish_at_once(asked) < 0) ts_finish_later(asked);
  TS_LEAVE;
  return NULL;
}
static void* api_create(PJRT_Event_Create_Args* a) {
  a->event = ts_event_make(NULL);
  return a->event ? NULL : ts_error_text(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory");
}
static void* api_set(PJRT_Event_Set_Args* a) {
  Event* event = a->event;
  if (a->error_code) fail(event, ts_error(a->error_code, a->error_message, a->error_message_size));
  set_done(event);
  return NULL;
}
/* A fork has none of the pool's threads, and whoever held the lock is not there to let go of it. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void in_fork(void) {
  first = last = NULL;
  pending = busy = 0;
  pthread_mutex_unlock(&lock);
}
void ts_fill_event_entries(PJRT_Api* api) {
  pthread_atfork(before_fork, after_fork, in_fork);
  api->PJRT_Event_Destroy = api_destroy;
  api->PJRT_Event_IsReady = api_is_ready;
  api->PJRT_Event_Error = api_error;
  api->PJRT_Event_Await = api_await;
  api->PJRT_Event_OnReady = api_on_ready;
  api->PJRT_Event_Create = api_create;
  api->PJRT_Event_Set = api_set;
}
