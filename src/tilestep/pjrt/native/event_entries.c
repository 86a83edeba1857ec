/* Entry points about events. */

#include "functions.h"

#include <stdlib.h>

#include "event.h"
#include "query.h"
#include "wait_pool.h"

static void* api_destroy(PJRT_Event_Destroy_Args* a) {
  ts_event_let_go(a->event);
  return NULL;
}
static void* api_is_ready(PJRT_Event_IsReady_Args* a) {
  Event* event = a->event;
  a->is_ready = ts_event_is_done(event);
  if (a->is_ready || ts_event_is_question(event)) return NULL;
  a->is_ready = true;
  if (!ts_may_begin()) return NULL;
  TS_ENTER;
  a->is_ready = ts_event_poll(event);
  TS_LEAVE;
  return NULL;
}
static void* await_event(Event* event) {
  if (!ts_event_is_done(event)) {
    if (!ts_may_begin()) return NULL;
    TS_ENTER;
    ts_event_wait(event);
    TS_LEAVE;
  }
  return ts_event_error(event);
}
static void* api_await(PJRT_Event_Await_Args* a) { return await_event(a->event); }
static void* api_error(PJRT_Event_Error_Args* a) { return await_event(a->event); }

static void* api_on_ready(PJRT_Event_OnReady_Args* a) {
  Event* event = a->event;
  ReadyCallback callback = (ReadyCallback)a->callback;
  if (ts_event_is_done(event) || !ts_may_enter()) { /* a thread is not held back here, because a run in flight needs the callback */
    callback(ts_event_is_done(event) ? ts_event_error(event) : NULL, a->user_arg);
    return NULL;
  }
  Request* request = calloc(1, sizeof(Request));
  if (!request) return ts_error_text(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory");
  ts_event_hold(event);
  request->event = event;
  request->callback = callback;
  request->user = a->user_arg;
  if (ts_stage < TS_CLOSING && ts_event_is_question(event)) {
    if (!ts_query_take(request)) ts_finish_later(request);
    return NULL;
  }
  TS_ENTER;
  if (ts_stage >= TS_CLOSING) ts_finish(request, 1);
  else if (ts_finish_at_once(request) < 0) ts_finish_later(request);
  TS_LEAVE;
  return NULL;
}
static void* api_create(PJRT_Event_Create_Args* a) {
  a->event = ts_event_make(NULL);
  return a->event ? NULL : ts_error_text(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory");
}
static void* api_set(PJRT_Event_Set_Args* a) {
  Event* event = a->event;
  if (a->error_code) ts_event_fail(event, ts_error(a->error_code, a->error_message, a->error_message_size));
  ts_event_set_done(event);
  return NULL;
}
void ts_fill_event_entries(PJRT_Api* api) {
  ts_prepare_events_for_forks();
  ts_prepare_pool_for_forks();
  api->PJRT_Event_Destroy = api_destroy;
  api->PJRT_Event_IsReady = api_is_ready;
  api->PJRT_Event_Error = api_error;
  api->PJRT_Event_Await = api_await;
  api->PJRT_Event_OnReady = api_on_ready;
  api->PJRT_Event_Create = api_create;
  api->PJRT_Event_Set = api_set;
}
