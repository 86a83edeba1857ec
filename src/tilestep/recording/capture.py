"""Makes a recording of what happened in a simulated system between two marks."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tilestep.recording.call_tables import put_history
from tilestep.recording.history import History
from tilestep.recording.machine import machine_document
from tilestep.recording.program import RecordedCompilation
from tilestep.recording.schema import LANE_KINDS
from tilestep.recording.storage.container import Builder
from tilestep.recording.sums import SimulationSpan, add_sums
from tilestep.sim.trace import Lane, Rows, RunRow

_LANE_KINDS = {kind: number for number, kind in enumerate(LANE_KINDS)}
MOST_OF_UPDATE: Final = 100_000  # events: of a larger update of a pipeline only the runs are kept that other programs' are


def capture(
    builder: Builder,
    span: SimulationSpan,
    compiled: Mapping[int, RecordedCompilation],
    *,
    runs_in_detail: int,
    lines: bool = True,
) -> None:
    """Adds a span of a simulation to a recording.

    Args:
        builder: of the recording.
        span: what happened.
        compiled: programs by key: all that ran in the span, and all that its history needs.
        runs_in_detail: how many runs of each program keep their events, the first and the last ones together. So do those of a pipeline's
            last update.
        lines: whether lines of the user's source are kept.
    """
    programs, rows = add_sums(builder, span, compiled, lines=lines)
    builder.put_json("machine", machine_document(span.system.machine))
    programs.finish()
    for lane in span.system.lanes:
        builder.append("lanes", **lane_row(lane))
    runs, trips = span.system.runs_between(span.begin, span.end)
    numbers = {run.number: row for row, run in enumerate(runs)}
    _add_runs(builder, runs, rows)
    if trips:
        builder.extend(
            "trips",
            run=[numbers[trip.run] for trip in trips if trip.run in numbers],
            **{name: [getattr(trip, name) for trip in trips if trip.run in numbers] for name in ("position", "site", "arm", "times")},
        )
    events = in_detail(span.system.rows_between(span.begin, span.end), runs, runs_in_detail)
    add_events(builder, events, programs=rows, runs=numbers)
    if span.history is not None:
        put_history(builder, span.history, lines=lines)


def lane_row(lane: Lane) -> dict[str, int]:
    """A row of table `lanes`."""
    return {"kind": _LANE_KINDS[lane.kind], "number": lane.number, "target": lane.target}


def _add_runs(builder: Builder, runs: Iterable[RunRow], rows: Mapping[int, int]) -> None:
    runs = list(runs)
    if not runs:
        return
    none, string = builder.string(""), builder.string
    builder.extend(
        "runs",
        program=[rows[run.key] for run in runs],
        host_cycle=[run.host_cycle for run in runs],
        group=[string(run.group) for run in runs],
        entry=[run.entry for run in runs],
        stage=[-1 if run.task is None else run.task.stage for run in runs],
        task=[none if run.task is None else string(run.task.kind) for run in runs],
        microbatch=[-1 if run.task is None else run.task.microbatch for run in runs],
    )


def in_detail(events: Rows, runs: Iterable[RunRow], most: int) -> Rows:
    """The events of the first and of the last runs of each program and of a pipeline's last update, with what the host did between them.

    Args: most: how many runs of each program, the first and the last ones together.
    """
    runs = list(runs)
    numbers: dict[int, list[int]] = {}
    for run in runs:
        numbers.setdefault(run.key, []).append(run.number)
    first, last = (most + 1) // 2, most // 2
    kept_runs = {
        number for of_program in numbers.values() for number in (*of_program[:first], *of_program[max(len(of_program) - last, 0) :])
    }
    # an event of no run, such as a read, goes with the run before it
    last_run = _filled(events.run)
    kept = _among(last_run, kept_runs) | (last_run < 0)
    of_update = _among(last_run, last_update(runs))
    if np.count_nonzero(of_update) <= MOST_OF_UPDATE:
        kept |= of_update
    return Rows(*(column[kept] for column in events))


def last_update(runs: Iterable[RunRow]) -> set[int]:
    """Numbers of the runs that were dispatched with a pipeline's last update; with its last microbatches if it has no update."""
    runs = [run for run in runs if run.entry]
    of_stages = [run for run in runs if run.task is not None and run.task.stage >= 0]
    updates = [run for run in of_stages if run.task is not None and run.task.kind == "update"]
    found = (updates or of_stages)[-1:]
    return {run.number for run in runs if (run.group, run.entry) == (found[0].group, found[0].entry)} if found else set()


def _among(values: NDArray[np.int64], numbers: set[int]) -> NDArray[np.bool_]:
    return np.isin(values, np.fromiter(numbers, np.int64, len(numbers)))


def _filled(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each -1 replaced by the number before it."""
    known = np.where(runs >= 0, np.arange(len(runs)), 0)
    np.maximum.accumulate(known, out=known)
    return runs[known] if len(runs) else runs


def add_events(builder: Builder, events: Rows, *, programs: Mapping[int, int], runs: Mapping[int, int]) -> None:
    """Adds events to a recording; arguments as for `event_columns`."""
    if len(events.number):
        builder.extend("events", **event_columns(events, programs=programs, runs=runs))


def event_columns(events: Rows, *, programs: Mapping[int, int], runs: Mapping[int, int]) -> dict[str, NDArray[np.int64]]:
    """The columns of table `events`. A cause that is not among the events becomes -1.

    Args: programs: row by key. runs: row by number of the dispatch.
    """
    return {
        "lane": events.lane,
        "kind": events.kind,
        "start": events.start,
        "end": events.end,
        "run": _mapped(events.run, runs),
        "program": _mapped(events.key, programs),
        "cause": _positions(events.cause, events.number),
    }


def _mapped(values: NDArray[np.int64], rows: Mapping[int, int]) -> NDArray[np.int64]:
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([rows.get(value, -1) for value in distinct.tolist()], np.int64)[inverse]


def _positions(values: NDArray[np.int64], sorted_numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each value is among ascending numbers; -1: nowhere."""
    places = np.minimum(np.searchsorted(sorted_numbers, values), len(sorted_numbers) - 1)
    return np.where(sorted_numbers[places] == values, places, -1)


def notes_of(history: History | None, **notes: Any) -> dict[str, Any]:
    """Notes for the manifest of a recording."""
    return {**notes, "journal": "none" if history is None else "complete" if history.complete else "cut"}
