/* Infeed and outfeed inside of a program: the functions that XLA:CPU calls.
 *
 * They run on the thread that executes the program, which may be the very thread that dispatched it. So they never take Python's lock.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define _POSIX_C_SOURCE 200809L
#include <Python.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ffi.h"
#include "queue.h"

static void* refuse(const Frame* frame, int code, const char* form, ...) {
  char message[4096];
  va_list values;
  va_start(values, form);
  vsnprintf(message, sizeof(message), form, values);
  va_end(values);
  ErrorArgs args = {.struct_size = sizeof(args), .message = message, .code = code};
  return frame->api->error_create(&args);
}
static int answer_metadata(Frame* frame) {
  if (!frame->extensions || frame->extensions->type != EXTENSION_METADATA) return 0;
  Version* version = &((MetadataExtension*)frame->extensions)->metadata->version;
  version->major = API_MAJOR, version->minor = API_MINOR;
  return 1;
}
static int64_t attribute(const Frame* frame, const char* name) {
  for (int64_t i = 0; i < frame->attributes.size; i++)
    if (frame->attributes.types[i] == ATTRIBUTE_SCALAR && frame->attributes.names[i]->size == strlen(name) &&
        !memcmp(frame->attributes.names[i]->text, name, strlen(name)))
      return *(int64_t*)((Scalar*)frame->attributes.values[i])->value;
  return 0;
}
static int ordinal_of(const Frame* frame) {
  OrdinalArgs args = {.struct_size = sizeof(args), .context = frame->context};
  return frame->api->ordinal_get(&args) ? 0 : args.ordinal;
}
static size_t add_shape(char* text, size_t at, size_t room, int code, int64_t rank, const int64_t* dims) {
  const Dtype* dtype = dtype_of(code);
  if (at < room) at += (size_t)snprintf(text + at, room - at, "%s[", dtype ? dtype->name : "?");
  for (int64_t d = 0; d < rank && at < room; d++) at += (size_t)snprintf(text + at, room - at, d ? ",%lld" : "%lld", (long long)dims[d]);
  if (at < room) at += (size_t)snprintf(text + at, room - at, "]");
  return at;
}
enum { SHAPES = 1024 };
static const char* expected_shapes(const Arrays* arrays, char* text) {
  size_t at = 0;
  strcpy(text, "nothing");
  for (int64_t i = 0; i < arrays->size; i++) {
    Array* array = arrays->arrays[i];
    if (array->dtype == TOKEN) continue;
    if (at && at < SHAPES) at += (size_t)snprintf(text + at, SHAPES - at, ", ");
    at = add_shape(text, at, SHAPES, array->dtype, array->rank, array->dims);
  }
  return text;
}
static const char* shapes_of(const Element* element, char* text) {
  size_t at = 0;
  strcpy(text, "nothing");
  for (int i = 0; i < element->count; i++) {
    if (at && at < SHAPES) at += (size_t)snprintf(text + at, SHAPES - at, ", ");
    at = add_shape(text, at, SHAPES, element->leaves[i].code, element->leaves[i].rank, element->leaves[i].dims);
  }
  return text;
}
static int fits(const Leaf* leaf, const Array* array) {
  return leaf->code == array->dtype && leaf->rank == array->rank && !memcmp(leaf->dims, array->dims, (size_t)leaf->rank * sizeof(int64_t));
}

/* A daemon thread that runs the program itself must not go back to Python while Python ends. It stays here until the process has ended. */
static void stay_if_pythons_own(void) {
  if (!PyGILState_GetThisThreadState()) return;
  for (;;) pause();
}

