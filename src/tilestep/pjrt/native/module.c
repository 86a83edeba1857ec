/* The table of functions that JAX calls, and the module that Python sees.
 *
 * Every entry point begins as a trampoline: it takes the GIL, calls a Python function with the address of the arguments and turns an
 * exception into a PJRT_Error. Functions in the other files then replace those on the path of a dispatch. Most of them need neither Python
 * nor the GIL.
 */
#include "functions.h"

#include <string.h>

#include "buffer.h"
#include "event.h"
#include "memory.h"
#include "query.h"
#include "shape.h"
#include "wait_pool.h"

enum { TABLES = 2, ENTRIES = 160 };
static PyObject* handlers[TABLES][ENTRIES];
static PJRT_Api api;
static PJRT_Layouts_Extension layouts;

static void* dispatch(int table, int index, const char* name, void* args) {
  size_t length = strlen(name);
  int destroys = length > 8 && !strcmp(name + length - 8, "_Destroy");
  if (!(destroys ? ts_may_enter() : ts_may_begin())) {
    if (destroys) return NULL;
    return ts_error_text(PJRT_Error_Code_UNAVAILABLE, "the interpreter is shutting down");
  }
  void* error = NULL;
  Query* query = ts_set_query(NULL); /* a signal's handler may run within */
  TS_ENTER;
  PyObject* handler = handlers[table][index];
  if (!handler) {
    PyErr_Format(PyExc_NotImplementedError, "%s is not implemented by the ipu platform", name);
    error = ts_error_from_python();
  } else {
    PyObject* result = PyObject_CallFunction(handler, "N", PyLong_FromVoidPtr(args));
    /* JAX aborts if an entry point that cannot fail fails, so a Ctrl-C waits until it has answered. It does end a compilation. */
    if (!result && ts_interrupted() && !strstr(name, "Compile")) {
      PyObject* interrupt = ts_take_interrupt();
      result = PyObject_CallFunction(handler, "N", PyLong_FromVoidPtr(args));
      ts_interrupt_later(interrupt);
    }
    if (result) Py_DECREF(result);
    else error = ts_error_from_python();
  }
  TS_LEAVE;
  (void)ts_set_query(query);
  return error;
}

#define X(index, entry) \
  static void* call_##entry(void* args) { return dispatch(0, index, #entry, args); }
TILESTEP_PJRT_Api_ENTRIES(X)
#undef X
#define X(index, entry) \
  static void* call_##entry(void* args) { return dispatch(1, index, #entry, args); }
TILESTEP_PJRT_Layouts_Extension_ENTRIES(X)
#undef X

/* JAX gives a handle back. This may not fail, and it runs no bytecode that a Ctrl-C could interrupt. */
static void* let_go(PyObject* object) {
  if (!ts_may_enter()) return NULL;
  TS_ENTER;
  Py_DECREF(object);
  TS_LEAVE;
  return NULL;
}
static void* destroy_executable(PJRT_Executable_Destroy_Args* a) { return let_go(a->executable); }
static void* destroy_loaded_executable(PJRT_LoadedExecutable_Destroy_Args* a) { return let_go(a->executable); }
static void* destroy_context(PJRT_ExecuteContext_Destroy_Args* a) { return let_go(a->context); }
static void* destroy_nothing(void* a) { /* clients, their topologies and layouts are never freed, because values may outlive them */
  (void)a;
  return NULL;
}

/* JAX tells all platforms which processes of a distributed program live. A thread of its own does so until the process has ended, and ends the
   process if a platform fails: so no Python here. This platform ignores it, because each process emulates a machine of its own. */
static void* ignore_process_info(void* a) {
  (void)a;
  return NULL;
}

