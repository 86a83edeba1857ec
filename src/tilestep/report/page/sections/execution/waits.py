"""The waits of all lanes by what they waited for: the figures of `Execution.waits`, summed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilestep.report.page.sections.execution.rows import Numbers, Rows

MOST_ROWS = 20_000
_UNKNOWN = -2  # cause, kind and program of a wait whose cause is not in the recording


@dataclass(frozen=True, kw_only=True)
class Waits:
    """One row for each lane and reason, the largest first.

    Attributes:
        columns: wait_lane; wait_of (lane of the cause; -2: not in the recording), wait_kind, wait_program (-1: none) of the cause;
            wait_times, wait_cycles (all together), wait_longest.
        left_out: rows beyond MOST_ROWS.
    """

    columns: dict[str, Numbers]
    left_out: int


def waits(rows: Rows) -> Waits:
    """All waits of all lanes."""
    clock = np.empty_like(rows.end)
    for begin, end in zip(rows.begins[:-1].tolist(), rows.begins[1:].tolist(), strict=True):
        clock[begin:end] = np.maximum.accumulate(rows.end[begin:end])
    found = np.flatnonzero((rows.lane[1:] == rows.lane[:-1]) & (rows.start[1:] > clock[:-1])) + 1
    cycles = rows.start[found] - clock[found - 1]
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
    return Waits(columns=columns, left_out=len(by_size) - len(shown))
