/* Functions of JAX that do nothing but wait: what they wait for is waited for in the thread that called them.
 *
 * JAX asks to be told when an array is ready, and then sleeps until it is. Whether it will sleep is not to be seen from the question, and
 * the question must not wait: JAX asks it with a lock. So another thread waits, and wakes the first one up: two wake-ups, the second on a
 * processor that computes. A function that is wrapped in here asks first, keeps the first question that nobody waits for yet from the
 * other threads (event.c), waits for it, and then does what it did.
 */
#include "native.h"

#include <time.h>

typedef struct {
  PyObject_HEAD
  PyObject* function;
  PyObject* self;    /* what it is a method of, or NULL */
  int is_a_question; /* whether it asks and does not wait */
} Waiting;

static PyTypeObject* waiting_type;
static _Thread_local int asks; /* whether this thread asks in order to wait */
static _Thread_local int waits; /* whether it waits for XLA:CPU's arrays, which nobody has to be asked for */
static _Thread_local PyObject* kept;
static long waiting_threads; /* changes under the GIL */

int ts_keep_wait(PyObject* wait) {
  if (!asks || kept) return 0;
  Py_INCREF(wait);
  kept = wait;
  return 1;
}
PyObject* ts_threads_waiting(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(waiting_threads);
}

/* A thread that asks holds the array's lock, and may be without the interpreter meanwhile. JAX's is_ready() takes that lock with the interpreter
 * held: then neither would go on. So is_ready() begins when nobody else asks. */
static int questions;
static _Thread_local int own_questions;
void ts_question(int more) {
  own_questions += more;
  __atomic_add_fetch(&questions, more, __ATOMIC_SEQ_CST);
}
int ts_question_of(Event* event) {
  int open = event->open;
  event->open = 0;
  return open;
}
static void let_questions_end(void) {
  const struct timespec moment = {0, 20000};
  while (!own_questions && __atomic_load_n(&questions, __ATOMIC_SEQ_CST)) {
    Py_BEGIN_ALLOW_THREADS;
    nanosleep(&moment, NULL);
    Py_END_ALLOW_THREADS;
  }
}

static void ask(PyObject* array) {
  Py_INCREF(array); /* whoever holds it may let go of it meanwhile */
  PyObject* ready = PyObject_CallMethod(array, "is_ready", NULL);
  if (!ready) PyErr_Clear(); /* who waits for it says what is wrong */
  Py_XDECREF(ready), Py_DECREF(array);
}
/* Until a question is kept. What comes behind it is most often of the same run, and needs no other. */
static void ask_in_turn(PyObject* arrays) {
  asks = 1;
  if (PyList_Check(arrays))
    for (Py_ssize_t i = 0; !kept && i < PyList_Size(arrays); i++) ask(PyList_GetItem(arrays, i));
  else ask(arrays);
  asks = 0;
}
/* What it has kept it waits for: others may have asked meanwhile. No bytecode runs, so that no Ctrl-C gets in between. */
static int wait_here(PyObject* arrays) {
  ask_in_turn(arrays);
  PyObject* wait = kept;
  kept = NULL;
  if (!wait) return 0;
  waiting_threads++;
  PyObject* done = ts_finish(NULL, wait);
  waiting_threads--;
  Py_DECREF(wait), Py_XDECREF(done);
  return done ? 0 : -1;
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
PyObject* ts_asks_in_turn(PyObject* module, PyObject* function) {
  (void)module;
  if (!PyCallable_Check(function)) return PyErr_Format(PyExc_TypeError, "asks_in_turn takes a function, not %R", function);
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
  if (self->is_a_question) {
    let_questions_end();
    result = PyObject_Call(self->function, all, kwargs);
  } else if (waits || !PyTuple_Size(all) || wait_here(PyTuple_GetItem(all, 0)) == 0) result = PyObject_Call(self->function, all, kwargs);
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
