/* Runs of a program: from handles to arrays, a call of Python, and from arrays to handles. */

#include "buffer.h"
#include "event.h"
#include "functions.h"

typedef struct {
  PyObject_HEAD
  int num_replicas;
  int num_partitions;
  int num_outputs;
  int deleted;
  unsigned direct_runs;
  PyObject* direct;    /* what run_direct calls; NULL: the program goes through Python */
  PyObject* in_flight; /* of a program over several devices: (function that makes room for it, function that notes it); else NULL or None */
  PyObject* devices;   /* tuple */
  PyObject* shapes;    /* tuple of Shape, one for each output */
  PyObject* memories;  /* tuple over devices of tuples of Memory, one for each output */
} Executable;

static void dealloc(PyObject* object) {
  Executable* self = (Executable*)object;
  Py_XDECREF(self->direct), Py_XDECREF(self->in_flight), Py_XDECREF(self->devices), Py_XDECREF(self->shapes), Py_XDECREF(self->memories);
  ts_plain_dealloc(object);
}
static PyMemberDef members[] = {{"num_replicas", T_INT, offsetof(Executable, num_replicas), 0, NULL},
                                {"num_partitions", T_INT, offsetof(Executable, num_partitions), 0, NULL},
                                {"num_outputs", T_INT, offsetof(Executable, num_outputs), 0, NULL},
                                {"deleted", T_INT, offsetof(Executable, deleted), 0, NULL},
                                {"direct", T_OBJECT, offsetof(Executable, direct), 0, NULL},
                                {"in_flight", T_OBJECT, offsetof(Executable, in_flight), 0, NULL},
                                {"devices", T_OBJECT, offsetof(Executable, devices), 0, NULL},
                                {"shapes", T_OBJECT, offsetof(Executable, shapes), 0, NULL},
                                {"memories", T_OBJECT, offsetof(Executable, memories), 0, NULL},
                                {NULL, 0, 0, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, PyType_GenericNew}, {Py_tp_dealloc, dealloc}, {Py_tp_members, members}, {0, NULL}};
