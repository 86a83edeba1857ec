"""What ran: runs, their steps and blocks, the events of all lanes, and what decided the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, final

from tilestep.errors import RecordingError
from tilestep.figures.reader.grouped import Grouped
from tilestep.figures.reader.lazy_sequence import LazySequence
from tilestep.figures.reader.programs.compilation import Compilation
from tilestep.figures.reader.runs.blocks import BLOCK_PROGRAMS, BLOCKS, Block, blocks_of, matching
from tilestep.figures.reader.runs.causes import CriticalPath, Unkept, Wait, critical_path, gaps_of
from tilestep.figures.reader.runs.events import Event, Events, Lane
from tilestep.figures.reader.runs.gaps import Unrecorded
from tilestep.figures.reader.runs.run import Run, RunOnIpu, RunRow, Step
from tilestep.figures.reader.sums import MOST_SUM, busiest_of, cycles_by_ipu
from tilestep.recording.tables import Tables, json_text


@dataclass(frozen=True, kw_only=True)
class TotalCycles:
    """The time of the whole recording.

    Attributes:
        total: from its begin to its end, also of runs whose events were not kept.
        by_kind: of the busiest IPU: kind of event -> cycles.
        busiest_ipu: index of that IPU.
    """

    total: int
    by_kind: Mapping[str, int]
    busiest_ipu: int


@final
class Execution:
    """Runs and events of a recording.

    Attributes:
        tables: of the recording.
        compilation: what ran.
        events: as columns, and one by one.
    """

    def __init__(self, tables: Tables, compilation: Compilation) -> None:
        self.tables, self.compilation, self.events = tables, compilation, Events(tables)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Everything that does one thing after the other."""
        return self.events.lanes

    def lane(self, kind: str, number: int = 0, target: int = -1) -> Lane:
        """One lane. Raises: RecordingError if there is none."""
        found = next((lane for lane in self.lanes if (lane.kind, lane.number, lane.target) == (kind, number, target)), None)
        if found is None:
            raise RecordingError(f"the recording has no lane '{kind}' {number}: it has {', '.join(lane.name for lane in self.lanes[:8])}")
        return found

    def events_of(self, lane: Lane) -> Sequence[Event]:
        """The events of a lane, in order of time."""
        rows = self.events.of_lane(lane)
        return LazySequence(len(rows), lambda index: self.events.event(int(rows[index])))

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """In order of dispatch."""
        programs: list[int] = self.tables.column("runs", "program").tolist()
        if programs and min(programs) < 0:
            raise RecordingError("column 'runs/program' has -1: every run is of a program")
        known, strings, num_ipus = self.compilation.programs, self.compilation.strings, self.num_ipus_used
        numbers = (self.tables.column("runs", name).tolist() for name in ("host_cycle", "entry", "stage", "microbatch"))
        texts = (map(strings.__getitem__, self.tables.column("runs", name).tolist()) for name in ("group", "task"))
        rows = map(RunRow, range(len(programs)), *numbers, *texts)
        trips = Grouped(self.tables)
        return tuple(
            Run(self.tables, self.events, trips, known[program], num_ipus=num_ipus, row=row)
            for program, row in zip(programs, rows, strict=True)
        )

    @property
    def steps(self) -> Iterator[Step]:
        """The steps of all runs in detail, in order of dispatch. Raises: RecordingError as `Run.steps` does."""
        return (step for run in self.runs if run.in_detail for step in run.steps)

    @cached_property
    def num_ipus_used(self) -> int:
        """IPUs up to the last that did anything."""
        return max((lane.number + 1 for lane in self.lanes if lane.kind == "ipu" and len(self.events.of_lane(lane))), default=1)

    @cached_property
    def total_cycles(self) -> TotalCycles:
        """The time of the whole recording."""
        busiest = busiest_of(cycles_by_ipu(self.tables, slice(None)))
        return TotalCycles(total=self._total(), by_kind=busiest.by_kind, busiest_ipu=busiest.ipu)

    def blocks(self, ipu: int = 0, *, pattern: str | None = None, programs: str | None = None) -> Iterator[Block]:
        """The named scopes (`jax.named_scope`) that ran on an IPU, each time by itself, in order of time, outer ones first.

        Args:
            ipu: index of the IPU.
            pattern: regular expression; only scopes count with a match in their name. None: those that profiler.blocks.filter has chosen,
                all if it was not set.
            programs: likewise for programs, whose runs count as blocks around their scopes. None: those that profiler.programs.filter has
                chosen, none if it was not set.
        Raises: RecordingError for a bad expression, for more blocks than MOST_BLOCKS, or as `RunOnIpu.spans` does.
        """
        return blocks_of(
            self.runs_on(ipu),
            wanted=self._chosen(BLOCKS, True) if pattern is None else matching(pattern),
            wanted_programs=self._chosen(BLOCK_PROGRAMS, False) if programs is None else matching(programs),
        )

    def _chosen(self, note: str, otherwise: bool) -> Callable[[str], bool]:
        """Whether a name is in a note of the manifest. The expression itself is not tried on what a file says: that may take for ever."""
        names: object = self.tables.manifest.get(note)
        if not isinstance(names, list):
            return lambda _: otherwise
        chosen = {name for name in cast("list[object]", names) if isinstance(name, str)}
        return chosen.__contains__

    def runs_on(self, ipu: int) -> Iterator[RunOnIpu]:
        """What one IPU did in each run in detail, in order of dispatch."""
        return (of_ipu for run in self.runs for of_ipu in run.ipus if of_ipu.ipu == ipu)

    def critical_path(self) -> CriticalPath:
        """What decided the end, back to the begin, as far as events were kept. That of `Report.in_full` is of all runs, as on the page.

        Raises: RecordingError if there are no events, or their causes go in a circle.
        """
        return critical_path(self.events)

    def waits(self, lane: Lane) -> Iterator[Wait]:
        """The gaps of a lane, each with what the lane waited for; without those of `unkept`."""
        return (gap for gap in self._gaps(lane) if isinstance(gap, Wait))

    def unkept(self, lane: Lane) -> Iterator[Unkept]:
        """The gaps of a lane in which runs took place whose events were not kept: it may have worked there. `Report.in_full` has them."""
        return (gap for gap in self._gaps(lane) if isinstance(gap, Unkept))

    @cached_property
    def unrecorded(self) -> Unrecorded:
        """Which gaps may lack events."""
        return Unrecorded(self.tables, self.events)

    def _gaps(self, lane: Lane) -> Iterator[Wait | Unkept]:
        return gaps_of(self.events, self.unrecorded, lane, self.program_name)

    @property
    def program_name(self) -> Callable[[int], str]:
        """Row of a program -> its name."""
        programs = self.compilation.programs
        return lambda row: programs[row].name

    def _total(self) -> int:
        profile: Any = json_text(self.tables, "profile")
        if isinstance(profile, dict):
            cycles: Any = cast("dict[str, Any]", profile).get("emulated_cycles")
            if type(cycles) is int and 0 <= cycles <= MOST_SUM:
                return cycles
        if not len(self.events):
            return 0
        return int(self.events.column("end").max()) - int(self.events.column("start").min())
