/* Functions of JAX whose questions and waits are answered in the thread that called them.
 *
 * JAX asks to be told when an array is ready while it holds a lock (event.c). Then it sleeps until it is told, or looks whether it was told.
 * The request does not say which. If a thread of the pool waited, it would have to wake the caller: two wake-ups, the second on a processor
 * that computes. So a wrapped function that asks (a query) keeps the requests and answers them when it has returned. A wrapped function that
 * waits asks first, waits for the first array that is not ready, and then does its own work.
 */

#include "event.h"
#include "functions.h"
#include "query.h"
#include "wait_pool.h"

typedef struct {
  PyObject_HEAD
  PyObject* function;
  PyObject* self; /* the object that it is a method of, or NULL */
  int is_query;   /* whether it asks and does not wait */
} CallerWait;

static PyTypeObject* caller_wait_type;
static _Thread_local Request** keep_in; /* where the next query leaves the first request that is not ready */
static _Thread_local int is_waiting;    /* whether no bytecode runs until a wait of many arrays is noted: all are one line's */
static _Thread_local PyObject* line;    /* that line, once known */
static long waiting_threads;            /* changes under the GIL */

PyObject* ts_threads_waiting(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(waiting_threads);
}

PyObject* ts_line_of_wait(PyObject* look) {
  PyObject* found = line;
  if (found) Py_INCREF(found);
  else if ((found = PyObject_CallFunctionObjArgs(look, NULL)) && is_waiting) {
    Py_INCREF(found);
    line = found;
  }
  return found;
}

/* Notes that the host waits, and calls back for ready arrays in the order of the requests.
 *
 * keep: gets the first request whose array is not ready; NULL: the pool gets that too. Returns: whether an array was ready. */
static int answer(Request* requests, Request** keep) {
  int any_ready = 0;
  Request* in_order = NULL;
  while (requests) {
    Request* next = requests->next;
    requests->next = in_order;
    in_order = requests;
    requests = next;
  }
  while (in_order) {
    Request* request = in_order;
    in_order = request->next;
    ts_note_question(request->event);
    int done = ts_finish_at_once(request);
    if (done > 0) any_ready = 1;
    else if (done < 0 && keep && !*keep) *keep = request;
    else if (done < 0) ts_finish_later(request);
  }
  return any_ready;
}
static PyObject* query_and_answer(PyObject* function, PyObject* args, PyObject* kwargs) {
  PyObject *type, *value, *trace;
  Request** keep = keep_in;
  keep_in = NULL;
  if (!ts_may_begin()) return PyObject_Call(function, args, kwargs);
  Query query = {NULL, 0}, *before = ts_set_query(&query);
  PyObject* result = PyObject_Call(function, args, kwargs);
  (void)ts_set_query(before);
  PyErr_Fetch(&type, &value, &trace);
  int any_ready = answer(query.requests, keep);
  PyErr_Restore(type, value, trace);
  if (!result || !any_ready || keep) return result;
  Py_DECREF(result);
  return PyObject_Call(function, args, kwargs);
}

static void ask(PyObject* array, Request** unready) {
  Py_INCREF(array); /* its holder may let go of it meanwhile */
  keep_in = unready;
  PyObject* ready = PyObject_CallMethod(array, "is_ready", NULL);
  keep_in = NULL;
  if (!ready) ts_forget_error(); /* the wait says what is wrong */
  Py_XDECREF(ready), Py_DECREF(array);
}
/* Asks about all arrays, because emulated time waits for each. No bytecode runs, so no Ctrl-C comes in between. A Ctrl-C during the wait
 * ends it and leaves the request to the pool: -1 and the exception. */
static int wait_in_caller(PyObject* arrays) {
  Request* unready = NULL;
  int outer = is_waiting; /* a destructor that runs meanwhile may wait, too */
  PyObject* line_of_outer = line;
  line = NULL;
  is_waiting = 1;
  if (PyList_Check(arrays))
    for (Py_ssize_t i = 0; i < PyList_Size(arrays); i++) ask(PyList_GetItem(arrays, i), &unready);
  else ask(arrays, &unready);
  Py_CLEAR(line);
  is_waiting = outer;
  line = line_of_outer;
  if (!unready) return 0;
  waiting_threads++;
  int failed = ts_finish(unready, 0);
  if (failed) ts_finish_later(unready);
  waiting_threads--;
  return failed;
}

