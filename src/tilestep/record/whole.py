"""The events of all runs of a recording, worked out again from its journal where the file has those of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.record.call_tables import has_history, history_of
from tilestep.record.capture import event_columns, lane_row
from tilestep.record.history import History
from tilestep.record.replay import replay_of_file
from tilestep.record.schema import TABLES
from tilestep.record.tables import Tables, known_column, known_columns, sealed


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
    replaced = {"lanes": lanes, "events": event_columns(system.all_rows(), programs=programs, runs=runs)}
    return _Replaced(tables, replaced)


@final
class _Replaced:
    """A recording with other tables in place of some."""

    def __init__(self, tables: Tables, replaced: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        self._tables = tables
        self._columns = {
            table: {name: sealed(values.astype(TABLES[table][name].dtype)) for name, values in columns.items()}
            for table, columns in replaced.items()
        }

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self._tables.manifest

    @property
    def strings(self) -> Sequence[str]:
        return self._tables.strings

    def has(self, table: str) -> bool:
        return self.rows(table) > 0

    def rows(self, table: str) -> int:
        known_columns(table)
        return len(next(iter(self._columns[table].values()))) if table in self._columns else self._tables.rows(table)

    def column(self, table: str, column: str) -> NDArray[Any]:
        known_column(table, column)
        return self._columns[table][column] if table in self._columns else self._tables.column(table, column)

    def text(self, name: str) -> str:
        return self._tables.text(name)
