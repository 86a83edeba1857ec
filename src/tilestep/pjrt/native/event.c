/* Events: arrays that somebody waits for.
 *
 * A run's results become ready together, so one thread waits and answers every question about that run. It is the thread that asked, if it
 * sleeps next anyway (wait_in_caller.c), else a thread of a pool (wait_pool.c).
 *
 * JAX asks about an array while it holds the array's lock. Other threads take this lock with the GIL held: np.asarray does. So an entry
 * point that JAX calls then (PJRT_Buffer_ReadyEvent; PJRT_Event_IsReady, Error and OnReady of its event) neither takes the GIL nor gives it
 * up. The event stays a question until a thread without such a lock looks into the buffer.
 */
#include "event.h"
#include "functions.h"

#include <pthread.h>
#include <stdlib.h>


static Event done_event = {.holders = 1, .done = 1};
Event* const ts_event_done = &done_event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of which event is a question about which buffer; held for a few lines */

Event* ts_event_make(PyObject* waitables) {
  Event* self = calloc(1, sizeof(Event));
  if (!self) return NULL;
  Py_XINCREF(waitables);
  self->holders = 1;
  self->waitables = waitables;
  return self;
}
Event* ts_event_question(Buffer* buffer, int in_caller) {
  Event* self = calloc(1, sizeof(Event));
  if (!self) return NULL;
  self->holders = 1;
  self->in_caller = in_caller;
  self->buffer = buffer;
  pthread_mutex_lock(&lock);
  self->next = buffer->questions;
  buffer->questions = self;
  pthread_mutex_unlock(&lock);
  return self;
}
int ts_event_is_question(const Event* self) { return __atomic_load_n(&self->buffer, __ATOMIC_ACQUIRE) != NULL; }
/* The event is no question any more. The caller holds the lock. Returns: the buffer, borrowed; NULL if it was none before. */
static Buffer* end_question(Event* self) {
  Buffer* buffer = self->buffer;
  if (!buffer) return NULL;
  Event** link = &buffer->questions;
  while (*link != self) link = &(*link)->next;
  *link = self->next;
  __atomic_store_n(&self->buffer, NULL, __ATOMIC_RELEASE);
  return buffer;
}
void ts_event_hold(Event* self) { __atomic_add_fetch(&self->holders, 1, __ATOMIC_RELAXED); }
void ts_event_let_go(Event* self) {
  if (self == ts_event_done) return;
  pthread_mutex_lock(&lock);
  int holders = __atomic_sub_fetch(&self->holders, 1, __ATOMIC_ACQ_REL);
  if (!holders) end_question(self);
  pthread_mutex_unlock(&lock);
  if (holders) return;
  if (self->waitables || self->peers) {
    if (!ts_may_enter()) return;
    TS_ENTER;
    Py_XDECREF(self->waitables), Py_XDECREF((PyObject*)self->peers);
    TS_LEAVE;
  }
  ts_error_free(self->error);
  free(self);
}
void ts_event_set_done(Event* self) { __atomic_store_n(&self->done, 1, __ATOMIC_RELEASE); }
int ts_event_is_done(Event* self) { return __atomic_load_n(&self->done, __ATOMIC_ACQUIRE); }

void ts_event_fail(Event* self, void* error) {
  ts_error_free(self->error);
  self->error = error;
}
void* ts_event_error(Event* self) {
  const char* message;
  size_t size;
  if (!self->error) return NULL;
  ts_error_read(self->error, &message, &size);
  return ts_error(ts_error_code(self->error), message, size);
}

/* Looks into the buffer that a question is about. Needs the GIL. */
static void resolve(Event* self) {
  pthread_mutex_lock(&lock);
  Buffer* buffer = end_question(self);
  pthread_mutex_unlock(&lock);
  if (!buffer) return;
  Py_INCREF((PyObject*)buffer); /* with the GIL held it exists, because its questions are resolved before it is let go of */
  int gone = ts_buffer_is_deleted(buffer);
  PyObject* waitables = gone ? NULL : PyTuple_Pack(1, buffer->array ? buffer->array : buffer->whole);
  if (waitables) {
    Py_XINCREF((PyObject*)buffer->peers);
    self->peers = buffer->peers;
    self->waitables = waitables;
  } else {
    if (gone <= 0) ts_event_fail(self, ts_error_from_python());
    ts_event_set_done(self);
  }
  Py_DECREF((PyObject*)buffer);
}
void ts_note_question(Event* self) {
  if (self->buffer) ts_note_wait(self->buffer); /* the buffer exists, as above */
}
void ts_resolve_questions(Buffer* buffer) {
  for (;;) {
    pthread_mutex_lock(&lock);
    Event* question = buffer->questions;
    if (question) ts_event_hold(question);
    pthread_mutex_unlock(&lock);
    if (!question) return;
    resolve(question);
    ts_event_let_go(question);
  }
}

