/* A query under way: JAX's is_ready() of an array, called in this thread. */
#ifndef TILESTEP_QUERY_H
#define TILESTEP_QUERY_H
#include "event.h"
#include "native.h"

/* Python may run in the midst of a query, in a finalizer or a signal's handler, and make queries of its own or look at an array. The thread
 * sleeps in a look until the array is ready, so requests that follow a look go to the pool. */
typedef struct Query {
  Request* requests; /* the last one first */
  int looked;        /* whether an array was looked at meanwhile */
} Query;

Query* ts_set_query(Query* query); /* the query under way from now on, NULL: none. Returns: the one before */
int ts_query_takes_requests(void);
int ts_query_take(Request* request); /* whether the query under way has taken it */
void ts_query_note_look(void);       /* JAX is about to look at an array */

#endif
