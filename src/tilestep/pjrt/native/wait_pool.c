/* The pool of threads that wait for events. */
#include "wait_pool.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows; held for a few lines */
static pthread_cond_t request_came = PTHREAD_COND_INITIALIZER;
static Request *first, *last; /* the requests that no thread has taken */
static long pending;          /* requests that the pool has not answered */
static long busy;             /* threads that wait for one */
static long threads = 1;      /* of the pool, as far as its threads know */

void ts_finish_later(Request* request) {
  request->next = NULL;
  pthread_mutex_lock(&lock);
  if (first) last->next = request;
  else first = request;
  last = request;
  pending++;
  pthread_cond_signal(&request_came);
  pthread_mutex_unlock(&lock);
}

static Request* take_request(int* all_busy) {
  Request* request;
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&lock);
  while (!first) pthread_cond_wait(&request_came, &lock);
  request = first;
  first = request->next;
  *all_busy = ++busy >= threads;
  pthread_mutex_unlock(&lock);
  Py_END_ALLOW_THREADS;
  return request;
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
    Request* request = take_request(&all_busy);
    if (all_busy) grow_pool(grow);
    ts_finish_or_join(request);
    pthread_mutex_lock(&lock);
    pending--;
    busy--;
    pthread_mutex_unlock(&lock);
  }
}
PyObject* ts_pending_waits(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  pthread_mutex_lock(&lock);
  long now = pending;
  pthread_mutex_unlock(&lock);
  return PyLong_FromLong(now);
}

/* The child of a fork has none of the pool's threads, and no thread there would unlock the lock. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void in_child(void) {
  first = last = NULL;
  pending = busy = 0;
  pthread_mutex_unlock(&lock);
}
void ts_prepare_pool_for_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }
