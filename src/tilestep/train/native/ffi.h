/* Layout of XLA's FFI, through which XLA:CPU calls functions of ours, and these functions.
 *
 * The structs are those of xla/ffi/api/c_api.h, API 0.3. They only ever grow at their end.
 */
#ifndef TILESTEP_FFI_H
#define TILESTEP_FFI_H
#include <stddef.h>
#include <stdint.h>

enum { API_MAJOR = 0, API_MINOR = 3, EXTENSION_METADATA = 1, STAGE_EXECUTE = 3, TOKEN = 17, ATTRIBUTE_SCALAR = 3 };
enum { INVALID_ARGUMENT = 3, DEADLINE_EXCEEDED = 4, RESOURCE_EXHAUSTED = 8, CANCELLED = 1, FAILED_PRECONDITION = 9 };

typedef struct Extension {
  size_t struct_size;
  int type;
  struct Extension* next;
} Extension;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int major, minor;
} Version;
typedef struct {
  size_t struct_size;
  Version version;
} Metadata;
typedef struct {
  Extension base;
  Metadata* metadata;
} MetadataExtension;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  int code;
} ErrorArgs;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  void* context;
  int32_t ordinal;
} OrdinalArgs;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  void* (*error_create)(ErrorArgs*);
  void* others[16]; /* Error_GetMessage ... RunId_Get */
  void* (*ordinal_get)(OrdinalArgs*);
} Api;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
} Array;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  Array** arrays;
} Arrays;
typedef struct {
  const char* text;
  size_t size;
} Span;
typedef struct {
  int dtype;
  void* value;
} Scalar;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  Span** names;
  void** values;
} Attributes;
typedef struct {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Arrays arguments;
  Arrays results;
  Attributes attributes;
} Frame;

/* What XLA:CPU calls in a program: take an element from an infeed, add one to an outfeed, make zeros that no compiler can fold. */
void* infeed(Frame* frame);
void* outfeed(Frame* frame);
void* unknown_zero(Frame* frame);

#endif