int ts_event_poll(Event* self) {
  if (ts_event_is_done(self)) return 1;
  if (!self->waitables) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->waitables); i++)
    if (!ts_is_ready(PyTuple_GetItem(self->waitables, i))) return 0;
  return 1;
}

/* Waits. Needs the GIL, which the wait itself gives up. -1 and an exception: it was interrupted, and nothing has changed. */
static int wait_for(Event* self) {
  resolve(self);
  if (ts_event_is_done(self) || !self->waitables) return 0;
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
    if (gone || self->error) { /* donated: the run that took it reports its failure */
      PyErr_Clear();
      self->gone = 1;
    } else ts_event_fail(self, ts_error_from_python());
  }
  Py_DECREF(waitables);
  Py_CLEAR(self->waitables);
  ts_event_set_done(self);
  return 0;
}
void ts_event_wait(Event* self) {
  PyObject* interrupt = NULL;
  while (wait_for(self) < 0 && ts_put_off(&interrupt)) continue;
  ts_interrupt_later(interrupt);
}

/* Calls back. A callback may take a lock whose holder waits for the GIL, so the callbacks run without the GIL. The first request is called
 * back last, because JAX waits for the first of several arrays first and would wake up only to wait for the next. */
static void tell(Request* requests) {
  for (Request* request = requests; request; request = request->next) request->error = ts_event_error(request->event);
  Py_BEGIN_ALLOW_THREADS;
  for (Request* request = requests; request; request = request->next) request->callback(request->error, request->user);
  Py_END_ALLOW_THREADS;
  while (requests) {
    Request* next = requests->next;
    ts_event_let_go(requests->event);
    free(requests);
    requests = next;
  }
}
static void tell_peers(Peers* peers, int all_done) {
  Request* requests = peers->requests;
  peers->requests = NULL;
  for (Request* request = requests; request; request = request->next) {
    if (!all_done) ts_event_wait(request->event);
    ts_event_set_done(request->event);
  }
  tell(requests);
}

int ts_finish(Request* request, int to_the_end) {
  Event* event = request->event;
  resolve(event);
  Peers* peers = event->peers;
  Py_XINCREF((PyObject*)peers);
  if (peers) peers->waiting = request->leads = 1;
  if (to_the_end) ts_event_wait(event);
  else if (wait_for(event) < 0) {
    Py_XDECREF((PyObject*)peers);
    return -1;
  }
  int all_done = !event->gone && !event->error; /* all results of a run are ready when one is */
  if (peers) {
    if (all_done) peers->ready = 1;
    tell_peers(peers, all_done);
  }
  request->next = NULL;
  tell(request);
  while (peers && peers->requests) tell_peers(peers, all_done);
  if (peers) peers->waiting = 0;
  Py_XDECREF((PyObject*)peers);
  return 0;
}
/* Whether another thread waits for a peer; then that thread calls back. */
static int join_peers(Request* request) {
  Peers* peers = request->event->peers;
  if (!peers || !peers->waiting) return 0;
  request->next = peers->requests;
  peers->requests = request;
  return 1;
}
int ts_finish_at_once(Request* request) {
  resolve(request->event);
  if (join_peers(request)) return 0;
  if (!ts_event_poll(request->event)) {
    if (request->event->peers) request->event->peers->waiting = request->leads = 1;
    return -1;
  }
  ts_finish(request, 1);
  return 1;
}
void ts_finish_or_join(Request* request) {
  resolve(request->event);
  if (request->leads || !join_peers(request)) ts_finish(request, 1);
}

/* A thread that holds the lock does not exist in the child of a fork, so the fork waits for the lock. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
void ts_prepare_events_for_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }
