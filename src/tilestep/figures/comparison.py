"""Two recordings side by side. Emulated cycles repeat exactly, so any difference is one of the programs or of the machine."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tilestep.figures.reader import CompiledProgram, Report
from tilestep.figures.rows import StepRow, relative_lines, step_rows
from tilestep.machine.assemble import describe, value_of
from tilestep.machine.fields import Value


@dataclass(frozen=True, kw_only=True)
class Change:
    """A figure in A and in B; None where it is absent."""

    a: float | None
    b: float | None

    @property
    def relative(self) -> float | None:
        """How much more B is, as a part of A: 0.02 is 2 % more. None if one is absent; infinite if A is 0 and B is not."""
        if self.a is None or self.b is None:
            return None
        if not self.a:
            return float("inf") if self.b else 0.0
        return self.b / self.a - 1

    @property
    def size(self) -> float:
        """How far B is from A, in the figure's unit. An absent figure counts as 0."""
        return abs((self.b or 0) - (self.a or 0))


@dataclass(frozen=True, kw_only=True)
class ProgramChange:
    """One program in both, or in one of them.

    Attributes:
        name: of the program; of B's if they differ.
        label: the name; with its number in A or B, such as 'step #3', if another program of that recording has the same name.
        keys: number of the program in A and in B; None where it is absent.
        matched: by what: 'fingerprint', 'name', or '' if only one recording has it.
        runs: how often it ran.
        cycles: of all runs, on its slowest IPU, with loads.
        cycles_per_run: on its slowest IPU, without loading it.
        load_cycles: of all its loads, there.
        emulated_s: `cycles` as time, each by the clock of its own machine.
        emulated_s_per_run: likewise.
        load_emulated_s: likewise.
        peak_tile_bytes: on the fullest tile.
        flops_per_run: of one IPU.
    """

    name: str
    label: str
    keys: tuple[int | None, int | None]
    matched: str
    runs: Change
    cycles: Change
    cycles_per_run: Change
    load_cycles: Change
    emulated_s: Change
    emulated_s_per_run: Change
    load_emulated_s: Change
    peak_tile_bytes: Change
    flops_per_run: Change

    @property
    def figures(self) -> tuple[tuple[str, Change], ...]:
        """What a run takes, and what differs between programs: each in words."""
        return (
            ("cycles/run", self.cycles_per_run),
            ("runs", self.runs),
            ("cycles of loads", self.load_cycles),
            ("bytes of the fullest tile", self.peak_tile_bytes),
            ("flops/run", self.flops_per_run),
        )

    @property
    def times(self) -> tuple[tuple[str, Change], ...]:
        """What of `figures` is time, in seconds: each in words."""
        return (("time/run", self.emulated_s_per_run), ("time of loads", self.load_emulated_s))

    @property
    def differs(self) -> bool:
        """Whether a figure does."""
        return any(change.a != change.b for _, change in (*self.figures, *self.times))


