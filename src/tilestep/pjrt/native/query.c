/* A query under way: JAX's is_ready() of an array, called in this thread. */
#include "query.h"

static _Thread_local Query* current;

Query* ts_set_query(Query* query) {
  Query* before = current;
  current = query;
  return before;
}
int ts_query_takes_requests(void) { return current && !current->looked; }
int ts_query_take(Request* request) {
  if (!current || !request->event->in_caller) return 0;
  request->next = current->requests;
  current->requests = request;
  return 1;
}
void ts_query_note_look(void) {
  if (current) current->looked = 1;
}
