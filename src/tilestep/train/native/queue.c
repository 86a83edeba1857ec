/* Queues of infeeds and outfeeds in host memory.
 *
 * Their threads run programs or Python. Nothing here takes Python's lock, so a busy interpreter does not slow feeds down.
 */
#define _POSIX_C_SOURCE 200809L
#include "queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

const Dtype dtypes[] = {
    {1, 1, "bool"},        {2, 1, "int8"},           {3, 2, "int16"},           {4, 4, "int32"},        {5, 8, "int64"},
    {6, 1, "uint8"},       {7, 2, "uint16"},         {8, 4, "uint32"},          {9, 8, "uint64"},       {10, 2, "float16"},
    {11, 4, "float32"},    {12, 8, "float64"},       {15, 8, "complex64"},      {16, 2, "bfloat16"},    {18, 16, "complex128"},
    {19, 1, "float8_e5m2"}, {20, 1, "float8_e4m3fn"}, {23, 1, "float8_e4m3b11fnuz"}, {24, 1, "float8_e5m2fnuz"}, {25, 1, "float8_e4m3fnuz"},
    {28, 1, "float8_e4m3"}, {29, 1, "float8_e3m4"},   {33, 1, "float8_e8m0fnu"}};
const int num_dtypes = sizeof(dtypes) / sizeof(dtypes[0]);
const char* const platforms[] = {"cpu", "ipu"};
const int num_platforms = sizeof(platforms) / sizeof(platforms[0]);

const Dtype* dtype_of(int code) {
  for (int i = 0; i < num_dtypes; i++)
    if (dtypes[i].code == code) return &dtypes[i];
  return NULL;
}

typedef struct Queue {
  struct Queue* next;
  int platform, ordinal, outward;
  Element *head, *tail;
  size_t length;
  unsigned long long moved; /* elements that programs have taken or given */
  pthread_cond_t arrived;
} Queue;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static Queue* queues;
static double timeout_wall_s = 60.0; /* negative: for ever */
static int closing;

/* The caller holds the lock. NULL: there is no memory. */
static Queue* queue_of(int platform, int ordinal, int outward) {
  for (Queue* queue = queues; queue; queue = queue->next)
    if (queue->platform == platform && queue->ordinal == ordinal && queue->outward == outward) return queue;
  Queue* queue = calloc(1, sizeof(Queue));
  if (!queue) return NULL;
  queue->platform = platform, queue->ordinal = ordinal, queue->outward = outward;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&queue->arrived, &monotonic);
  pthread_condattr_destroy(&monotonic);
  queue->next = queues;
  return queues = queue;
}

/* -------------------------------------------------------------------------------------------------------------- elements */

/* Memory of freed elements is used again, because the first touch of new pages costs as much as the copy. */
typedef struct Block {
  struct Block* next;
  size_t bytes;
} Block;
enum { ALIGNMENT = 64, MAX_SPARE_BYTES = 64 << 20 };
static Block* spare;
static size_t spare_bytes;

static char* reuse(size_t bytes) {
  for (Block** at = &spare; *at; at = &(*at)->next)
    if ((*at)->bytes == bytes) {
      Block* block = *at;
      *at = block->next;
      spare_bytes -= bytes;
      return (char*)block;
    }
  return NULL;
}
static int keep(char* data, size_t bytes) {
  if (spare_bytes + bytes > MAX_SPARE_BYTES) return 0;
  Block* block = (Block*)data;
  block->bytes = bytes;
  block->next = spare;
  spare = block;
  spare_bytes += bytes;
  return 1;
}