void* infeed(Frame* frame) {
  if (answer_metadata(frame) || frame->stage != STAGE_EXECUTE) return NULL;
  char expected[SHAPES + 1], shapes[SHAPES + 1];
  int platform = (int)attribute(frame, "platform"), ordinal = ordinal_of(frame);
  const char* name = platforms[platform];
  Taken taken = infeed_take(platform, ordinal);
  Element* element = taken.element;
  if (!element && taken.closed) stay_if_pythons_own();
  if (taken.no_memory) return refuse(frame, RESOURCE_EXHAUSTED, "infeed of %s:%d: no memory for its queue", name, ordinal);
  expected_shapes(&frame->results, expected);
  if (!element && taken.stopped)
    return refuse(frame, CANCELLED, "infeed of %s:%d: interrupted while the program waited for element %llu (%s)", name, ordinal, taken.number,
                  expected);
  if (!element)
    return refuse(frame, DEADLINE_EXCEEDED,
                  "infeed of %s:%d: the program asked for element %llu (%s), got %llu, and waited %g s in vain; feed it before the program is "
                  "called or from another thread (transfer_to_infeed), or let it wait longer (set_feed_timeout)",
                  name, ordinal, taken.number, expected, taken.number, taken.patience_wall_s);
  int64_t leaf = 0;
  int good = 1;
  for (int64_t i = 0; i < frame->results.size; i++) {
    Array* array = frame->results.arrays[i];
    if (array->dtype == TOKEN) continue;
    good = good && leaf < element->count && fits(&element->leaves[leaf], array);
    leaf++;
  }
  if (!good || leaf != element->count) {
    void* error = refuse(frame, INVALID_ARGUMENT, "infeed of %s:%d: element %llu is (%s), but the program expects (%s)", name, ordinal, taken.number,
                         shapes_of(element, shapes), expected);
    element_free(element);
    return error;
  }
  leaf = 0;
  for (int64_t i = 0; i < frame->results.size; i++) {
    Array* array = frame->results.arrays[i];
    if (array->dtype == TOKEN) continue;
    Leaf* source = &element->leaves[leaf++];
    if (source->bytes) memcpy(array->data, element->data + source->offset, source->bytes);
  }
  element_free(element);
  return NULL;
}

void* outfeed(Frame* frame) {
  if (answer_metadata(frame) || frame->stage != STAGE_EXECUTE) return NULL;
  int platform = (int)attribute(frame, "platform"), ordinal = ordinal_of(frame), count = 0;
  Element* element = element_make((size_t)frame->arguments.size);
  for (int64_t i = 0; element && i < frame->arguments.size; i++) {
    Array* array = frame->arguments.arrays[i];
    if (array->dtype == TOKEN) continue;
    Leaf* leaf = &element->leaves[count++];
    leaf->code = array->dtype, leaf->rank = (int)array->rank;
    memcpy(leaf->dims, array->dims, (size_t)array->rank * sizeof(int64_t));
  }
  if (element) element->count = count;
  if (!element || !element_take_memory(element)) {
    element_free(element);
    return refuse(frame, RESOURCE_EXHAUSTED, "outfeed of %s:%d: no memory for an element; drain it (transfer_from_outfeed)", platforms[platform],
                  ordinal);
  }
  count = 0;
  for (int64_t i = 0; i < frame->arguments.size; i++) {
    Array* array = frame->arguments.arrays[i];
    if (array->dtype == TOKEN) continue;
    Leaf* leaf = &element->leaves[count++];
    if (leaf->bytes) memcpy(element->data + leaf->offset, array->data, leaf->bytes);
  }
  if (outfeed_add(platform, ordinal, element) == ADDED) return NULL;
  element_free(element);
  return refuse(frame, RESOURCE_EXHAUSTED, "outfeed of %s:%d: no memory for its queue", platforms[platform], ordinal);
}

/* Zeros that no compiler can fold. */
void* unknown_zero(Frame* frame) {
  if (answer_metadata(frame) || frame->stage != STAGE_EXECUTE) return NULL;
  for (int64_t i = 0; i < frame->results.size; i++) {
    Array* array = frame->results.arrays[i];
    const Dtype* dtype = dtype_of(array->dtype);
    size_t bytes = dtype ? dtype->bytes : 0;
    for (int64_t d = 0; d < array->rank; d++) bytes *= (size_t)array->dims[d];
    if (bytes) memset(array->data, 0, bytes);
  }
  return NULL;
}
