/* Queues of infeeds and outfeeds in host memory: elements, and how threads add, take and wait for them. */
#ifndef TILESTEP_QUEUE_H
#define TILESTEP_QUEUE_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
  int code; /* XLA's */
  size_t bytes;
  const char* name; /* NumPy's */
} Dtype;
extern const Dtype dtypes[];
extern const int num_dtypes;
const Dtype* dtype_of(int code); /* NULL: it cannot be fed */

extern const char* const platforms[]; /* by their numbers */
extern const int num_platforms;

enum { MAX_RANK = 32 };
typedef struct {
  int code;
  int rank;
  int64_t dims[MAX_RANK];
  size_t bytes;
  size_t offset; /* from the element's data */
} Leaf;
typedef struct Element {
  struct Element* next;
  char* data;
  size_t bytes; /* of the data, each leaf aligned */
  int count;
  Leaf leaves[];
} Element;

/* An element without data for at most `leaves` leaves. NULL: there is no memory. */
Element* element_make(size_t leaves);
/* Gives an element room for its data; its leaves have code, rank and dims already. Returns: 0 if there is no memory. */
int element_take_memory(Element* element);
void element_free(Element* element);

double wall_now_s(void);
double timeout_get(void);           /* how long a program waits for data; negative: for ever */
double timeout_set(double seconds); /* returns the timeout before */

typedef struct {
  Element* element;          /* NULL: for one of the reasons that follow */
  unsigned long long number; /* of elements that the program took before */
  double patience_wall_s;    /* how long it waited at most; negative: for ever */
  int no_memory, stopped, late;
  int closed; /* whether the process ends; then `stopped` may be set too */
} Taken;
/* Takes the next element of an infeed, and waits for it. Ctrl-C stops the wait. */
Taken infeed_take(int platform, int ordinal);

enum { ADDED, NO_MEMORY, CLOSED };
int infeed_add(int platform, int ordinal, Element* element);  /* a new element; refused once the queues are closed */
int outfeed_add(int platform, int ordinal, Element* element); /* an element of a program */
/* Takes an element of an outfeed, and waits for a moment at most. is_late: set if there will be none until `until_s`; negative: for ever. */
Element* outfeed_take(int platform, int ordinal, double until_s, int* is_late);

size_t queue_length(int platform, int ordinal, int outward);
Element* queue_clear(int platform, int ordinal, int outward, size_t* length); /* its elements, which are the caller's then */
void queues_close(void); /* ends all waits; later ones end at once */

#endif