static void fill_tables(void) {
#define X(index, entry) api.entry = call_##entry;
  TILESTEP_PJRT_Api_ENTRIES(X)
#undef X
#define X(index, entry) layouts.entry = call_##entry;
  TILESTEP_PJRT_Layouts_Extension_ENTRIES(X)
#undef X
  api.struct_size = sizeof(api);
  api.pjrt_api_version.struct_size = sizeof(api.pjrt_api_version);
  api.pjrt_api_version.major_version = TILESTEP_PJRT_MAJOR;
  api.pjrt_api_version.minor_version = TILESTEP_PJRT_MINOR;
  layouts.base.struct_size = sizeof(layouts);
  layouts.base.type = PJRT_Extension_Type_Layouts;
  api.extension_start = &layouts;
  /* NULL tells JAX that these two do not exist. */
  api.PJRT_Executable_ParameterMemoryKinds = NULL;
  api.PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace = NULL;
  api.PJRT_Executable_Destroy = destroy_executable;
  api.PJRT_LoadedExecutable_Destroy = destroy_loaded_executable;
  api.PJRT_Client_UpdateGlobalProcessInfo = ignore_process_info;
  api.PJRT_ExecuteContext_Destroy = destroy_context;
  api.PJRT_Client_Destroy = destroy_nothing;
  api.PJRT_TopologyDescription_Destroy = destroy_nothing;
  layouts.PJRT_Layouts_MemoryLayout_Destroy = destroy_nothing;
  ts_fill_error_entries(&api);
  ts_fill_memory_entries(&api);
  ts_fill_event_entries(&api);
  ts_fill_buffer_entries(&api);
  ts_fill_executable_entries(&api);
  ts_fill_put_entries(&api);
  ts_fill_read_entries(&api, &layouts);
}

static PyObject* set_handler(PyObject* module, PyObject* args) {
  int table, index;
  PyObject* handler;
  (void)module;
  if (!PyArg_ParseTuple(args, "iiO", &table, &index, &handler)) return NULL;
  if (table < 0 || table >= TABLES || index < 0 || index >= ENTRIES)
    return PyErr_Format(PyExc_IndexError, "there is no entry %d in table %d", index, table);
  Py_INCREF(handler);
  Py_XDECREF(handlers[table][index]);
  handlers[table][index] = handler;
  Py_RETURN_NONE;
}
static PyObject* capsule(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyCapsule_New(&api, "pjrt_c_api", NULL);
}
static PyObject* releaser(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromVoidPtr((void*)let_go);
}
static PyObject* own(PyObject* module, PyObject* object) {
  (void)module;
  Py_INCREF(object);
  return PyLong_FromVoidPtr(object);
}
static PyObject* at(PyObject* address) {
  PyObject* object = PyLong_AsVoidPtr(address);
  if (!object && !PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "nothing is at address 0");
  return object;
}
static PyObject* object_at(PyObject* module, PyObject* address) {
  (void)module;
  PyObject* object = at(address);
  Py_XINCREF(object);
  return object;
}
static PyObject* memory_at(PyObject* module, PyObject* address) {
  (void)module;
  MemoryHandle* handle = (MemoryHandle*)at(address);
  if (!handle) return NULL;
  Py_INCREF(handle->object);
  return handle->object;
}
static PyObject* done_event(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromVoidPtr(ts_event_done);
}
static PyObject* layout_facts(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  PyObject* list = PyList_New(0);
  for (const tilestep_layout_fact* fact = tilestep_layout_facts; list && fact->name; fact++) {
    PyObject* item = Py_BuildValue("(ssn)", fact->name, fact->field, (Py_ssize_t)fact->value);
    if (!item || PyList_Append(list, item) < 0) {
      Py_XDECREF(item);
      Py_CLEAR(list);
      break;
    }
    Py_DECREF(item);
  }
  return list;
}
static PyObject* configure(PyObject* module, PyObject* args) {
  PyObject *describe, *list;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO!", &describe, &PyList_Type, &list)) return NULL;
  ts_describe_errors_with(describe);
  ts_list_forgotten_in(list);
  Py_RETURN_NONE;
}
static PyObject* serve_profiler(PyObject* module, PyObject* make_session) {
  (void)module;
  void* extension = ts_profiler_extension(make_session);
  if (!extension) return NULL;
  layouts.base.next = extension;
  Py_RETURN_NONE;
}
static void finalized(void) { ts_stage = TS_CLOSED; }

