"""Traces of processes of one job as one recording, by their hosts' wall clocks."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.recording.schema import TABLES
from tilestep.recording.tables import Replaced, Tables

BEGIN: Final = "begin_unix_ns"  # note of a trace's manifest
MERGED: Final = "merged"  # note of a merged one: {"emulated": how many have emulated time of their own, "pid": whose it has}
SYSTEM: Final = ("processes", "threads", "channels", "spans", "series", "points", "heat_maps", "edges", "heat")
MOST_APART_NS: Final = 2**58  # nine years
_LINES: Final = ("series", "heat_maps")
_TIMES: Final = ("start_ns", "time_ns")
_EMULATED: Final = "runs"  # a table of what was emulated


def merged(traces: Sequence[Tables]) -> Tables:
    """One recording of several traces, each of one process. What was emulated is that of the first that has some.

    Raises: RecordingError if one does not say when it began.
    """
    begins = [begin_of(trace) for trace in traces]
    first = min(begins)
    if max(begins) - first > MOST_APART_NS:
        raise RecordingError("these traces began more than nine years apart: they are not of one job")
    emulated = [trace for trace in traces if trace.rows(_EMULATED)]
    base = emulated[0] if emulated else traces[begins.index(first)]
    strings = list(base.strings)
    numbers = {text: number for number, text in reversed(list(enumerate(strings)))}
    columns: dict[str, dict[str, list[NDArray[Any]]]] = {table: {name: [] for name in TABLES[table]} for table in SYSTEM}
    rows = dict.fromkeys(SYSTEM, 0)
    shared = {name for name, times in Counter(name for trace in traces for name in _lines(trace)).items() if times > 1}
    for trace, begin in sorted(zip(traces, begins, strict=True), key=lambda each: each[1]):
        place = dict(rows)
        own = {name: f"{name} of process {pid_of(trace)}" for name in shared}
        for table in SYSTEM:
            rows[table] += trace.rows(table)
            for name, column in TABLES[table].items():
                values = trace.column(table, name)
                if column.table == "strings":
                    texts = trace.strings if table not in _LINES or name != "name" else [own.get(text, text) for text in trace.strings]
                    values = _renumbered(values, texts, strings, numbers)
                elif column.table in place:
                    values = np.where(values >= 0, values + place[column.table], values)
                elif name in _TIMES:
                    values = values + (begin - first)
                columns[table][name].append(values)
    joined = {table: {name: np.concatenate(parts) for name, parts in of_table.items()} for table, of_table in columns.items()}
    notes = {BEGIN: first, MERGED: {"emulated": len(emulated), "pid": pid_of(base)}}
    return Replaced(base, joined, strings=strings, notes=notes)


def begin_of(trace: Tables) -> int:
    """When a trace began, in nanoseconds of Unix time. Raises: RecordingError if it does not say."""
    begin: object = trace.manifest.get(BEGIN)
    if type(begin) is not int or not 0 <= begin < 2**63:
        raise RecordingError(f"a trace does not say in its manifest when it began ({BEGIN}), so it cannot stand beside others")
    return begin


def pid_of(trace: Tables) -> int:
    """The number of its first process; 0 if it has none."""
    return int(trace.column("processes", "pid")[0]) if trace.rows("processes") else 0


def end_of(trace: Tables) -> int:
    """When its last span ended, in nanoseconds of Unix time."""
    ends = trace.column("spans", "start_ns") + trace.column("spans", "duration_ns")
    return begin_of(trace) + int(ends.max(initial=0))


def are_of_one_job(traces: Sequence[Tables]) -> bool:
    """Whether these are traces of processes that ran at the same time: none begins after all that began before have ended."""
    if any(trace.manifest.get("kind") != "trace" for trace in traces):
        return False
    if len({(begin_of(trace), pid_of(trace)) for trace in traces}) < len(traces):
        return False  # pieces of one process that was killed
    spans = sorted((begin_of(trace), end_of(trace)) for trace in traces)
    latest = spans[0][1]
    for begin, end in spans[1:]:
        if begin > latest:
            return False
        latest = max(latest, end)
    return True


def _lines(trace: Tables) -> set[str]:
    """Names of its lines and heat maps."""
    return {trace.strings[int(number)] for table in _LINES for number in trace.column(table, "name") if number >= 0}


def _renumbered(values: NDArray[Any], texts: Sequence[str], strings: list[str], numbers: dict[str, int]) -> NDArray[np.int64]:
    """Numbers of texts of one trace as those of all."""
    used, inverse = np.unique(values, return_inverse=True)
    new: list[int] = []
    for number in map(int, used):
        if number >= 0 and texts[number] not in numbers:
            numbers[texts[number]] = len(strings)
            strings.append(texts[number])
        new.append(numbers[texts[number]] if number >= 0 else -1)
    return np.array(new, np.int64)[inverse] if len(new) else np.zeros(0, np.int64)
