"""Runs of programs: what each of their IPUs did, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, final

from tilestep.figures.reader.grouped import Grouped
from tilestep.figures.reader.programs.compilation import CompiledProgram
from tilestep.figures.reader.programs.nodes import ProgramLeaf, ProgramNode, ProgramSequence, StreamCopy
from tilestep.figures.reader.runs.events import Event, Events
from tilestep.figures.reader.runs.layout import Laid, executions, summed
from tilestep.figures.reader.runs.spans import WAIT, Lay, Span, spans_of_run
from tilestep.plan.steps import Counts
from tilestep.recording.tables import Tables
from tilestep.sim.cycles.body import Site

BEFORE = ("save", "load", "stream-in", "io-in")  # kinds of steps in front of those of the program


@dataclass(frozen=True, kw_only=True)
class StepOnIpu:
    """One step on one IPU.

    Attributes:
        ipu: index of the IPU.
        cycles: of all its executions; 0 where it did not run.
    """

    ipu: int
    cycles: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """A part of a run: a leaf of its program with all its executions, or a transfer around them.

    Attributes:
        run: that it is a part of.
        program: the leaf; a StreamCopy for loading, arguments, results and waits for links.
        executions: how often the leaf ran on the IPU that ran it most often.
        ipus: every IPU of the machine up to the last that ever ran something, by index.
    """

    run: Run
    program: ProgramNode
    executions: int
    ipus: tuple[StepOnIpu, ...]

    @property
    def name(self) -> str:
        """Of the superstep, or the kind of the transfer."""
        return self.program.name


@final
class RunOnIpu:
    """One run on one IPU.

    Attributes:
        ipu: index of the IPU.
        position: of the IPU among those of the program.
        events: in order of time.
    """

    def __init__(self, run: Run, ipu: int, position: int, events: tuple[Event, ...]) -> None:
        self.run, self.ipu, self.position, self.events = run, ipu, position, events

    @property
    def cycles_from(self) -> int:
        """First cycle."""
        return self.events[0].cycles_from

    @property
    def cycles_to(self) -> int:
        """The cycle behind the last."""
        return max(event.cycles_to for event in self.events)

    @property
    def cycles(self) -> int:
        """From the first to the last, waits included."""
        return self.cycles_to - self.cycles_from

    @cached_property
    def trips(self) -> Mapping[Site, int]:
        """How often the run took its data-dependent loops and branches here: (site, arm) -> times."""
        return self.run.trips_at(self.position)

    @property
    def tree(self) -> ProgramSequence:
        """The program's, with the cycles of each leaf on the IPUs of this run."""
        return self.run.tree

    def spans(self, *, unrolled: bool = False) -> Iterator[Span]:
        """What the IPU did, without a gap: transfers, compute, exchange and sync of each leaf, and waits. They add up to `cycles`.

        Args: unrolled: whether each execution of a loop's leaf has spans of its own; else all executions of a leaf stand together.
        Raises: RecordingError if the tree was not kept or is damaged, or has too many executions to unroll.
        """
        if unrolled:
            return self.spans_of(partial(_unrolled, self.tree, self.trips))
        return self.spans_of(partial(_together, self.tree, self.trips))

    def spans_of(self, lay: Lay) -> Iterator[Span]:
        """The spans for leaves that the caller lays."""
        cost = self.run.program.cost(self.run.ipu_numbers)
        counts = Counts(times={site: self.trips.get(site, 0) for site in cost.counted})
        return spans_of_run(self.events, lay, cost.cycles(counts))


def _unrolled(tree: ProgramSequence, trips: Mapping[Site, int], cycles: Callable[[ProgramLeaf], int]) -> Iterator[Laid]:
    return executions(tree, trips, cycles=cycles)


def _together(tree: ProgramSequence, trips: Mapping[Site, int], cycles: Callable[[ProgramLeaf], int]) -> Iterator[Laid]:
    return summed(tree, trips, cycles=cycles)


class RunRow(NamedTuple):
    """A row of table `runs` with its number, texts in place of their numbers."""

    number: int
    host_cycle: int
    entry: int
    stage: int
    microbatch: int
    group: str
    task: str