static PyMethodDef methods[] = {{"set_handler", set_handler, METH_VARARGS, "set_handler(table, index, function of the arguments' address)"},
                                {"count_dry", ts_count_dry, METH_O, "count_dry(change of the number of dry runs and their values): while there are any, Python looks at every value"},
                                {"set_watched", ts_set_watched, METH_O, "set_watched(whether a recording keeps the calls): then Python makes the entries of runs, puts and reads"},
                                {"note_settings", ts_note_settings, METH_O, "note_settings(whether Python has looked at the settings)"},
                                {"same_settings", ts_same_settings_for_python, METH_NOARGS, "whether the environment's settings are those of the last note_settings(True)"},
                                {"guard_reads", ts_guard_reads, METH_O, "guard_reads(whether JAX must see each read as a transfer)"},
                                {"configure", configure, METH_VARARGS, "configure(describe_error, forgotten)"},
                                {"configure_puts", ts_configure_puts, METH_VARARGS, "configure_puts(take_over, shape_of_code)"},
                                {"serve_waits", ts_serve_waits, METH_O, "serve_waits(grow): waits for events for ever; calls grow(), which gives the number of threads, when all of them wait"},
                                {"serve_profiler", serve_profiler, METH_O, "serve_profiler(make_session): from now on the table has the extension for profilers; native/profiler.h"},
                                {"capsule", capsule, METH_NOARGS, "the table as a capsule"},
                                {"own", own, METH_O, "address of an object, with a reference for its holder"},
                                {"releaser", releaser, METH_NOARGS, "address of a C function that drops the reference of own()"},
                                {"object_at", object_at, METH_O, "the object at an address"},
                                {"memory_at", memory_at, METH_O, "the Memory behind a PJRT_Memory*"},
                                {"done_event", done_event, METH_NOARGS, "address of the event that has happened"},
                                {"hold_back", ts_hold_back, METH_O, "hold_back(thread ident): stops the thread at its next entry; returns whether it has stopped"},
                                {"close", ts_close, METH_NOARGS, "from now on only this thread may call in"},
                                {"host_tensor", ts_host_tensor, METH_VARARGS, "host_tensor(type code, bits, dims, bytes) -> (capsule, address)"},
                                {"hlo_taker", ts_hlo_taker, METH_VARARGS, "hlo_taker(tag, modules): a function that keeps modules and ends their compilation"},
                                {"once", ts_once, METH_VARARGS, "once(done, key, function, *arguments): the function's result, of one call however often it is asked for"},
                                {"waits_in_its_thread", ts_waits_in_its_thread, METH_O, "a function that only waits, made to wait in the thread that calls it"},
                                {"answers_in_its_thread", ts_answers_in_its_thread, METH_O, "a function that asks whether an array is ready, made to answer in the thread that calls it"},
                                {"threads_waiting", ts_threads_waiting, METH_NOARGS, "how many threads wait in a function of waits_in_its_thread()"},
                                {"pending_waits", ts_pending_waits, METH_NOARGS, "requests that the pool has not answered"},
                                {"layout_facts", layout_facts, METH_NOARGS, "(struct, field, offset; '' = size) as the C compiler sees them"},
                                {NULL, NULL, 0, NULL}};

static PyTypeObject* add_type(PyObject* module, const char* name, PyType_Spec* spec) {
  PyObject* type = PyType_FromSpec(spec);
  if (!type || PyModule_AddObjectRef(module, name, type) < 0) return NULL;
  return (PyTypeObject*)type;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tilestep.pjrt._native", "The C side of the ipu platform.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) {
  PyObject* module = PyModule_Create(&definition);
  if (!module) return NULL;
  if (!(ts_layout_type = add_type(module, "Layout", &ts_layout_spec)) || !(ts_shape_type = add_type(module, "Shape", &ts_shape_spec)) ||
      !(ts_memory_type = add_type(module, "Memory", &ts_memory_spec)) ||
      !(ts_peers_type = add_type(module, "Peers", &ts_peers_spec)) || !(ts_buffer_type = add_type(module, "Buffer", &ts_buffer_spec)) ||
      !add_type(module, "ExecutableBase", &ts_executable_spec) || ts_add_caller_wait_type() < 0) {
    Py_DECREF(module);
    return NULL;
  }
  fill_tables();
  Py_AtExit(finalized);
  return module;
}
