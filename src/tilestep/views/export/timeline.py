"""A recording as tracks of slices, for trace viewers.

A viewer has one time axis, so one timeline has one clock: emulated time, which says nothing about the host, or wall time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from tilestep.errors import RecordingError
from tilestep.figures.reader import Event, Lane, Report, Run, SourceLine
from tilestep.figures.reader.runs.run import RunOnIpu
from tilestep.figures.reader.runs.spans import WAIT, Span
from tilestep.figures.reader.system import Thread
from tilestep.figures.rows import relative_lines
from tilestep.figures.scopes import parts_of
from tilestep.recording.schema import LANE_KINDS
from tilestep.units import seconds_from_cycles

Clock = Literal["emulated", "wall"]
MOST_SLICES: Final = 2_000_000
MOST_LANE_ROWS: Final = 256
_NS: Final = 1e9


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Something that a track does.

    Attributes:
        name: of it.
        category: its kind.
        begin_ns: in the timeline's clock.
        end_ns: likewise; equal to the begin: an instant.
        arguments: further figures.
        flows_out: numbers of flows that begin with it.
        flows_in: numbers of flows that end with it.
        line: of the user's program; None: unknown, or left out.
    """

    name: str
    category: str
    begin_ns: int
    end_ns: int
    arguments: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    flows_out: tuple[int, ...] = ()
    flows_in: tuple[int, ...] = ()
    line: SourceLine | None = None

    @property
    def shown_arguments(self) -> Mapping[str, str | int]:
        """The figures, and the line."""
        return self.arguments if self.line is None else {**self.arguments, "line": str(self.line)}


@dataclass(frozen=True, kw_only=True)
class CounterTrack:
    """A line of numbers.

    Attributes:
        name: of it.
        unit: 'bytes' or another.
        points: (time, value) in order of time.
    """

    name: str
    unit: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, kw_only=True)
class Track:
    """One row of a viewer.

    Attributes:
        number: of the row within its group.
        name: of it.
        slices: in order of their begins, outer ones first; two of them are apart, or one lies within the other.
    """

    number: int
    name: str
    slices: Sequence[Slice]


