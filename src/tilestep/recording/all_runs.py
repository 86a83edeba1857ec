"""The events of all runs of a recording, worked out again from its journal where the file has those of some."""

from __future__ import annotations

import numpy as np

from tilestep.errors import RecordingError
from tilestep.recording.call_tables import has_history, history_of
from tilestep.recording.capture import event_columns, lane_row
from tilestep.recording.history import History
from tilestep.recording.replay import replay_of_file
from tilestep.recording.schema import TABLES
from tilestep.recording.tables import Tables
from tilestep.recording.with_tables import Replaced


def with_all_events(tables: Tables, history: History | None = None) -> Tables:
    """The recording with the events of all its runs.

    Args:
        tables: a recording with its whole journal.
        history: that `history_of` gives of it, if the caller has it already.

    Returns:
        The same with other tables `lanes` and `events`.

    Raises:
        RecordingError: if the journal was not kept, was cut, or cannot be played.
    """
    if not has_history(tables):
        raise RecordingError("this recording has no journal, so the events that it left out are lost: record it with one")
    history = history or history_of(tables)
    if not history.complete:
        raise RecordingError("the journal of this recording was cut, so the events that it left out are lost: record fewer runs")
    system = replay_of_file(history, record=True)
    start = history.snapshot.dispatches
    runs = {start + row: row for row in range(tables.rows("runs"))}
    programs = {key: row for row, key in enumerate(tables.column("programs", "key").tolist())}
    rows = [lane_row(lane) for lane in system.lanes]
    lanes = {name: np.array([row[name] for row in rows], np.int64) for name in TABLES["lanes"]}
    return Replaced(tables, {"lanes": lanes, "events": event_columns(system.all_rows(), programs=programs, runs=runs)})
