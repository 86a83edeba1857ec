"""What runs did inside: the spans of `RunOnIpu.spans`, which stand once for all runs that are equal, counted from where they begin.

A run on an IPU has up to three events that its leaves share: its own work (compute, exchange and sync, one behind the other), its exchanges
with other IPUs, and its host calls. Each is a piece. Pieces of one program are equal if they are on the same IPUs, take their loops equally
often, and have events of the same lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.figures.reader.grouped import Grouped
from tilestep.figures.reader.programs.nodes import ProgramLeaf, ProgramSequence
from tilestep.figures.reader.runs.layout import Laid, executions, summed
from tilestep.figures.reader.runs.run import trips_at
from tilestep.figures.reader.runs.spans import BODY, Span, spans_of_run
from tilestep.plan.steps import Counts
from tilestep.recording.schema import EVENT_KINDS
from tilestep.sim.cycles.body import BodyCost
from tilestep.views.page.sections.execution.rows import EventRows, Numbers

MOST_LAYOUTS: Final = 1_000
MOST_SPANS: Final = 200_000  # all layouts together
MOST_UNROLLED: Final = 10_000  # executions of leaves in one run that stand one by one; of more, those of a leaf stand together
_NEVER: Final = np.iinfo(np.int64).max
_COLLECTIVE, _HOST_CALL = EVENT_KINDS.index("collective"), EVENT_KINDS.index("host-call")
_COMPUTE: Final = EVENT_KINDS.index("compute")


@dataclass(frozen=True, kw_only=True)
class Inside:
    """Layouts of pieces.

    Attributes:
        layout: of each event that begins a piece, its layout; -1: of others.
        programs: of each layout, row of its program.
        unrolled: of each layout, whether each execution of a leaf stands by itself.
        columns: layout_begin (first span of each layout, and the number of spans), span_kind, span_cycles, span_leaf (index into `leaves`;
            -1: of none), span_times. The spans of a layout follow each other without a gap.
        leaves: (row of the program, leaf).
        left_out: pieces whose layout is beyond the bounds.
    """

    layout: Numbers
    programs: Sequence[int] = ()
    unrolled: Sequence[bool] = ()
    columns: dict[str, Numbers] = field(default_factory=dict[str, Numbers])
    leaves: Sequence[tuple[int, ProgramLeaf]] = ()
    left_out: int = 0


def inside(report: Report, rows: EventRows) -> Inside:
    """The layouts of all runs whose program's tree was kept, those of the most pieces first, within bounds."""
    pieces = _Pieces(report, rows)
    layout = np.full(len(rows), -1, np.int64)
    order = np.lexsort(pieces.keys[::-1])
    if not order.size:
        return Inside(layout=layout, columns={"layout_begin": np.zeros(1, np.int64)})
    change = np.any([np.diff(key[order]) != 0 for key in pieces.keys], axis=0)
    first = np.flatnonzero(np.r_[True, change])
    counts = np.diff(first, append=len(order))
    by_use = np.lexsort((order[first], -counts))
    writer = _Writer(report)
    number = np.full(len(first), -1, np.int64)
    for group in by_use[:MOST_LAYOUTS].tolist():
        piece = int(order[first[group]])
        number[group] = writer.add(pieces.on_ipu(piece), int(pieces.begin[piece]), int(pieces.length[piece]))
    layout[pieces.row[order]] = np.repeat(number, counts)
    return Inside(
        layout=layout,
        programs=writer.programs,
        unrolled=writer.unrolled,
        columns=writer.columns(),
        leaves=list(writer.leaves.values()),
        left_out=int(counts[number < 0].sum()),
    )


