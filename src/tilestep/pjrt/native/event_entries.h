/* Entry points about events. */
#ifndef TILESTEP_EVENT_ENTRIES_H
#define TILESTEP_EVENT_ENTRIES_H
#include "native.h"

void ts_fill_event_entries(PJRT_Api* api);

#endif