Element* element_make(size_t leaves) { return calloc(1, sizeof(Element) + leaves * sizeof(Leaf)); }
int element_take_memory(Element* element) {
  size_t bytes = 0;
  for (int i = 0; i < element->count; i++) {
    Leaf* leaf = &element->leaves[i];
    leaf->bytes = dtype_of(leaf->code)->bytes;
    for (int d = 0; d < leaf->rank; d++) leaf->bytes *= (size_t)leaf->dims[d];
    leaf->offset = bytes;
    bytes += (leaf->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  element->bytes = bytes ? bytes : ALIGNMENT;
  pthread_mutex_lock(&lock);
  element->data = reuse(element->bytes);
  pthread_mutex_unlock(&lock);
  if (!element->data) element->data = malloc(element->bytes);
  return element->data != NULL;
}
void element_free(Element* element) {
  if (element && element->data) {
    pthread_mutex_lock(&lock);
    int kept = keep(element->data, element->bytes);
    pthread_mutex_unlock(&lock);
    if (!kept) free(element->data);
  }
  free(element);
}

/* The caller holds the lock, for both. */
static void append(Queue* queue, Element* element) {
  element->next = NULL;
  if (queue->tail) queue->tail->next = element;
  else queue->head = element;
  queue->tail = element;
  queue->length++;
  pthread_cond_broadcast(&queue->arrived);
}
static Element* take(Queue* queue) {
  Element* element = queue->head;
  if (!element) return NULL;
  queue->head = element->next;
  if (!queue->head) queue->tail = NULL;
  queue->length--;
  return element;
}

/* --------------------------------------------------------------------------------------------------------------- Ctrl-C */

/* Python's handler only sets a flag, which the main thread sees when it next runs Python. A main thread that waits for a program does not.
 * So this handler stands before Python's while programs wait for data. */
static volatile sig_atomic_t interrupts;
static struct sigaction python_handler;
static int waiting, installed;

static void on_interrupt(int number, siginfo_t* info, void* context) {
  interrupts++;
  if (python_handler.sa_flags & SA_SIGINFO) python_handler.sa_sigaction(number, info, context);
  else python_handler.sa_handler(number);
}
/* The caller holds the lock, for both. */
static void watch(void) {
  if (waiting++) return;
  sigaction(SIGINT, NULL, &python_handler);
  installed = (python_handler.sa_flags & SA_SIGINFO) || (python_handler.sa_handler != SIG_DFL && python_handler.sa_handler != SIG_IGN);
  if (!installed) return;
  struct sigaction own = {.sa_mask = python_handler.sa_mask, .sa_flags = python_handler.sa_flags | SA_SIGINFO};
  own.sa_sigaction = on_interrupt;
  sigaction(SIGINT, &own, NULL);
}
static void unwatch(void) {
  if (--waiting || !installed) return;
  struct sigaction now;
  sigaction(SIGINT, NULL, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_interrupt) sigaction(SIGINT, &python_handler, NULL);
}

/* ----------------------------------------------------------------------------------------------------------------- waits */

double wall_now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static void wait_slice(Queue* queue, double until_s) {
  double end = wall_now_s() + 0.02; /* then the caller looks at flags that wake no thread up */
  if (until_s >= 0 && until_s < end) end = until_s;
  struct timespec at = {.tv_sec = (time_t)end, .tv_nsec = (long)(1e9 * (end - (double)(time_t)end))};
  pthread_cond_timedwait(&queue->arrived, &lock, &at);
}

Taken infeed_take(int platform, int ordinal) {
  Taken taken = {0};
  pthread_mutex_lock(&lock);
  taken.patience_wall_s = timeout_wall_s;
  Queue* queue = queue_of(platform, ordinal, 0);
  if (queue && !(taken.element = take(queue))) {
    double until = timeout_wall_s < 0 ? -1 : wall_now_s() + timeout_wall_s;
    watch();
    sig_atomic_t before = interrupts;
    /* An interrupted program takes nothing more: the user may feed another program before this one looks again. */
    while (!(taken.stopped = closing || interrupts != before) && !(taken.element = take(queue)) &&
           !(taken.late = until >= 0 && wall_now_s() >= until))
      wait_slice(queue, until);
    unwatch();
  }
  taken.no_memory = !queue;
  taken.number = queue ? queue->moved : 0;
  taken.closed = closing;
  if (taken.element) queue->moved++;
  pthread_mutex_unlock(&lock);
  return taken;
}
int infeed_add(int platform, int ordinal, Element* element) {
  pthread_mutex_lock(&lock);
  int closed = closing;
  Queue* queue = closed ? NULL : queue_of(platform, ordinal, 0);
  if (queue) append(queue, element);
  pthread_mutex_unlock(&lock);
  return queue ? ADDED : closed ? CLOSED : NO_MEMORY;
}
int outfeed_add(int platform, int ordinal, Element* element) {
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, 1);
  if (queue) {
    append(queue, element);
    queue->moved++;
  }
  pthread_mutex_unlock(&lock);
  return queue ? ADDED : NO_MEMORY;
}
Element* outfeed_take(int platform, int ordinal, double until_s, int* is_late) {
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, 1);
  Element* element = queue ? take(queue) : NULL;
  *is_late = closing || !queue || (until_s >= 0 && wall_now_s() >= until_s);
  if (!element && !*is_late) {
    wait_slice(queue, until_s);
    element = take(queue);
  }
  pthread_mutex_unlock(&lock);
  return element;
}

size_t queue_length(int platform, int ordinal, int outward) {
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, outward);
  size_t length = queue ? queue->length : 0;
  pthread_mutex_unlock(&lock);
  return length;
}
Element* queue_clear(int platform, int ordinal, int outward, size_t* length) {
  pthread_mutex_lock(&lock);
  Queue* queue = queue_of(platform, ordinal, outward);
  Element* elements = queue ? queue->head : NULL;
  *length = queue ? queue->length : 0;
  if (queue) queue->head = queue->tail = NULL, queue->length = 0;
  pthread_mutex_unlock(&lock);
  return elements;
}
void queues_close(void) {
  pthread_mutex_lock(&lock);
  closing = 1;
  for (Queue* queue = queues; queue; queue = queue->next) pthread_cond_broadcast(&queue->arrived);
  pthread_mutex_unlock(&lock);
}

double timeout_get(void) {
  pthread_mutex_lock(&lock);
  double seconds = timeout_wall_s;
  pthread_mutex_unlock(&lock);
  return seconds;
}
double timeout_set(double seconds) {
  pthread_mutex_lock(&lock);
  double before = timeout_wall_s;
  timeout_wall_s = seconds;
  pthread_mutex_unlock(&lock);
  return before;
}
