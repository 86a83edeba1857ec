/* Functions of JAX that ask whether arrays are ready, or do nothing but wait for them: what they ask is answered, and waited for, in the
 * thread that called them.
 *
 * JAX asks to be told when an array is ready, with a lock (event.c), and then sleeps until it is, or looks whether it was told. Whether it
 * will sleep is not to be seen from the question. A thread of the pool that waits would have to wake the first one up: two wake-ups, the
 * second on a processor that computes. A function that is wrapped in here keeps the questions, and answers them when it has returned. One
 * that waits asks first, waits for the first array that is not ready, and then does what it did.
 */
#include "native.h"

typedef struct {
  PyObject_HEAD
  PyObject* function;
  PyObject* self;    /* what it is a method of, or NULL */
  int is_a_question; /* whether it asks and does not wait */
} Waiting;

static PyTypeObject* waiting_type;
/* A question under way. Python may run in the midst of one, a finalizer or a signal's handler, and ask or look at an array itself: what it
 * asks through here is a question of its own, and what it looks at can be none, as it sleeps until that is there. */
typedef struct Question {
  Asked* asked; /* the last first */
  int looked;   /* whether it did: what is asked from then on is left to the pool, the question's own rest too */
} Question;
static _Thread_local Question* question;
static _Thread_local Asked** keep_at; /* where the next question leaves what is not ready */
static _Thread_local int plain;       /* whether this thread asks or waits for XLA:CPU's arrays, which are never questions */
static long waiting_threads;          /* changes under the GIL */

int ts_asks(void) { return question && !question->looked; }
void ts_look(void) {
  if (question) question->looked = 1;
}
Question* ts_set_question(Question* now) {
  Question* before = question;
  question = now;
  return before;
}
int ts_ask(Asked* asked) {
  if (!question || !asked->event->here) return 0;
  asked->next = question->asked;
  question->asked = asked;
  return 1;
}
PyObject* ts_threads_waiting(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(waiting_threads);
}

/* Notes that the host waits, and tells of what is ready, in the order of asking. keep: where to leave the first that is not; NULL: nowhere.
 * Whether an array was ready. */
static int answer(Asked* asked, Asked** keep) {
  int any_ready = 0;
  Asked* in_order = NULL;
  while (asked) {
    Asked* next = asked->next;
    asked->next = in_order;
    in_order = asked;
    asked = next;
  }
  while ((asked = in_order)) {
    in_order = asked->next;
    ts_note_question(asked->event);
    int done = ts_finish_at_once(asked);
    if (done > 0) any_ready = 1;
    else if (done < 0 && keep && !*keep) *keep = asked;
    else if (done < 0) ts_finish_later(asked);
  }
  return any_ready;
}
static PyObject* ask_and_answer(PyObject* function, PyObject* args, PyObject* kwargs) {
  PyObject *type, *value, *trace;
  Asked** keep = keep_at;
  keep_at = NULL;
  if (!ts_may_begin()) return PyObject_Call(function, args, kwargs);
  Question here = {NULL, 0}, *before = question;
  question = &here;
  PyObject* result = PyObject_Call(function, args, kwargs);
  question = before;
  PyErr_Fetch(&type, &value, &trace);
  int any_ready = answer(here.asked, keep);
  PyErr_Restore(type, value, trace);
  if (!result || !any_ready || keep) return result;
  Py_DECREF(result);
  return PyObject_Call(function, args, kwargs);
}

static void ask(PyObject* array, Asked** kept) {
  Py_INCREF(array); /* whoever holds it may let go of it meanwhile */
  keep_at = kept;
  PyObject* ready = PyObject_CallMethod(array, "is_ready", NULL);
  keep_at = NULL;
  if (!ready) ts_forget_error(); /* who waits for it says what is wrong */
  Py_XDECREF(ready), Py_DECREF(array);
}
/* Asks for all, as each is waited for in emulated time. No bytecode runs, so that no Ctrl-C gets in between; one that comes while it waits
 * ends the wait, which is left to the pool then: -1 and the exception. */
static int wait_here(PyObject* arrays) {
  Asked* kept = NULL;
  if (PyList_Check(arrays))
    for (Py_ssize_t i = 0; i < PyList_Size(arrays); i++) ask(PyList_GetItem(arrays, i), &kept);
  else ask(arrays, &kept);
  if (!kept) return 0;
  waiting_threads++;
  int failed = ts_finish(kept, 0);
  if (failed) ts_finish_later(kept);
  waiting_threads--;
  return failed;
}

static PyObject* call_plain(PyObject* array, const char* method) {
  int before = plain;
  plain = 1;
  PyObject* result = PyObject_CallMethod(array, method, NULL);
  plain = before;
  return result;
}
PyObject* ts_wait_for(PyObject* array) { return call_plain(array, "block_until_ready"); }
PyObject* ts_ask_whether_ready(PyObject* array) { return call_plain(array, "is_ready"); }

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
  if (!plain && self->is_a_question) result = ask_and_answer(self->function, all, kwargs);
  else {
    int interrupted = !plain && PyTuple_Size(all) && wait_here(PyTuple_GetItem(all, 0));
    result = interrupted ? NULL : PyObject_Call(self->function, all, kwargs);
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
