/* Functions of JAX that ask whether arrays are ready, or do nothing but wait for them: what they ask is answered, and waited for, in the
 * thread that called them.
 *
 * JAX asks to be told when an array is ready, with a lock (event.c), and then sleeps until it is, or looks whether it was told. Whether it
 * will sleep is not to be seen from the question. A thread of the pool that waits would have to wake the first one up: two wake-ups, the
 * second on a processor that computes. A function that is wrapped in here keeps the questions, and answers them when it has returned. One
 * that waits asks first, waits for the first question whose array is not ready, and then does what it did.
 */
#include "native.h"

typedef struct {
  PyObject_HEAD
  PyObject* function;
  PyObject* self;    /* what it is a method of, or NULL */
  int is_a_question; /* whether it asks and does not wait */
} Waiting;

static PyTypeObject* waiting_type;
static _Thread_local int asks;      /* whether this thread is in the midst of a question */
static _Thread_local int will_wait; /* whether it asks in order to wait */
static _Thread_local int waits;     /* whether it waits for XLA:CPU's arrays, which nobody has to be asked for */
static _Thread_local Asked *questions, *kept;
static long waiting_threads; /* changes under the GIL */

int ts_asks(void) { return asks; }
int ts_keep_question(Asked* asked) {
  if (!asks) return 0;
  asked->next = questions;
  questions = asked;
  return 1;
}
PyObject* ts_threads_waiting(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(waiting_threads);
}

/* Whether an array was ready. */
static int answer_questions(void) {
  int any_ready = 0;
  Asked* in_order = NULL;
  while (questions) {
    Asked* asked = questions;
    questions = asked->next;
    asked->next = in_order;
    in_order = asked;
  }
  while (in_order) {
    Asked* asked = in_order;
    in_order = asked->next;
    if (ts_is_question(asked->event)) ts_note_wait(asked->event->buffer);
    int done = ts_finish_at_once(asked);
    if (done > 0) any_ready = 1;
    else if (done < 0 && will_wait && !kept) kept = asked;
    else if (done < 0) ts_finish_later(asked);
  }
  return any_ready;
}
static PyObject* ask_and_answer(PyObject* function, PyObject* args, PyObject* kwargs) {
  PyObject *type, *value, *trace;
  if (asks || !ts_may_begin()) return PyObject_Call(function, args, kwargs);
  asks = 1;
  PyObject* result = PyObject_Call(function, args, kwargs);
  asks = 0;
  PyErr_Fetch(&type, &value, &trace);
  int any_ready = answer_questions();
  PyErr_Restore(type, value, trace);
  if (!result || !any_ready || will_wait) return result;
  Py_DECREF(result);
  return PyObject_Call(function, args, kwargs);
}

static void ask(PyObject* array) {
  Py_INCREF(array); /* whoever holds it may let go of it meanwhile */
  PyObject* ready = PyObject_CallMethod(array, "is_ready", NULL);
  if (!ready) PyErr_Clear(); /* who waits for it says what is wrong */
  Py_XDECREF(ready), Py_DECREF(array);
}
/* Until a question is kept. What comes behind it is most often of the same run, and needs no other. What it has kept it waits for. No
 * bytecode runs, so that no Ctrl-C gets in between. */
static void wait_here(PyObject* arrays) {
  will_wait = 1;
  if (PyList_Check(arrays))
    for (Py_ssize_t i = 0; !kept && i < PyList_Size(arrays); i++) ask(PyList_GetItem(arrays, i));
  else ask(arrays);
  will_wait = 0;
  Asked* asked = kept;
  kept = NULL;
  if (!asked) return;
  waiting_threads++;
  ts_finish(asked);
  waiting_threads--;
}

PyObject* ts_wait_for(PyObject* array) {
  int before = waits;
  waits = 1;
  PyObject* result = PyObject_CallMethod(array, "block_until_ready", NULL);
  waits = before;
  return result;
}

static PyObject* make(PyObject* function, PyObject* self, int is_a_question) {
  Waiting* made = (Waiting*)PyType_GenericAlloc(waiting_type, 0);
  if (!made) return NULL;
  Py_INCREF(function), Py_XINCREF(self);
  made->function = function;
  made->self = self;
  made->is_a_question = is_a_question;
  return (PyObject*)made;
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
  Py_XDECREF(((Waiting*)self)->function), Py_XDECREF(((Waiting*)self)->self);
  ts_plain_dealloc(self);
}
/* A method of the object that it is looked up on. */
static PyObject* bind(PyObject* self, PyObject* object, PyObject* type) {
  (void)type;
  if (object && object != Py_None) return make(((Waiting*)self)->function, object, ((Waiting*)self)->is_a_question);
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
  Waiting* self = (Waiting*)object;
  PyObject* all = self->self ? with_self(self->self, args) : args;
  if (!all) return NULL;
  PyObject* result = NULL;
  if (self->is_a_question) result = ask_and_answer(self->function, all, kwargs);
  else {
    if (!waits && PyTuple_Size(all)) wait_here(PyTuple_GetItem(all, 0));
    result = PyObject_Call(self->function, all, kwargs);
  }
  if (all != args) Py_DECREF(all);
  return result;
}

static PyObject* get_doc(PyObject* self, void* unused) {
  (void)unused;
  return PyObject_GetAttrString(((Waiting*)self)->function, "__doc__");
}
static PyObject* get_name(PyObject* self, void* unused) {
  (void)unused;
  return PyObject_GetAttrString(((Waiting*)self)->function, "__name__");
}
static PyMemberDef members[] = {{"__wrapped__", T_OBJECT, offsetof(Waiting, function), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};
static PyGetSetDef getset[] = {{"__doc__", get_doc, NULL, NULL, NULL}, {"__name__", get_name, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, dealloc}, {Py_tp_call, call}, {Py_tp_descr_get, bind}, {Py_tp_members, members},
                              {Py_tp_getset, getset},   {0, NULL}};
static PyType_Spec spec = {"tilestep.pjrt._native.Waiting", sizeof(Waiting), 0, Py_TPFLAGS_DEFAULT, slots};

int ts_add_waiting_type(void) {
  waiting_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return waiting_type ? 0 : -1;
}