@dataclass(frozen=True, kw_only=True)
class StepChange:
    """All steps of one line, scope and family of one program.

    Attributes:
        program: label of the program.
        line: 'train.py:41' in B, or in A if B lacks it; '' if unknown.
        scope: the user's operation.
        family: of the operation.
        cycles_per_run: on the slowest IPU.
        emulated_s_per_run: the same as time, each by the clock of its own machine.
        executions_per_run: on the slowest IPU.
    """

    program: str
    line: str
    scope: str
    family: str
    cycles_per_run: Change
    emulated_s_per_run: Change
    executions_per_run: Change


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What differs between two recordings, A and B. Where clocks differ, times and not cycles decide what is slower and what differs most.

    Attributes:
        machines: (field, value in A, value in B) of the machine, where they differ.
        names: of the machines.
        ended_by: what ended the program of each before its own end, such as 'SIGTERM'; '': nothing.
        emulated_cycles: of the whole recordings.
        emulated_s: the same as time, each by the clock of its own machine.
        clock_hz: of the machines.
        programs: those that both have, the largest change of time first; then those of A alone, and those of B alone, the largest first.
        steps: of programs that both have, those that differ, the largest difference first.
    """

    machines: tuple[tuple[str, Value, Value], ...]
    names: tuple[str, str]
    ended_by: tuple[str, str]
    emulated_cycles: Change
    emulated_s: Change
    clock_hz: tuple[float, float]
    programs: tuple[ProgramChange, ...]
    steps: tuple[StepChange, ...]

    @property
    def one_clock(self) -> bool:
        """Whether a cycle of A takes as long as one of B."""
        return self.clock_hz[0] == self.clock_hz[1]

    def slower(self, bound: float) -> tuple[str, ...]:
        """What takes longer by more than a part of itself: 'the whole', or programs."""
        whole = self.emulated_cycles if self.one_clock else self.emulated_s
        runs = ((each, each.cycles_per_run if self.one_clock else each.emulated_s_per_run) for each in self.programs)
        found = ["the whole"] if not any(self.ended_by) and _above(whole, bound) else []
        return (*found, *(f"program '{program.label}'" for program, of_run in runs if _above(of_run, bound)))

    @property
    def both(self) -> tuple[ProgramChange, ...]:
        """The programs that both have."""
        return tuple(program for program in self.programs if program.matched)

    def only(self, side: Literal["A", "B"]) -> tuple[ProgramChange, ...]:
        """The programs that one recording alone has."""
        return tuple(program for program in self.programs if _side(program) == ("both", "A", "B").index(side))


def compare(a: Report, b: Report) -> Comparison:
    """Compares two recordings. Raises: RecordingError if one is damaged, or has no programs."""
    pairs = matched(a.compilation.programs, b.compilation.programs)
    machine_a, machine_b = a.target.machine, b.target.machine
    paths = [entry.path for entry in describe(machine_a)]
    differing = [
        (path, value_of(machine_a, path), value_of(machine_b, path))
        for path in paths
        if path != "simulated_ipus" and value_of(machine_a, path) != value_of(machine_b, path)  # it changes no cycles
    ]
    clocks = (machine_a.ipu.clock_hz, machine_b.ipu.clock_hz)
    one_clock = clocks[0] == clocks[1]
    names = (a.compilation.names, b.compilation.names)
    programs = [_program(one, other, how, label=_label(one, other, names), clocks=clocks) for one, other, how in pairs]
    programs.sort(
        key=lambda each: (_side(each), -(each.cycles if one_clock else each.emulated_s).size, not each.differs, -each.peak_tile_bytes.size)
    )
    relative = (relative_lines(a), relative_lines(b))
    steps = [
        change
        for one, other, _ in pairs
        if one and other
        for change in _steps(
            step_rows(a, [one], relative[0]),
            step_rows(b, [other], relative[1]),
            runs=(one.runs, other.runs),
            label=_label(one, other, names),
            clocks=clocks,
        )
    ]
    steps.sort(key=lambda step: -(step.cycles_per_run if one_clock else step.emulated_s_per_run).size)
    totals = (report.execution.total_cycles.total if "execution" in report.parts else None for report in (a, b))
    whole = Change(a=next(totals), b=next(totals))
    return Comparison(
        machines=tuple(differing),
        names=(machine_a.name, machine_b.name),
        ended_by=(_ended_by(a), _ended_by(b)),
        emulated_cycles=whole,
        emulated_s=_seconds(whole, clocks),
        clock_hz=clocks,
        programs=tuple(programs),
        steps=tuple(steps),
    )


def _ended_by(report: Report) -> str:
    found = report.profile.get("ended_by")
    return found if isinstance(found, str) else ""


Pair = tuple[CompiledProgram | None, CompiledProgram | None, str]


def matched(a: Sequence[CompiledProgram], b: Sequence[CompiledProgram]) -> list[Pair]:
    """(program of A, program of B, matched by what): equal fingerprints first, then equal names in their order, then those of one only."""
    pairs: list[Pair] = []
    left_a, left_b = list(a), list(b)
    ways: tuple[tuple[str, Callable[[CompiledProgram], str]], ...] = (
        ("fingerprint", lambda program: program.fingerprint),
        ("name", lambda program: program.name),
    )
    for how, of in ways:
        others: dict[str, deque[CompiledProgram]] = {}
        for other in left_b:
            others.setdefault(of(other), deque()).append(other)
        found = [(one, others[of(one)].popleft(), how) for one in left_a if of(one) and others.get(of(one))]
        pairs += found
        taken_a, taken_b = {one.row for one, _, _ in found}, {other.row for _, other, _ in found}
        left_a, left_b = [one for one in left_a if one.row not in taken_a], [other for other in left_b if other.row not in taken_b]
    pairs.sort(key=lambda pair: pair[0].row if pair[0] else 0)
    return [*pairs, *((one, None, "") for one in left_a), *((None, other, "") for other in left_b)]


def _side(program: ProgramChange) -> int:
    """0: both have it; 1: A alone; 2: B alone."""
    return 0 if program.matched else 1 if program.keys[1] is None else 2


def _label(a: CompiledProgram | None, b: CompiledProgram | None, names: tuple[Mapping[str, int], Mapping[str, int]]) -> str:
    """The name of a program, with its number where another program of the same recording has that name.

    Args: names: how many programs of A and of B have a name.
    """
    last = b or a
    assert last is not None  # a pair has at least one
    numbered = [f"#{program.key}" for program, of in zip((a, b), names, strict=True) if program and of[program.name] > 1]
    if not numbered:
        return last.name
    keys = [f"#{program.key}" for program in (a, b) if program]
    return f"{last.name} {keys[0]}" if len(set(keys)) == 1 else f"{last.name} {keys[0]} in A, {keys[1]} in B"


def _seconds(cycles: Change, clocks: tuple[float, float]) -> Change:
    """Cycles of A and of B as time."""
    return Change(a=None if cycles.a is None else cycles.a / clocks[0], b=None if cycles.b is None else cycles.b / clocks[1])


def _program(a: CompiledProgram | None, b: CompiledProgram | None, how: str, *, label: str, clocks: tuple[float, float]) -> ProgramChange:
    def change(figure: Callable[[CompiledProgram], float | None]) -> Change:
        return Change(a=figure(a) if a else None, b=figure(b) if b else None)

    last = b or a
    assert last is not None  # a pair has at least one
    cycles = change(lambda each: each.total.cycles)
    cycles_per_run = change(lambda each: (each.total.cycles - each.total.by_kind.get("load", 0)) / each.runs if each.runs else None)
    load_cycles = change(lambda each: each.total.by_kind.get("load", 0))
    return ProgramChange(
        name=last.name,
        label=label,
        keys=(a.key if a else None, b.key if b else None),
        matched=how,
        runs=change(lambda each: each.runs),
        cycles=cycles,
        cycles_per_run=cycles_per_run,
        load_cycles=load_cycles,
        emulated_s=_seconds(cycles, clocks),
        emulated_s_per_run=_seconds(cycles_per_run, clocks),
        load_emulated_s=_seconds(load_cycles, clocks),
        peak_tile_bytes=change(lambda each: each.peak_tile_bytes),
        flops_per_run=change(lambda each: each.planned.flops if each.has_tree else None),
    )


def _steps(
    a: Sequence[StepRow], b: Sequence[StepRow], *, runs: tuple[int, int], label: str, clocks: tuple[float, float]
) -> Iterable[StepChange]:
    """The steps of a program that differ. Lines move when code is added above them, so scopes and families are matched before lines."""
    for row_a, row_b in _matched_steps(a, b):
        cycles = Change(a=row_a.cycles / runs[0] if row_a else None, b=row_b.cycles / runs[1] if row_b else None)
        executions = Change(a=row_a.executions / runs[0] if row_a else None, b=row_b.executions / runs[1] if row_b else None)
        seconds = _seconds(cycles, clocks)
        last = row_b or row_a
        if last is not None and (cycles.a != cycles.b or seconds.a != seconds.b or executions.a != executions.b):
            yield StepChange(
                program=label,
                line=last.line,
                scope=last.scope,
                family=last.family,
                cycles_per_run=cycles,
                emulated_s_per_run=seconds,
                executions_per_run=executions,
            )


def _matched_steps(a: Sequence[StepRow], b: Sequence[StepRow]) -> list[tuple[StepRow | None, StepRow | None]]:
    """Rows of equal line, scope and family; of the others those of equal scope and family; the rest alone."""
    pairs: list[tuple[StepRow | None, StepRow | None]] = []
    left_a, left_b = list(a), list(b)
    keys: tuple[Callable[[StepRow], object], ...] = (
        lambda row: (row.line, row.scope, row.family),
        lambda row: (row.scope, row.family) if row.scope else (row.line, row.family) if row.line else None,
    )
    for key in keys:
        of_b: dict[object, list[StepRow]] = {}
        for row in left_b:
            of_b.setdefault(key(row), []).append(row)
        rest: list[StepRow] = []
        for row in left_a:
            found = of_b.get(key(row)) if key(row) is not None else None
            if found:
                pairs.append((row, found.pop(0)))
            else:
                rest.append(row)
        left_a, left_b = rest, [row for rows in of_b.values() for row in rows]
    return [*pairs, *((row, None) for row in left_a), *((None, row) for row in left_b)]


def _above(change: Change, bound: float) -> bool:
    return change.relative is not None and change.relative > bound
