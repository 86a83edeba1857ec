/* Events: arrays that somebody waits for. */
#ifndef TILESTEP_EVENT_H
#define TILESTEP_EVENT_H
#include "buffer.h"
#include "native.h"

/* A PJRT_Event. It is counted without the GIL; `peers` and `waitables` need the GIL. */
typedef struct Event {
  int holders;
  int done;
  int gone;           /* whether its array was donated before it could be waited for */
  void* error;        /* a PJRT_Error, or NULL */
  Buffer* buffer;     /* borrowed. Not NULL: the event is a question about the buffer, into which no thread has looked yet */
  int in_caller;      /* whether the question is answered in the thread that asked it (wait_in_caller.c) */
  struct Event* next; /* question about the same buffer */
  Peers* peers;       /* the buffer's */
  PyObject* waitables; /* tuple of objects with block_until_ready(), and with is_ready() if they can be asked; NULL: set from outside */
} Event;

typedef void (*ReadyCallback)(void* error, void* user);
typedef struct Request { /* of JAX: to be told when the event has happened */
  Event* event;
  ReadyCallback callback;
  void* user;
  void* error;
  int leads; /* whether it is the one of its peers' requests that a thread waits for */
  struct Request* next;
} Request;

extern Event* const ts_event_done; /* the event that has happened; its handles are not counted */

Event* ts_event_make(PyObject* waitables);                  /* NULL: there is no memory */
Event* ts_event_question(Buffer* buffer, int in_caller);    /* NULL likewise. Needs no GIL */
void ts_event_hold(Event* event);
void ts_event_let_go(Event* event);
int ts_event_is_question(const Event* event);
int ts_event_is_done(Event* event);
void ts_event_set_done(Event* event);
void ts_event_fail(Event* event, void* error); /* takes the error */
void* ts_event_error(Event* event);            /* a copy, or NULL */
int ts_event_poll(Event* event);               /* whether a wait would return at once */
void ts_event_wait(Event* event);              /* interrupts are raised afterwards */
void ts_note_question(Event* event);           /* notes in the journal that the host waits for a question's buffer. Needs the GIL */
void ts_resolve_questions(Buffer* buffer);     /* looks into the buffer for all its questions, before its handle is let go of */

/* These need the GIL, wait for a request's event and call back, for its peers' requests too. They take the request, or return -1. */
int ts_finish(Request* request, int to_the_end); /* -1: interrupted, if not `to_the_end` */
int ts_finish_at_once(Request* request);         /* 1: done; 0: the thread that waits for a peer will do it; -1: not ready */
void ts_finish_or_join(Request* request);        /* waits, unless a thread waits for a peer already */

void ts_prepare_events_for_forks(void);

#endif