class _Pieces:
    """The pieces of all runs on all IPUs, as columns.

    Attributes:
        row, begin, length: of each.
        keys: columns; equal in all of them: equal inside.
    """

    def __init__(self, report: Report, rows: EventRows) -> None:
        self._report = report
        is_ipu = np.array([lane.kind == "ipu" for lane in rows.lanes], np.bool_)
        numbers = np.array([lane.number for lane in rows.lanes], np.int64)
        mine = np.flatnonzero(is_ipu[rows.lane] & (rows.run >= 0))
        mine = mine[np.lexsort((rows.original[mine], rows.start[mine], numbers[rows.lane[mine]], rows.run[mine]))]
        self._kind, self._start, self._end = rows.kind[mine], rows.start[mine], rows.end[mine]
        self._original = rows.original[mine]
        run, ipu = rows.run[mine], numbers[rows.lane[mine]]
        new = np.r_[True, (np.diff(run) != 0) | (np.diff(ipu) != 0)][: len(mine)]
        self._first = np.flatnonzero(new)
        self._group = np.cumsum(new) - 1
        self._of_run, self._of_ipu = run[self._first], ipu[self._first]
        none = np.zeros(0, np.int64)
        parts = (self._bodies(), *self._shared()) if len(mine) else ((none, none, none, none.reshape(0, len(BODY))),)
        groups, at, what, lengths = (np.concatenate([part[place] for part in parts]) for place in range(4))
        identities = self._identities(self._original)
        usable = identities[0][groups] >= 0
        groups, at, what, lengths = groups[usable], at[usable], what[usable], lengths[usable]
        self.row, self.begin, self._of_piece = mine[at], self._start[at], groups
        self.length: Numbers = lengths.sum(axis=1)
        self.keys = [*(identity[groups] for identity in identities), what, *lengths.T]

    def on_ipu(self, piece: int) -> _OnIpu:
        """The run and the IPU that a piece is of."""
        group = int(self._of_piece[piece])
        run = int(self._of_run[group])
        behind = self._first[group + 1] if group + 1 < len(self._first) else len(self._original)
        begin, end = np.searchsorted(self._runs_in_order, (run, run + 1))
        ipus: tuple[int, ...] = tuple(self._ipus_in_order[begin:end].tolist())
        return _OnIpu(run, int(self._position[group]), ipus, tuple(self._original[self._first[group] : behind].tolist()))

    def _bodies(self) -> tuple[Numbers, Numbers, Numbers, NDArray[np.int64]]:
        """(group, index of its first event, what: 0, lengths of compute, exchange, sync) of each run's own work, as spans_of_run has it."""
        ranks = np.full(len(EVENT_KINDS), -1, np.int64)
        ranks[[EVENT_KINDS.index(kind) for kind in BODY]] = np.arange(len(BODY))
        rank, index = ranks[self._kind], np.arange(len(self._kind))
        first = np.minimum.reduceat(np.where(rank >= 0, index, _NEVER), self._first)
        self._body = first
        groups = np.flatnonzero(first != _NEVER)
        last = first = first[groups]
        lengths = np.zeros((len(groups), len(BODY)), np.int64)
        lengths[np.arange(len(groups)), rank[first]] = self._end[first] - self._start[first]
        follows = np.ones(len(groups), np.bool_)
        for _ in BODY[1:]:
            after = np.minimum(last + 1, len(index) - 1)
            follows &= (last + 1 < len(index)) & (self._group[after] == groups)
            follows &= (rank[after] > rank[last]) & (self._start[after] == self._end[last])
            lengths[follows, rank[after[follows]]] = (self._end - self._start)[after[follows]]
            last = np.where(follows, after, last)
        return groups, first, np.zeros(len(groups), np.int64), lengths

    def _shared(self) -> tuple[tuple[Numbers, Numbers, Numbers, NDArray[np.int64]], ...]:
        """The same of exchanges with other IPUs, behind the run's own work, and of host calls."""
        index = np.arange(len(self._kind))
        found: list[tuple[Numbers, Numbers, Numbers, NDArray[np.int64]]] = []
        for what, wanted in (
            (1, (self._kind == _COLLECTIVE) & (index > self._body[self._group])),
            (2, self._kind == _HOST_CALL),
        ):
            at = np.minimum.reduceat(np.where(wanted, index, _NEVER), self._first)
            groups = np.flatnonzero(at != _NEVER)
            at = at[groups]
            lengths = np.zeros((len(groups), len(BODY)), np.int64)
            lengths[:, 0] = self._end[at] - self._start[at]
            found.append((groups, at, np.full(len(groups), what), lengths))
        return tuple(found)

    def _identities(self, original: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Of each group: its program (-1: its events overlap, or the tree was not kept), number of its IPUs, number of its counts."""
        programs = self._report.compilation.programs
        has_tree = np.array([program.has_tree for program in programs], np.bool_)
        of_runs = self._report.tables.column("runs", "program").astype(np.int64)
        program = of_runs[self._of_run]
        program = np.where((program >= 0) & has_tree[program], program, -1) if len(program) else program
        overlap = (np.diff(self._group) == 0) & (self._start[1:] < self._end[:-1])
        program[self._group[1:][overlap]] = -1
        # IPUs take part in the order in which they began to compute; those that did not compute come last (as Run.ipus has them).
        computes = np.where(self._kind == _COMPUTE, original, _NEVER)
        first_compute = np.minimum.reduceat(computes, self._first) if len(computes) else computes
        first_event = np.minimum.reduceat(original, self._first) if len(original) else original
        lone = first_compute == _NEVER
        order = np.lexsort((np.where(lone, first_event, first_compute), lone, self._of_run))
        begins = np.flatnonzero(np.r_[True, np.diff(self._of_run[order]) != 0][: len(order)])
        sizes = np.diff(begins, append=len(order))
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order)) - np.repeat(begins, sizes)
        self._position, self._runs_in_order = position, self._of_run[order]
        self._ipus_in_order = ipus = self._of_ipu[order]
        known: dict[bytes, int] = {}
        sets = [known.setdefault(ipus[begin : begin + size].tobytes(), len(known)) for begin, size in zip(begins, sizes, strict=True)]
        ipu_set = np.empty(len(order), np.int64)
        ipu_set[order] = np.repeat(np.asarray(sets, np.int64), sizes)
        return program, ipu_set, self._counts(position)

    def _counts(self, position: Numbers) -> Numbers:
        """A number for how often a group took its data-dependent loops and branches; 0: it has none."""
        tables = self._report.tables
        found = np.zeros(len(position), np.int64)
        if not tables.rows("trips") or not len(position):
            return found
        run, place, *rest = (tables.column("trips", name).astype(np.int64) for name in ("run", "position", "site", "arm", "times"))
        order = np.lexsort((rest[1], rest[0], place, run))
        run, place = run[order], place[order]
        rest = np.stack(rest, axis=1)[order]
        begins = np.flatnonzero(np.r_[True, (np.diff(run) != 0) | (np.diff(place) != 0)])
        ends = np.append(begins[1:], len(run))
        known: dict[bytes, int] = {}
        numbers = {
            (int(run[begin]), int(place[begin])): known.setdefault(rest[begin:end].tobytes(), len(known) + 1)
            for begin, end in zip(begins, ends, strict=True)
        }
        return np.array([numbers.get(key, 0) for key in zip(self._of_run.tolist(), position.tolist(), strict=True)], np.int64)


class _OnIpu(NamedTuple):
    """A run on the IPU at `position` of the run's `ipus`, which are in the order in which they take part."""

    run: int
    position: int
    ipus: tuple[int, ...]
    events: tuple[int, ...]  # rows of table events, in order of time


class _Writer:
    """Layouts, one behind the other."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._programs: list[int] = report.tables.column("runs", "program").tolist()
        self._priced: dict[tuple[int, tuple[int, ...] | None], tuple[BodyCost, ProgramSequence]] = {}
        self._trips = Grouped(report.tables)
        self._spans: dict[tuple[int, ...], tuple[list[Span], bool]] = {}
        self._begins, self._rows = [0], list[tuple[int, int, int, int]]()
        self.programs: list[int] = []
        self.unrolled: list[bool] = []
        self.leaves: dict[tuple[int, int], tuple[int, ProgramLeaf]] = {}
        self._leaf_numbers: dict[tuple[int, int], int] = {}

    def add(self, on_ipu: _OnIpu, begin: int, length: int) -> int:
        """The number of the layout of a piece; -1 if there is no room for it."""
        spans, unrolled = self._spans_of(on_ipu)
        spans = [span for span in spans if begin <= span.cycles_from and span.cycles_to <= begin + length]
        if not spans or len(self._rows) + len(spans) > MOST_SPANS:
            return -1
        program = self._programs[on_ipu.run]
        for span in spans:
            leaf = -1
            if span.leaf is not None:
                leaf = self._leaf_numbers.setdefault((program, span.leaf.leaf), len(self._leaf_numbers))
                self.leaves.setdefault((program, span.leaf.leaf), (program, span.leaf))
            self._rows.append((EVENT_KINDS.index(span.kind), span.cycles, leaf, span.times))
        self._begins.append(len(self._rows))
        self.programs.append(program)
        self.unrolled.append(unrolled)
        return len(self.programs) - 1

    def columns(self) -> dict[str, Numbers]:
        spans = np.asarray(self._rows, np.int64).reshape(-1, 4)
        names = ("span_kind", "span_cycles", "span_leaf", "span_times")
        return {"layout_begin": np.asarray(self._begins, np.int64), **{name: spans[:, place] for place, name in enumerate(names)}}

    def _spans_of(self, on_ipu: _OnIpu) -> tuple[list[Span], bool]:
        """(spans as `RunOnIpu.spans` has them, whether they are unrolled). Only a few events become objects, not all of the run."""
        if on_ipu.events not in self._spans:
            report = self._report
            program = report.compilation.programs[self._programs[on_ipu.run]]
            ipus = on_ipu.ipus if len(on_ipu.ipus) == program.planned.num_ipus else None
            if (program.row, ipus) not in self._priced:
                self._priced[program.row, ipus] = program.cost(ipus), program.tree_on(ipus)
            cost, tree = self._priced[program.row, ipus]
            trips = trips_at(report.tables, self._trips, on_ipu.run, on_ipu.position)
            expected = cost.cycles(Counts(times={site: trips.get(site, 0) for site in cost.counted}))
            events = [report.execution.events.event(row) for row in on_ipu.events]

            def unrolled(cycles: Callable[[ProgramLeaf], int]) -> Iterator[Laid]:
                return executions(tree, trips, cycles=cycles, most=MOST_UNROLLED)

            try:
                found = list(spans_of_run(events, unrolled, expected)), True
            except RecordingError:  # more executions
                found = list(spans_of_run(events, lambda cycles: summed(tree, trips, cycles=cycles), expected)), False
            self._spans[on_ipu.events] = found
        return self._spans[on_ipu.events]
