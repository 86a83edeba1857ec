/* What the C files of the platform give each other beside the types of buffers, events, memories and shapes, file by file. */
#ifndef TILESTEP_FUNCTIONS_H
#define TILESTEP_FUNCTIONS_H
#include "native.h"

/* buffer_entries.c: Entry points about buffers. */
PyObject* ts_guard_reads(PyObject* module, PyObject* guarded);
void ts_fill_buffer_entries(PJRT_Api* api);

/* errors.c: PJRT_Error: status code and message. */
void ts_error_free(void* error);
void* ts_error(int code, const char* message, size_t size);
void* ts_error_text(int code, const char* text);
void* ts_error_from_python(void); /* from the pending exception, which it clears */
int ts_error_code(const void* error);
void ts_error_read(const void* error, const char** message, size_t* size);
void ts_describe_errors_with(PyObject* describe); /* function of an exception that gives (code, bytes) */
void ts_fill_error_entries(PJRT_Api* api);

/* event_entries.c: Entry points about events. */
void ts_fill_event_entries(PJRT_Api* api);

/* execute.c: Runs of a program. */
extern PyType_Spec ts_executable_spec;
PyObject* ts_once(PyObject* module, PyObject* args);
void ts_fill_executable_entries(PJRT_Api* api);

/* hlo.c: The HLO of a program that XLA compiles. */
PyObject* ts_hlo_taker(PyObject* module, PyObject* args);

/* host_array.c: Calls of XLA:CPU's arrays, which compute the values. */
PyObject* ts_wait_for(PyObject* array);          /* its block_until_ready() */
PyObject* ts_ask_whether_ready(PyObject* array); /* its is_ready() */
int ts_is_ready(PyObject* array);                /* whether a wait would return at once */
int ts_in_host_call(void); /* whether this thread is in one of these calls, which ask nothing of the platform */

/* interrupts.c: Interrupts: exceptions that a signal's handler raises in the midst of our work, Ctrl-C's among them. */
int ts_interrupted(void); /* whether the pending exception is an interrupt, so not the work's own */
PyObject* ts_take_interrupt(void); /* clears it */
int ts_put_off(PyObject** interrupt); /* takes a pending interrupt. Returns: whether there was one, so that the work must be done again */
void ts_forget_error(void); /* clears the pending exception; raises an interrupt later */
void ts_interrupt_later(PyObject* error); /* raises it, if any, when the main thread next runs Python; takes the reference */

/* profiler.c: jax.profiler: the table through which its sessions ask for the emulated timeline. */
/* The extension behind which JAX finds the table. make_session(bytes of the session's options) gives an object with begin(), end() and
   data(), which gives bytes. Each may be called again after an interrupt. Returns: NULL if Python's module sys has not what it needs. */
void* ts_profiler_extension(PyObject* make_session);

/* put.c: Values from the host. */
PyObject* ts_configure_puts(PyObject* module, PyObject* args);
void ts_fill_put_entries(PJRT_Api* api);

/* read.c: Entry points that JAX calls when the host looks at a value. */
void ts_fill_read_entries(PJRT_Api* api, PJRT_Layouts_Extension* layouts);

/* settings.c: Whether the settings are still those that Python has looked at. */
int ts_same_settings(void); /* with the GIL: Python's threads then leave the environment alone */
PyObject* ts_same_settings_for_python(PyObject* module, PyObject* unused);
PyObject* ts_note_settings(PyObject* module, PyObject* seen);

/* settings.c: Whether dry runs are under way. */
extern volatile long ts_dry; /* dry runs under way and their values: while there are any, Python looks at every value */
PyObject* ts_count_dry(PyObject* module, PyObject* change);

/* settings.c: Whether a recording keeps the calls of the host program. */
extern volatile int ts_watched; /* while it is set, Python makes the entries of runs, puts and reads, because they have a line each */
PyObject* ts_set_watched(PyObject* module, PyObject* watched);

/* shutdown.c: Shutdown: which threads may still enter Python. */
/* SHUTTING_DOWN: threads that are held back come no further. CLOSING: only the thread that closed may enter. CLOSED: no thread may. */
enum { TS_OPEN, TS_SHUTTING_DOWN, TS_CLOSING, TS_CLOSED };
extern volatile int ts_stage;

int ts_may_enter(void);
int ts_may_begin(void); /* the same for new work; does not return in a thread that is held back */
PyObject* ts_hold_back(PyObject* module, PyObject* thread);
PyObject* ts_close(PyObject* module, PyObject* unused);

/* tensor.c: Memory for values from the host, as DLPack tensors. */
/* data: gets the address of the values. NULL: there is no memory. */
void* ts_block_take(int code, int bits, const int64_t* dims, size_t rank, int64_t size_bytes, void** data);
PyObject* ts_block_capsule(void* block); /* owns the block from now on, also if it cannot be made */
PyObject* ts_host_tensor(PyObject* module, PyObject* args);

/* types.c: Helpers for the types that are made in C. */
void ts_plain_dealloc(PyObject* self);
int ts_no_keywords(PyObject* kwargs, const char* name); /* -1 and an exception if there are any */

/* wait_in_caller.c: Functions of JAX whose questions and waits are answered in the thread that called them. */
PyObject* ts_waits_in_its_thread(PyObject* module, PyObject* function);
PyObject* ts_answers_in_its_thread(PyObject* module, PyObject* function);
PyObject* ts_threads_waiting(PyObject* module, PyObject* unused);
PyObject* ts_line_of_wait(PyObject* look); /* the line that `look` gives; a wait of many arrays asks once */
int ts_add_caller_wait_type(void); /* -1 and an exception if it cannot be made */

#endif
