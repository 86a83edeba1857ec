"""What if the machine were another: a recording's journal played again with knobs turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Final

from tilestep.errors import RecordingError, SpecError, TilestepError
from tilestep.machine.assemble import value_of
from tilestep.machine.fields import QUANTITIES, SYNC_PATTERNS
from tilestep.machine.spec import MachineSpec
from tilestep.messages import nearest, plain, shown
from tilestep.options import PlanOptions
from tilestep.plan.steps import Program, Superstep
from tilestep.record.edits.programs import scaled
from tilestep.record.history import History
from tilestep.record.program import without_lines
from tilestep.record.replay import replay_of_file
from tilestep.record.sources import Source, planned_again
from tilestep.report.advice.evidence import Evidence, begin_of
from tilestep.report.advice.lines import leaves
from tilestep.report.knobs import FAMILY, KNOBS, TURNED, Setting, family_knob, turned
from tilestep.report.quantities import share_text, time_text
from tilestep.sim.calls import Dispatch

_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNKNOWN: Final[Mapping[int, PlanOptions]] = MappingProxyType({})
_MATTERS: Final = 0.01  # of emulated time: a knob that saves less is not named
_AS_MUCH: Final = 0.5  # of what the best one saves: others that save as much are named beside it
_MOST_NAMED: Final = 3
_COVERED: Final = 0.9  # of emulated time: runs that stand for less say so
_MOST_FAMILIES: Final = 8  # of supersteps, those that take most


@dataclass(frozen=True, kw_only=True)
class Turned:
    """One knob and what it decides.

    Attributes:
        knob: its name.
        now: the value of its first field, in words; '' for a family of supersteps.
        changes: for each setting of it that a machine may have, what the recording's emulated time does: 0.1 is a tenth longer.
    """

    knob: str
    now: str
    changes: Mapping[str, float]

    @property
    def effect(self) -> float:
        """The largest change."""
        return max((abs(change) for change in self.changes.values()), default=0.0)

    @property
    def title(self) -> str:
        """Its name in plain words."""
        return KNOBS[self.knob].title if self.knob in KNOBS else family_knob(self.knob.removeprefix(FAMILY)).title

    @property
    def best(self) -> tuple[str, float]:
        """The setting that saves most, and what it saves: 0.1 is a tenth; ('', 0.0) if none saves anything."""
        setting, change = min(self.changes.items(), key=lambda each: each[1], default=("", 0.0))
        return (setting, -change) if change < 0 else ("", 0.0)


def answer(rows: Sequence[Turned], basis: str = "") -> str:
    """Which knob matters, in a sentence: 'Twice the bandwidth of a host link would save 31 %; nothing else saves more than 4.1 %.'

    Args: rows: of `table`. basis: of it.
    """
    found = sorted((row for row in rows if row.best[1] > 0), key=lambda row: -row.best[1])
    of = f" ({basis})" if basis else ""
    if not found or found[0].best[1] < _MATTERS:
        most = f" more than {share_text(found[0].best[1], 1)}" if found else ""
        return f"No knob saves{most or ' anything'} when it is halved or doubled{of}."
    named = [row for row in found if row.best[1] >= _AS_MUCH * found[0].best[1]][:_MOST_NAMED]
    told = [f"{_turn(row)}{' would save' if row is named[0] else ''} {share_text(row.best[1], 1)}" for row in named]
    text = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
    rest = found[len(named) :]
    where = "in these runs " if basis else ""
    other = f"{where}nothing else saves more than {share_text(rest[0].best[1], 1)}" if rest else f"{where}nothing else saves anything"
    return f"{text[0].upper()}{text[1:]}{of}; {other}."


def _turn(row: Turned) -> str:
    """'twice the bandwidth of a host link'."""
    setting = row.best[0]
    word = {"x2": "twice", "/2": "half"}.get(setting)
    return f"{row.title} '{setting}'" if word is None else f"{word} {row.title}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A recording with settings.

    Attributes:
        settings: as they were given.
        cycles: that the recording takes.
        turned_cycles: that it takes with all settings.
        planned_again: names of programs that were planned again.
    """

    settings: tuple[str, ...]
    cycles: int
    turned_cycles: int
    planned_again: tuple[str, ...]