@dataclass(frozen=True, kw_only=True)
class TrackGroup:
    """Tracks that a viewer shows together, as those of one process."""

    number: int
    name: str
    tracks: tuple[Track, ...]
    counters: tuple[CounterTrack, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExportTimeline:
    """All tracks of a recording in one clock.

    Attributes:
        clock: which.
        groups: tracks.
        steps: whether runs are divided into their steps; else there would be too many.
    """

    clock: Clock
    groups: tuple[TrackGroup, ...]
    steps: bool = True


def timeline(report: Report, *, clock: Clock, source: bool) -> ExportTimeline:
    """A recording in one clock.

    Args:
        source: whether lines of the user's program are named.
    Raises: RecordingError if the recording has nothing in this clock, or is damaged.
    """
    return _emulated(report, source=source) if clock == "emulated" else _wall(report, source=source)


# ------------------------------------------------------------------------------------------------------------ emulated time


def _emulated(report: Report, *, source: bool) -> ExportTimeline:
    execution = report.execution
    steps = _count_spans(report) <= MOST_SLICES
    tracks = _Emulated(report, source=source, steps=steps)
    used = (lane for lane in execution.lanes if len(execution.events.of_lane(lane)))
    lanes = sorted(used, key=lambda lane: (LANE_KINDS.index(lane.kind), lane.number, lane.target))
    machine = report.target.name
    groups = (
        TrackGroup(
            number=1,
            name=f"emulated time: {machine}",
            tracks=_rows((lane.name, tracks.of_lane(lane), lane.kind == "ipu") for lane in lanes),
            counters=tuple(tracks.memory(lane.number) for lane in lanes if lane.kind == "ipu"),
        ),
    )
    return ExportTimeline(clock="emulated", groups=groups, steps=steps)


def _count_spans(report: Report) -> int:
    """At most how many slices there are with a slice for each kind of each step of each run."""
    leaves = [len(program.leaves) if program.has_tree else 0 for program in report.compilation.programs]
    return len(report.execution.events) + sum(3 * leaves[run.program.row] * len(run.ipus) for run in report.execution.runs if run.in_detail)


class _Emulated:
    """Slices of lanes: those of an IPU are runs, with their steps within."""

    def __init__(self, report: Report, *, source: bool, steps: bool) -> None:
        self._execution, self._source, self._steps = report.execution, source, steps
        self._clock_hz = report.target.clock_hz
        self._relative = relative_lines(report)
        causes = report.execution.events.column("cause")
        lanes = report.execution.events.column("lane")
        rows = np.flatnonzero(causes >= 0)
        rows = rows[lanes[causes[rows]] != lanes[rows]]  # within a lane one follows the other anyway
        caused: list[int] = rows.tolist()
        causing: list[int] = causes[rows].tolist()
        self._caused = set(caused)
        self._causing: dict[int, list[int]] = {}
        for row, cause in zip(caused, causing, strict=True):
            self._causing.setdefault(cause, []).append(row)

    def of_lane(self, lane: Lane) -> tuple[Slice, ...]:
        return tuple(self._slices(lane))

    def memory(self, ipu: int) -> CounterTrack:
        """Bytes of the fullest tile of an IPU, of programs in detail."""
        points: list[tuple[int, float]] = []
        for on_ipu in self._execution.runs_on(ipu):
            program = on_ipu.run.program
            if not program.detailed or not program.has_tree:
                continue
            memory = program.memory
            always, others = memory.over_time(memory.peak.tile)
            ticks = {step.program.leaf: step.tick for step in memory.liveness if step.program is not None}
            for span in on_ipu.spans():
                if span.leaf is not None and span.leaf.leaf in ticks:
                    tick = ticks[span.leaf.leaf]
                    points.append((self._ns(span.cycles_from), int(always[tick] + others[tick])))
        return CounterTrack(name=f"fullest tile of IPU {ipu}", unit="bytes", points=points)

    def _ns(self, cycle: int) -> int:
        return round(seconds_from_cycles(cycle, self._clock_hz) * _NS)

    def _slices(self, lane: Lane) -> Iterator[Slice]:
        """Each event by itself; those of a run that follow each other on an IPU together."""
        together: list[Event] = []
        for event in self._execution.events_of(lane):
            if lane.kind != "ipu" or event.run < 0:
                yield from self._run(together)
                together = []
                yield self._event(event)
            elif together and together[-1].run != event.run:
                yield from self._run(together)
                together = [event]
            else:
                together.append(event)
        yield from self._run(together)

    def _event(self, event: Event) -> Slice:
        program = self._execution.program_name(event.program) if event.program >= 0 else ""
        return Slice(
            name=f"{event.kind} {program}".rstrip(),
            category=event.kind,
            begin_ns=self._ns(event.cycles_from),
            end_ns=self._ns(event.cycles_to),
            arguments={"cycles": event.cycles, **({"run": event.run} if event.run >= 0 else {})},
            flows_out=tuple(row + 1 for row in self._causing.get(event.index, ())),
            flows_in=(event.index + 1,) if event.index in self._caused else (),
        )

    def _run(self, events: Sequence[Event]) -> Iterator[Slice]:
        if not events:
            return
        run = self._execution.runs[events[0].run]
        first, last = events[0].cycles_from, max(event.cycles_to for event in events)
        own = [self._event(event) for event in events]
        yield Slice(
            name=run.name,
            category="run",
            begin_ns=self._ns(first),
            end_ns=self._ns(last),
            arguments={"run": run.index, "cycles": last - first, **self._labels(run)},
            flows_out=tuple(flow for each in own for flow in each.flows_out),
            flows_in=tuple(flow for each in own for flow in each.flows_in),
        )
        yield from self._inner(run, events, first, last) or (replace(each, flows_out=(), flows_in=()) for each in own)

    def _labels(self, run: Run) -> dict[str, str | int]:
        labels: dict[str, str | int] = {}
        if run.group:
            labels["group"] = run.group
        if run.stage >= 0:
            labels |= {"stage": run.stage, "task": run.task, "microbatch": run.microbatch}
        return labels

    def _inner(self, run: Run, events: Sequence[Event], first: int, last: int) -> tuple[Slice, ...]:
        """The steps of a run, if all its events on this IPU stand together."""
        on_ipu = next((each for each in run.ipus if each.ipu == events[0].lane.number), None)
        if not self._steps or not run.program.has_tree or on_ipu is None or len(on_ipu.events) != len(events):
            return ()
        return tuple(self._span(on_ipu, span) for span in on_ipu.spans() if first <= span.cycles_from and span.cycles_to <= last)

    def _span(self, on_ipu: RunOnIpu, span: Span) -> Slice:
        leaf = span.leaf
        arguments: dict[str, str | int] = {"cycles": span.cycles, "program": on_ipu.run.name}
        if leaf is not None:
            arguments |= {"step": leaf.name, "family": leaf.family, "executions": span.times}
            if leaf.scope:
                arguments["scope"] = leaf.scope
        return Slice(
            name=WAIT if span.kind == WAIT else span.kind if leaf is None else f"{span.kind} {parts_of(leaf.scope)[-1] or leaf.name}",
            category=span.kind,
            begin_ns=self._ns(span.cycles_from),
            end_ns=self._ns(span.cycles_to),
            arguments=arguments,
            line=self._relative(leaf.line) if self._source and leaf is not None and leaf.line is not None else None,
        )


# ---------------------------------------------------------------------------------------------------------------- wall time


def _wall(report: Report, *, source: bool) -> ExportTimeline:
    system = report.system
    groups: list[TrackGroup] = []
    for process in system.processes:
        name = process.name if source else f"process {process.pid}"  # a command may name a path
        threads = ((thread.name or f"thread {thread.tid}", _wall_slices(thread), True) for thread in process.threads)
        groups.append(TrackGroup(number=process.pid, name=f"wall time: {name}", tracks=_rows(threads)))
    counters = tuple(
        CounterTrack(
            name=f"{line.graph}: {line.name}", unit=line.unit, points=list(zip(line.times_ns.tolist(), line.values.tolist(), strict=True))
        )
        for line in system.series
    )
    if counters:
        groups.append(TrackGroup(number=0, name="wall time: series", tracks=(), counters=counters))
    if not groups:
        raise RecordingError(f"{report.where} has nothing in wall time")
    return ExportTimeline(clock="wall", groups=tuple(groups))


def _wall_slices(thread: Thread) -> Iterator[Slice]:
    for event in thread.all_events:
        end = event.start_ns + event.duration_ns
        yield Slice(name=event.label, category=event.channel or "host", begin_ns=event.start_ns, end_ns=end)


# -------------------------------------------------------------------------------------------------------------------- rows


def _rows(tracks: Iterable[tuple[str, Iterable[Slice], bool]]) -> tuple[Track, ...]:
    """Tracks of (name, slices, whether these nest). Slices that overlap, such as transfers that share a link, go to further rows."""
    rows: list[Track] = []
    for name, slices, nests in tracks:
        for number, row in enumerate(_apart(name, slices, nests=nests), 1):
            rows.append(Track(number=len(rows) + 1, name=name if number == 1 else f"{name} ({number})", slices=row))
    return tuple(rows)


def _apart(name: str, slices: Iterable[Slice], *, nests: bool) -> list[list[Slice]]:
    rows: list[tuple[list[Slice], list[int]]] = []  # slices, ends of those that are open
    for each in sorted(slices, key=lambda each: (each.begin_ns, -each.end_ns)):
        row, ends = next((row for row in rows if _has_room(row[1], each, nests=nests)), (list[Slice](), list[int]()))
        if not row:
            if len(rows) == MOST_LANE_ROWS:
                raise RecordingError(f"more than {MOST_LANE_ROWS} things overlap in track '{name}': no viewer can show them")
            rows.append((row, ends))
        row.append(each)
        if each.end_ns > each.begin_ns:
            ends.append(each.end_ns)
    return [row for row, _ in rows]


def _has_room(ends: list[int], each: Slice, *, nests: bool) -> bool:
    """Whether a slice lies behind all slices of a row, or within them.

    Args: ends: of the slices so far; those of slices that have ended are taken away. nests: whether it may lie within them.
    """
    while ends and ends[-1] <= each.begin_ns:
        ends.pop()
    return not ends or (nests and each.end_ns <= ends[-1])