@final
class Run:
    """One dispatch of a program.

    Attributes:
        index: its number, in order of dispatch.
        program: that ran.
        host_cycle: at which the host had dispatched it.
        group: program group around the dispatch; ''.
        entry: number of the entry into the group; 0: none.
        stage: of the pipeline; -1: none.
        task: kind of the pipeline's task, or the name that the program gave this run; ''.
        microbatch: of the pipeline; -1: none.
    """

    def __init__(self, tables: Tables, events: Events, trips: Grouped, program: CompiledProgram, *, num_ipus: int, row: RunRow) -> None:
        self._tables, self._events, self._trips, self._num_ipus = tables, events, trips, num_ipus
        self.program = program
        self.index, self.host_cycle, self.entry, self.stage, self.microbatch, self.group, self.task = row

    def __repr__(self) -> str:
        return f"<run {self.index} of {self.program!r}>"

    @property
    def name(self) -> str:
        """That the program gave this run; else its program's."""
        return self.task if self.task and self.stage < 0 else self.program.name

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """On all lanes, in order of time. Empty for a run whose events were not kept."""
        return tuple(self._events.select(self._events.of_run(self.index)))

    @property
    def in_detail(self) -> bool:
        """Whether its events were kept; only those of the first and of the last runs of a program, and of a pipeline's last update, may
        have been."""
        return bool(self.ipus)

    @cached_property
    def ipus(self) -> tuple[RunOnIpu, ...]:
        """What each of its IPUs did, in the order in which they take part."""
        by_ipu: dict[int, list[Event]] = {}
        for event in sorted(self.events, key=lambda event: (event.kind != "compute", event.index)):
            if event.lane.kind == "ipu":
                by_ipu.setdefault(event.lane.number, []).append(event)
        return tuple(
            RunOnIpu(self, ipu, position, tuple(sorted(events, key=lambda event: (event.cycles_from, event.index))))
            for position, (ipu, events) in enumerate(by_ipu.items())
        )

    @property
    def ipu_numbers(self) -> tuple[int, ...] | None:
        """The IPUs that ran it; None: unknown, so that those of all its runs are assumed."""
        numbers = tuple(of_ipu.ipu for of_ipu in self.ipus)
        return numbers if len(numbers) == self.program.planned.num_ipus else None

    @cached_property
    def tree(self) -> ProgramSequence:
        """The program's, with the cycles of each leaf on the IPUs of this run."""
        return self.program.tree_on(self.ipu_numbers)

    @property
    def cycles_from(self) -> int:
        """First cycle on any IPU; that of the dispatch if its events were not kept."""
        return min((of_ipu.cycles_from for of_ipu in self.ipus), default=self.host_cycle)

    @property
    def cycles_to(self) -> int:
        """The cycle behind the last on any IPU."""
        return max((of_ipu.cycles_to for of_ipu in self.ipus), default=self.host_cycle)

    @property
    def cycles(self) -> int:
        """From the first to the last."""
        return self.cycles_to - self.cycles_from

    def trips_at(self, position: int) -> Mapping[Site, int]:
        """How often the run took its data-dependent loops and branches: (site, arm) -> times.

        Args: position: of the IPU among those of the program.
        """
        return trips_at(self._tables, self._trips, self.index, position)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Its parts in order: transfers before, the leaves of its program, transfers after. On each IPU they add up to its busy cycles.

        Raises: RecordingError if the tree was not kept, or is damaged.
        """
        spent: dict[tuple[int, int, str], dict[int, int]] = {}
        nodes: dict[tuple[int, int, str], tuple[ProgramNode, int]] = {}
        for of_ipu in self.ipus:
            for span in of_ipu.spans():
                if span.kind == WAIT:
                    continue
                leaf = span.leaf
                key = (1, leaf.leaf, "") if leaf is not None else (0 if span.kind in BEFORE else 2, 0, span.kind)
                of_step = spent.setdefault(key, {})
                of_step[of_ipu.ipu] = of_step.get(of_ipu.ipu, 0) + span.cycles
                node, most = nodes.get(key, (leaf or StreamCopy(name=span.kind), 0))
                nodes[key] = node, max(most, span.times)
        return tuple(
            Step(
                run=self,
                program=nodes[key][0],
                executions=nodes[key][1],
                ipus=tuple(StepOnIpu(ipu=ipu, cycles=spent[key].get(ipu, 0)) for ipu in range(self._num_ipus)),
            )
            for key in sorted(spent)
        )


def trips_at(tables: Tables, grouped: Grouped, run: int, position: int) -> Mapping[Site, int]:
    """How often a run took its data-dependent loops and branches on the IPU at a position of its program: (site, arm) -> times."""
    rows = grouped.rows("trips", "run", run)
    rows = rows[tables.column("trips", "position")[rows] == position]
    sites, arms, times = (tables.column("trips", name)[rows].tolist() for name in ("site", "arm", "times"))
    return {(site, arm): max(0, count) for site, arm, count in zip(sites, arms, times, strict=True)}