PyType_Spec ts_executable_spec = {"tilestep.pjrt._native.ExecutableBase", sizeof(Executable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

static void* api_replicas(PJRT_Executable_NumReplicas_Args* a) {
  a->num_replicas = (size_t)((Executable*)a->executable)->num_replicas;
  return NULL;
}
static void* api_partitions(PJRT_Executable_NumPartitions_Args* a) {
  a->num_partitions = (size_t)((Executable*)a->executable)->num_partitions;
  return NULL;
}
static void* api_outputs(PJRT_Executable_NumOutputs_Args* a) {
  a->num_outputs = (size_t)((Executable*)a->executable)->num_outputs;
  return NULL;
}
static void* api_is_deleted(PJRT_LoadedExecutable_IsDeleted_Args* a) {
  a->is_deleted = ((Executable*)a->executable)->deleted != 0;
  return NULL;
}

/* The array over all devices whose parts are the buffers of an argument, device by device; NULL if there is none. Borrowed. */
static PyObject* whole_of(void*** rows, size_t argument, size_t num_devices) {
  PyObject* whole = ((Buffer*)rows[0][argument])->whole;
  for (size_t d = 0; whole && d < num_devices; d++) {
    Buffer* buffer = rows[d][argument];
    if (buffer->whole != whole || buffer->part != (int)d || buffer->parts != (int)num_devices) return NULL;
  }
  return whole;
}
static int raise_gone(size_t argument) {
  PyErr_Format(PyExc_RuntimeError, "INVALID_ARGUMENT: argument %zu was deleted or donated before", argument);
  return -1;
}

/* Fills in the arrays by argument and the values' numbers, for a program on one device. */
static int take_arguments(PJRT_LoadedExecutable_Execute_Args* a, PyObject* columns, PyObject* values) {
  void** row = ((void***)a->argument_lists)[0];
  for (size_t i = 0; i < a->num_args; i++) {
    Buffer* buffer = row[i];
    PyObject* array = ts_buffer_array(buffer);
    if (!array || array == Py_None) return array ? raise_gone(i) : -1;
    Py_INCREF(array), Py_INCREF(buffer->value);
    PyList_SetItem(columns, (Py_ssize_t)i, array);
    PyTuple_SetItem(values, (Py_ssize_t)i, buffer->value);
  }
  return 0;
}

/* One array over all devices for each argument, or a list if there is none; the values' numbers, device by device.
 * split: takes every array over several devices apart. Returns: how many arguments are lists, or -1. */
static int take_arguments_of_several(PJRT_LoadedExecutable_Execute_Args* a, int split, PyObject* columns, PyObject* values) {
  void*** rows = a->argument_lists;
  int lists = 0;
  for (size_t i = 0; i < a->num_args; i++) {
    PyObject* whole = split ? NULL : whole_of(rows, i, a->num_devices);
    PyObject* column = whole;
    if (whole) Py_INCREF(whole);
    else if (!(column = PyList_New((Py_ssize_t)a->num_devices))) return -1;
    else lists++;
    PyList_SetItem(columns, (Py_ssize_t)i, column);
    for (size_t d = 0; d < a->num_devices; d++) {
      Buffer* buffer = rows[d][i];
      int gone = whole && d ? 0 : ts_buffer_is_deleted(buffer); /* XLA itself refuses it on one device, and crashes on several */
      if (gone) return gone < 0 ? -1 : raise_gone(i);
      Py_INCREF(buffer->value);
      PyTuple_SetItem(values, (Py_ssize_t)(d * a->num_args + i), buffer->value);
      if (whole) continue;
      PyObject* array = ts_buffer_array(buffer);
      if (!array) return -1;
      Py_INCREF(array);
      PyList_SetItem(column, (Py_ssize_t)d, array);
    }
  }
  return lists;
}

/* Arguments that the run has joined stay joined, because the next run may have the same ones. */
static void remember_wholes(PJRT_LoadedExecutable_Execute_Args* a, PyObject* columns) {
  void*** rows = a->argument_lists;
  for (size_t i = 0; i < a->num_args; i++) {
    PyObject* whole = PyList_GetItem(columns, (Py_ssize_t)i);
    for (size_t d = 0; !PyList_Check(whole) && d < a->num_devices; d++) {
      Buffer* buffer = rows[d][i];
      if (buffer->whole || !buffer->array || buffer->array == Py_None) continue;
      Py_INCREF(whole);
      buffer->whole = whole;
      buffer->part = (int)d;
      buffer->parts = (int)a->num_devices;
    }
  }
}

static PyObject* undonated_indices(PJRT_LoadedExecutable_Execute_Args* a) {
  PJRT_ExecuteOptions* options = a->options;
  size_t n = options ? options->num_non_donatable_input_indices : 0;
  if (!n) Py_RETURN_NONE;
  PyObject* undonated = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; undonated && i < n; i++)
    PyTuple_SetItem(undonated, (Py_ssize_t)i, PyLong_FromLongLong(((int64_t*)options->non_donatable_input_indices)[i]));
  return undonated;
}

/* A device's buffer of a result: an array, a list of one for each device, or an array over all devices. */
static Buffer* result_on(PyObject* result, size_t d, size_t num_devices, PyObject* device, Memory* memory, Shape* shape, PyObject* value) {
  if (result && PyList_Check(result)) result = PyList_GetItem(result, (Py_ssize_t)d);
  else if (result && num_devices > 1) return ts_buffer_part(result, (int)d, (int)num_devices, device, memory, shape, value);
  return result ? ts_buffer_make(result, device, memory, shape, value) : NULL;
}

/* Makes the results' buffers. The caller owns the references. */
static int give_results(PJRT_LoadedExecutable_Execute_Args* a, Executable* self, PyObject* arrays, uint64_t first) {
  for (size_t d = 0; d < a->num_devices; d++) {
    void** out = ((void***)a->output_lists)[d];
    PyObject* device = PyTuple_GetItem(self->devices, (Py_ssize_t)d);
    PyObject* memories = PyTuple_GetItem(self->memories, (Py_ssize_t)d);
    if (!device || !memories) return -1;
    Peers* peers = self->num_outputs > 1 ? (Peers*)PyType_GenericAlloc(ts_peers_type, 0) : NULL;
    if (self->num_outputs > 1 && !peers) return -1;
    for (int k = 0; k < self->num_outputs; k++) {
      PyObject* array = PyList_GetItem(arrays, k);
      PyObject* memory = PyTuple_GetItem(memories, k);
      PyObject* shape = PyTuple_GetItem(self->shapes, k);
      PyObject* value = PyLong_FromUnsignedLongLong(first + d * (uint64_t)self->num_outputs + (uint64_t)k);
      Buffer* buffer = array && memory && shape && value ? result_on(array, d, a->num_devices, device, (Memory*)memory, (Shape*)shape, value) : NULL;
      Py_XDECREF(value);
      if (!buffer) {
        Py_XDECREF((PyObject*)peers);
        return -1;
      }
      Py_XINCREF((PyObject*)peers);
      buffer->peers = peers;
      out[k] = buffer;
    }
    Py_XDECREF((PyObject*)peers);
  }
  return 0;
}

/* The end of a run is an event only if JAX has nothing else to wait for: a token. JAX waits for results one by one. A thread that woke up
 * after each run would take several percent of a short training step. */
static int give_events(PJRT_LoadedExecutable_Execute_Args* a, PyObject* token) {
  void** events = a->device_complete_events;
  for (size_t d = 0; d < a->num_devices; d++) {
    events[d] = ts_event_done;
    if (token == Py_None) continue;
    PyObject* waitables = PyTuple_Pack(1, token);
    events[d] = waitables ? ts_event_make(waitables) : NULL;
    Py_XDECREF(waitables);
    if (!waitables) return -1;
    if (!events[d]) return PyErr_NoMemory(), -1;
  }
  return 0;
}

/* once(done, key, function, *arguments) calls the function if `done` has no result of it yet. No bytecode runs between the call and the note
 * of its result, so no interrupt comes in between. The function should run none either. */
PyObject* ts_once(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *done = PyTuple_GetItem(args, 0), *key = PyTuple_GetItem(args, 1), *function = PyTuple_GetItem(args, 2);
  if (!done || !key || !function) return NULL;
  PyObject* result = PyDict_GetItemWithError(done, key);
  if (result || PyErr_Occurred()) {
    Py_XINCREF(result);
    return result;
  }
  PyObject* arguments = PyTuple_GetSlice(args, 3, PyTuple_Size(args));
  result = arguments ? PyObject_Call(function, arguments, NULL) : NULL;
  if (result && PyDict_SetItem(done, key, result) < 0) Py_CLEAR(result);
  Py_XDECREF(arguments);
  return result;
}

/* LoadedExecutable.run(columns, argument values, first result value, indices not to donate, done) -> (arrays, token or None) */
static PyObject* run_once(Executable* self, PyObject* columns, PyObject* values, PyObject* first, PyObject* undonated, PyObject* done) {
  static PyObject* name;
  if (!name && !(name = PyUnicode_InternFromString("run"))) return NULL;
  return PyObject_CallMethodObjArgs((PyObject*)self, name, columns, values, first, undonated, done, NULL);
}
/* A Ctrl-C in the middle of a dispatch must lose neither its results nor itself. So the run is called again, skips its finished parts, and
 * the interrupt is raised afterwards. A second Ctrl-C is treated the same way. */
static PyObject* run_through(Executable* self, PyObject* columns, PyObject* values, PyObject* first, PyObject* undonated) {
  PyObject *done = PyDict_New(), *pair = NULL, *interrupt = NULL;
  while (done && !(pair = run_once(self, columns, values, first, undonated, done)) && ts_put_off(&interrupt)) continue;
  Py_XDECREF(done);
  ts_interrupt_later(interrupt);
  return pair;
}

static int is_in_flight(Executable* self) { return self->in_flight && self->in_flight != Py_None; }

/* Called before the run takes or does anything. A Ctrl-C meanwhile is raised after the run. */
static int make_room(Executable* self) {
  PyObject *make = PyTuple_GetItem(self->in_flight, 0), *none = NULL, *interrupt = NULL;
  while (make && !(none = PyObject_CallFunctionObjArgs(make, NULL)) && ts_put_off(&interrupt)) continue;
  ts_interrupt_later(interrupt);
  Py_XDECREF(none);
  return none ? 0 : -1;
}
static int note_in_flight(Executable* self, PyObject* results) {
  static PyObject* name;
  if (!name && !(name = PyUnicode_InternFromString("consume_token"))) return -1;
  PyObject *note = PyTuple_GetItem(self->in_flight, 1), *token = NULL, *noted = NULL;
  if (note && (token = PyObject_CallMethodObjArgs(results, name, NULL))) noted = PyObject_CallFunctionObjArgs(note, token, NULL);
  Py_XDECREF(token), Py_XDECREF(noted);
  return noted ? 0 : -1;
}

/* The short way, without bytecode: the work of LoadedExecutable.run for a program that neither counts nor calls back.
 * direct: (execute, handlers, the journal's append, type of entry, the planned run, current_group, current_task) */
static PyObject* run_direct(Executable* self, PyObject* columns, PyObject* values, PyObject* first) {
  static PyObject *name, *none;
  if (!name && (!(name = PyUnicode_InternFromString("consume_with_handlers")) || !(none = PyTuple_New(0)))) return NULL;
  PyObject* parts[7];
  for (int i = 0; i < 7; i++)
    if (!(parts[i] = PyTuple_GetItem(self->direct, i))) return NULL;
  PyObject *arrays = NULL, *entry = NULL, *group = NULL, *task = NULL, *noted = NULL, *pair = NULL;
  PyObject* results = PyObject_CallFunctionObjArgs(parts[0], columns, NULL);
  if (results && is_in_flight(self) && note_in_flight(self, results) < 0) Py_CLEAR(results);
  if (results && (arrays = PyObject_CallMethodObjArgs(results, name, parts[1], NULL)) && (group = PyObject_CallFunctionObjArgs(parts[5], NULL)) &&
      (task = PyObject_CallFunctionObjArgs(parts[6], NULL)) && (entry = PyTuple_Pack(8, parts[3], parts[4], values, first, none, none, group, task)) &&
      (noted = PyObject_CallFunctionObjArgs(parts[2], entry, NULL)))
    pair = PyTuple_Pack(2, arrays, Py_None);
  Py_XDECREF(results), Py_XDECREF(arrays), Py_XDECREF(entry), Py_XDECREF(group), Py_XDECREF(task), Py_XDECREF(noted);
  return pair;
}
/* One run of 64 goes the long way, because Python replays the journal now and then. So does one after a change of a setting. */
static int goes_direct(Executable* self, PyObject* undonated, int lists) {
  return !lists && self->direct && self->direct != Py_None && undonated == Py_None && !ts_dry && !ts_watched && ts_same_settings() &&
         ++self->direct_runs % 64;
}

static void* api_execute(PJRT_LoadedExecutable_Execute_Args* a) {
  Executable* self = a->executable;
  if (!ts_may_begin()) return ts_error_text(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
  void* error = NULL;
  TS_ENTER;
  PyObject *columns = NULL, *values = NULL, *undonated = NULL, *first_value = NULL, *pair = NULL;
  int lists = 0;
  uint64_t first = ts_take_values((uint64_t)self->num_outputs * a->num_devices);
  if (a->execute_device && a->num_devices == 1 && a->execute_device != (void*)PyTuple_GetItem(self->devices, 0))
    error = ts_error_text(PJRT_Error_Code_UNIMPLEMENTED, "a program runs on the IPU that it was compiled for");
  else if ((is_in_flight(self) && make_room(self) < 0) || !(undonated = undonated_indices(a)) || !(columns = PyList_New((Py_ssize_t)a->num_args)) ||
           !(values = PyTuple_New((Py_ssize_t)(a->num_args * a->num_devices))) ||
           (lists = a->num_devices == 1 ? take_arguments(a, columns, values)
                                        : take_arguments_of_several(a, undonated != Py_None, columns, values)) < 0 ||
           !(first_value = PyLong_FromUnsignedLongLong(first)) ||
           !(pair = goes_direct(self, undonated, lists) ? run_direct(self, columns, values, first_value)
                                            : run_through(self, columns, values, first_value, undonated)) ||
           give_results(a, self, PyTuple_GetItem(pair, 0), first) < 0 ||
           (a->device_complete_events && give_events(a, PyTuple_GetItem(pair, 1)) < 0))
    error = ts_error_from_python();
  else if (lists && undonated == Py_None) remember_wholes(a, columns);
  Py_XDECREF(columns), Py_XDECREF(values), Py_XDECREF(undonated), Py_XDECREF(first_value), Py_XDECREF(pair);
  TS_LEAVE;
  return error;
}

void ts_fill_executable_entries(PJRT_Api* api) {
  api->PJRT_Executable_NumReplicas = api_replicas;
  api->PJRT_Executable_NumPartitions = api_partitions;
  api->PJRT_Executable_NumOutputs = api_outputs;
  api->PJRT_LoadedExecutable_IsDeleted = api_is_deleted;
  api->PJRT_LoadedExecutable_Execute = api_execute;
}
