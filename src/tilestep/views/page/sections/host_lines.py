"""Lines of the host program: which one made each call of the journal, and dispatched each run."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilestep.recording.schema import CALLS
from tilestep.recording.tables import Tables, json_text

HostLines = tuple[list[tuple[str, int]], NDArray[np.int64]]
_DISPATCH = CALLS.index("dispatch")


def lines_of_calls(tables: Tables) -> HostLines:
    """(path and number of each line, of each call the place of its line among them; -1: unknown). No lines if they are damaged."""
    found: Any = json_text(tables, "call_lines")
    notes = tables.column("call_notes", "note").astype(np.int64)
    lines: list[tuple[str, int]] = []
    for entry in cast("list[Any]", found) if isinstance(found, list) and len(notes) == tables.rows("calls") else ():
        match entry:
            case [str(file), int(number)]:
                lines.append((file, number))
            case _:
                lines = []
                break
    return lines, np.where((notes > 0) & (notes <= len(lines)), notes - 1, -1) if lines else np.full(tables.rows("calls"), -1, np.int64)


def lines_of_runs(tables: Tables) -> HostLines:
    """The same of each run. A journal that is whole has a dispatch a run: without that, there are no lines."""
    lines, places = lines_of_calls(tables)
    dispatches = tables.column("calls", "call") == _DISPATCH
    count = tables.rows("runs")
    return (lines, places[dispatches]) if np.count_nonzero(dispatches) == count else ([], np.full(count, -1, np.int64))
