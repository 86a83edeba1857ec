"""The waits of all lanes by what they waited for, and their stretches without events: the figures of `Execution.waits` and `unkept`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilestep.figures.reader.runs.gaps import Unrecorded
from tilestep.views.page.sections.execution.rows import EventRows, Numbers

MOST_ROWS = 20_000
_UNKNOWN = -2  # cause, kind and program of a wait whose cause is not in the recording


@dataclass(frozen=True, kw_only=True)
class Waits:
    """One row for each lane and reason, the largest first.

    Attributes:
        columns: wait_lane; wait_of (lane of the cause; -2: not in the recording), wait_kind, wait_program (-1: none) of the cause;
            wait_times, wait_cycles (all together), wait_longest.
        left_out: rows beyond MOST_ROWS.
        unkept: of each event, whether the gap before it may lack events: no wait.
        unkept_cycles: of such gaps of each lane.
        spans: of each lane the time from its first event to the end of its last.
    """

    columns: dict[str, Numbers]
    left_out: int
    unkept: NDArray[np.bool_]
    unkept_cycles: list[int]
    spans: list[int]


def waits(rows: EventRows, unrecorded: Unrecorded) -> Waits:
    """All waits of all lanes."""
    clock = np.empty_like(rows.end)
    for begin, end in zip(rows.begins[:-1].tolist(), rows.begins[1:].tolist(), strict=True):
        clock[begin:end] = np.maximum.accumulate(rows.end[begin:end])
    found = np.flatnonzero((rows.lane[1:] == rows.lane[:-1]) & (rows.start[1:] > clock[:-1])) + 1
    cycles = rows.start[found] - clock[found - 1]
    unkept = np.zeros(len(rows), np.bool_)
    bounds = np.searchsorted(found, rows.begins)
    for lane, begin, end in zip(rows.lanes, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        unkept[found[begin:end]] = unrecorded.between(lane, rows.original[found[begin:end] - 1], rows.original[found[begin:end]])
    missing = unkept[found]
    unkept_cycles = np.bincount(rows.lane[found[missing]], weights=cycles[missing], minlength=len(rows.lanes)).astype(np.int64)
    spans = [int(clock[end - 1] - rows.start[begin]) for begin, end in zip(rows.begins[:-1], rows.begins[1:], strict=True)]
    found, cycles = found[~missing], cycles[~missing]
    cause = rows.cause[found]
    known = cause >= 0
    keys = [rows.lane[found], *(np.where(known, column[cause], _UNKNOWN) for column in (rows.lane, rows.kind, rows.program))]
    order = np.lexsort(keys[::-1])
    keys, cycles = [key[order] for key in keys], cycles[order]
    first = np.flatnonzero(np.any([np.diff(key, prepend=-9) != 0 for key in keys], axis=0)) if len(order) else order
    totals = np.add.reduceat(cycles, first) if len(first) else cycles
    by_size = np.argsort(-totals, kind="stable")
    shown = by_size[:MOST_ROWS]
    names = ("wait_lane", "wait_of", "wait_kind", "wait_program")
    columns = {name: key[first][shown] for name, key in zip(names, keys, strict=True)}
    columns["wait_times"] = np.diff(first, append=len(order))[shown]
    columns["wait_cycles"] = totals[shown]
    columns["wait_longest"] = (np.maximum.reduceat(cycles, first) if len(first) else cycles)[shown]
    return Waits(columns=columns, left_out=len(by_size) - len(shown), unkept=unkept, unkept_cycles=unkept_cycles.tolist(), spans=spans)
