/* PJRT_Error: status code and message. */
#ifndef TILESTEP_ERRORS_H
#define TILESTEP_ERRORS_H
#include "native.h"

void ts_error_free(void* error);
void* ts_error(int code, const char* message, size_t size);
void* ts_error_text(int code, const char* text);
void* ts_error_from_python(void); /* from the pending exception, which it clears */
int ts_error_code(const void* error);
void ts_error_read(const void* error, const char** message, size_t* size);
void ts_describe_errors_with(PyObject* describe); /* function of an exception that gives (code, bytes) */
void ts_fill_error_entries(PJRT_Api* api);

#endif