def outcome(
    history: History, hlo: Mapping[int, str], settings: Sequence[Setting], *, options: Mapping[int, PlanOptions] = _UNKNOWN
) -> Outcome:
    """Plays all of a history with settings.

    Args:
        history: of a recording, from anybody.
        hlo: of its programs, by key, as far as it was kept.
        settings: all together.
        options: of its programs' plans, by key, as far as they were kept; the usual ones are tried for others.

    Raises:
        RecordingError: if the journal cannot be played, or a setting changes plans and a program's HLO was not kept or cannot be planned.
        SpecError: for a value outside of its bounds, or a family of which no superstep is.
    """
    machine, programs = history.machine, dict(history.programs)
    for setting in settings:
        machine = turned(machine, setting)
    again: tuple[str, ...] = ()
    if any(setting.knob.plans for setting in settings):
        programs, again = _planned(history, hlo, options, machine)
    known = {leaf.family for program in programs.values() for leaf in leaves(program.body) if isinstance(leaf, Superstep)}
    for setting in settings:
        if setting.family and setting.family not in known:
            near = nearest(setting.family, known)
            hint = f"; the nearest is '{near}'" if near else ""
            raise SpecError(f"no superstep is of family {shown(setting.family)}{hint}: the recording has {', '.join(sorted(known))}")
        if setting.family and setting.factor is not None:
            programs = _with_family(programs, setting.family, setting.factor)
    begin = begin_of(history.snapshot)
    cycles = replay_of_file(history).end_cycle - begin
    changed = replay_of_file(history, machine=machine, programs=programs).end_cycle - begin
    return Outcome(settings=tuple(map(str, settings)), cycles=cycles, turned_cycles=changed, planned_again=again)


def table(history: History, *, most: int | None = None, cycles: int | None = None) -> tuple[tuple[Turned, ...], str]:
    """Every knob that a replay can turn, halved and doubled, the one with the largest effect first.

    All changes are of the emulated time of the whole recording. Of a long journal the first and the last runs are played, because loads
    are mostly in the first; those between count as the last ones.

    Args:
        history: of a recording, from anybody.
        most: work of all replays together, so that a long journal is played in part; None: that of findings.
        cycles: that the recording takes, if it is known.

    Returns:
        (the knobs, from which runs the changes are estimated; '' if all were played).

    Raises:
        RecordingError: if the journal cannot be played.
    """
    programs, machine = history.programs, history.machine
    families = _families(programs)
    rows = [(knob, [Setting(knob=knob, factor=0.5), Setting(knob=knob, factor=2.0)]) for knob in (KNOBS[name] for name in TURNED)]
    pattern = KNOBS["sync.pattern"]
    rows.append((pattern, [Setting(knob=pattern, value=name) for name in SYNC_PATTERNS if name != machine.sync_pattern]))
    for family in families:
        knob = family_knob(family)
        rows.append((knob, [Setting(knob=knob, family=family, factor=0.5), Setting(knob=knob, family=family, factor=2.0)]))
    try:
        evidence = Evidence(history, {}, emulated_cycles=0, runs=0)
        evidence.runs = len(evidence.dispatches) if evidence.is_whole else sum(isinstance(call, Dispatch) for call in history.calls)
        parts, basis = evidence.ends_for(sum(len(settings) for _, settings in rows), most=most)
    except (ValueError, ArithmeticError, LookupError, AssertionError, TypeError) as error:
        raise RecordingError(f"the journal of the recording cannot be played: {error or type(error).__name__}") from None
    if cycles is None:
        last = parts[-1]
        whole = begin_of(last.history.snapshot) + last.cycles if evidence.is_whole else replay_of_file(history).end_cycle
        cycles = whole - begin_of(history.snapshot)
    told = sum(part.times * part.cycles for part in parts)
    if basis and told < _COVERED * cycles:  # the runs between are not as the last ones
        basis += f", which stand for {share_text(told, cycles)} of the time"
    found = list[Turned]()
    for knob, settings in rows:
        changes: dict[str, float] = {}
        for setting in settings:
            try:
                other = turned(machine, setting)
            except SpecError:  # no machine has such a value
                continue
            theirs = _with_family(programs, setting.family, setting.factor or 1.0) if setting.family else programs
            more = 0.0
            for part in parts:
                end = replay_of_file(part.history, machine=other, programs=theirs, calls=part.script.calls).end_cycle
                more += part.times * (end - begin_of(part.history.snapshot) - part.cycles)
            changes[str(setting).partition("=")[2]] = max((cycles + more) / cycles - 1, -1.0) if cycles else 0.0
        now = _now(machine, knob.fields[0]) if knob.fields else ""
        found.append(Turned(knob=knob.name, now=now, changes=changes))
    return tuple(sorted(found, key=lambda row: -row.effect)), basis