static PyObject* make(PyObject* function, PyObject* self, int is_query) {
  CallerWait* wait = (CallerWait*)PyType_GenericAlloc(caller_wait_type, 0);
  if (!wait) return NULL;
  Py_INCREF(function), Py_XINCREF(self);
  wait->function = function;
  wait->self = self;
  wait->is_query = is_query;
  return (PyObject*)wait;
}
PyObject* ts_waits_in_its_thread(PyObject* module, PyObject* function) {
  (void)module;
  if (!PyCallable_Check(function)) return PyErr_Format(PyExc_TypeError, "waits_in_its_thread takes a function, not %R", function);
  return make(function, NULL, 0);
}
PyObject* ts_answers_in_its_thread(PyObject* module, PyObject* function) {
  (void)module;
  if (!PyCallable_Check(function)) return PyErr_Format(PyExc_TypeError, "answers_in_its_thread takes a function, not %R", function);
  return make(function, NULL, 1);
}
static void dealloc(PyObject* self) {
  Py_XDECREF(((CallerWait*)self)->function), Py_XDECREF(((CallerWait*)self)->self);
  ts_plain_dealloc(self);
}
/* The method of the object on which Python looks it up. */
static PyObject* bind(PyObject* self, PyObject* object, PyObject* type) {
  (void)type;
  if (object && object != Py_None) return make(((CallerWait*)self)->function, object, ((CallerWait*)self)->is_query);
  Py_INCREF(self);
  return self;
}
static PyObject* with_self(PyObject* self, PyObject* args) {
  Py_ssize_t n = PyTuple_Size(args);
  PyObject* all = PyTuple_New(n + 1);
  if (!all) return NULL;
  Py_INCREF(self);
  PyTuple_SetItem(all, 0, self);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* each = PyTuple_GetItem(args, i);
    Py_INCREF(each);
    PyTuple_SetItem(all, i + 1, each);
  }
  return all;
}
static PyObject* call(PyObject* object, PyObject* args, PyObject* kwargs) {
  CallerWait* self = (CallerWait*)object;
  PyObject* all = self->self ? with_self(self->self, args) : args;
  if (!all) return NULL;
  PyObject* result = NULL;
  if (!ts_in_host_call() && self->is_query) result = query_and_answer(self->function, all, kwargs);
  else {
    int interrupted = !ts_in_host_call() && PyTuple_Size(all) && wait_in_caller(PyTuple_GetItem(all, 0));
    result = interrupted ? NULL : PyObject_Call(self->function, all, kwargs);
  }
  if (all != args) Py_DECREF(all);
  return result;
}

static PyObject* get_doc(PyObject* self, void* unused) {
  (void)unused;
  return PyObject_GetAttrString(((CallerWait*)self)->function, "__doc__");
}
static PyObject* get_name(PyObject* self, void* unused) {
  (void)unused;
  return PyObject_GetAttrString(((CallerWait*)self)->function, "__name__");
}
static PyMemberDef members[] = {{"__wrapped__", T_OBJECT, offsetof(CallerWait, function), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};
static PyGetSetDef getset[] = {{"__doc__", get_doc, NULL, NULL, NULL}, {"__name__", get_name, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, dealloc}, {Py_tp_call, call}, {Py_tp_descr_get, bind}, {Py_tp_members, members},
                              {Py_tp_getset, getset},   {0, NULL}};
static PyType_Spec spec = {"tilestep.pjrt._native.CallerWait", sizeof(CallerWait), 0, Py_TPFLAGS_DEFAULT, slots};

int ts_add_caller_wait_type(void) {
  caller_wait_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return caller_wait_type ? 0 : -1;
}