def _planned(
    history: History, hlo: Mapping[int, str], kept: Mapping[int, PlanOptions], machine: MachineSpec
) -> tuple[dict[int, Program], tuple[str, ...]]:
    """The programs planned for another machine, with the options of their first plan."""
    programs: dict[int, Program] = {}
    for key, program in history.programs.items():
        source = Source(text=partial(hlo.get, key, ""), options=PlanOptions())
        options = _options(source, program, history.machine, kept.get(key))
        programs[key] = _plan_of_file(source, program, machine, options)
    return programs, tuple(dict.fromkeys(program.name for program in programs.values()))


def _options(source: Source, program: Program, machine: MachineSpec, kept: PlanOptions | None) -> PlanOptions:
    """The options with which the HLO becomes the program that was recorded: those that were kept, or one of the usual."""
    bare = replace(without_lines(program), dry=False)
    for options in [kept] if kept else _usual(program):
        if replace(without_lines(_plan_of_file(source, program, machine, options)), dry=False) == bare:
            return options
    if kept:
        raise RecordingError(
            f"program '{program.name}' cannot be planned again: its HLO does not become the recorded one. Another version of tilestep "
            "has planned it"
        )
    raise RecordingError(
        f"program '{program.name}' cannot be planned again: with no usual options does its HLO become the recorded one. It was planned "
        "with others, or by another version of tilestep"
    )


def _usual(program: Program) -> list[PlanOptions]:
    """The options that are tried for a program whose own were not kept."""
    return [
        PlanOptions(partials_type=partials, weight_load_bits=bits, num_io_tiles=program.num_io_tiles)
        for partials in ("float", "half")
        for bits in (64, 128)
    ]


def _plan_of_file(source: Source, program: Program, machine: MachineSpec, options: PlanOptions) -> Program:
    """A plan of HLO that may come from anybody. Raises: RecordingError if it has none."""
    try:
        return planned_again(source, program, machine, options=options)
    except RecordingError:
        raise
    except (TilestepError, ValueError, ArithmeticError, LookupError, AssertionError, TypeError, RecursionError) as error:
        raise RecordingError(f"program '{program.name}' cannot be planned again: {plain(error) or type(error).__name__}") from None


def _families(programs: Mapping[int, Program]) -> list[str]:
    spent: dict[str, int] = {}
    for program in programs.values():
        for leaf in leaves(program.body):
            if isinstance(leaf, Superstep):
                spent[leaf.family] = spent.get(leaf.family, 0) + leaf.compute_cycles + leaf.exchange_cycles + leaf.sync_cycles
    return sorted(spent, key=lambda family: -spent[family])[:_MOST_FAMILIES]


def _with_family(programs: Mapping[int, Program], family: str, factor: float) -> dict[int, Program]:
    part = Fraction(factor).limit_denominator(1_000_000)
    return {key: scaled(program, family, part.numerator, part.denominator) for key, program in programs.items()}


def _now(machine: MachineSpec, path: str) -> str:
    """The value of a field with its unit."""
    value, unit = value_of(machine, path), QUANTITIES[path].unit
    if isinstance(value, str):
        return value
    if unit == "s":
        return time_text(value)
    scaled, prefix = next(((value / scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (value, ""))
    return f"{scaled:.3g} {prefix}{unit}"
