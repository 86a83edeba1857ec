"""Which knob of the machine matters to a recording: each halved and doubled, and its journal played again."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tilestep.advice.evidence import Evidence, begin_of
from tilestep.advice.what_if.knobs import FAMILY, KNOBS, TURNED, Knob, TurnedKnob, family_knob, turned, with_family
from tilestep.collection import collected_seldom
from tilestep.errors import RecordingError, SpecError
from tilestep.figures.quantities import share_text, time_text
from tilestep.machine.assemble import value_of
from tilestep.machine.fields import QUANTITIES, SYNC_PATTERNS
from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Superstep
from tilestep.recording.edits.script import without_forgets
from tilestep.recording.history import History
from tilestep.recording.replay import replay_of_file
from tilestep.sim.calls import Dispatch
from tilestep.sim.mark import Mark

_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LEAST_SAVED_SHARE: Final = 0.01  # share of emulated time
_LIKE_THE_BEST_SHARE: Final = 0.5  # others that save so much of what the best one saves are named beside it
_MOST_NAMED: Final = 3
_LEAST_SHARE_WITH_FIGURES: Final = 0.0001  # a knob that changes less of emulated time is named without figures
_LEAST_COVERED_SHARE: Final = 0.9  # runs that stand for less of emulated time are not taken for the others, if all can be played
_MOST_FAMILIES: Final = 8


@dataclass(frozen=True, kw_only=True)
class Turned:
    """One knob and what it decides.

    Attributes:
        knob: its name.
        now: the value of its first field, in words; '' for a family of supersteps.
        changes: for each setting of it, what the recording's emulated time does: 0.1 is a tenth longer.
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


@dataclass(frozen=True, kw_only=True)
class KnobTable:
    """The knobs of a recording.

    Attributes:
        rows: the one with the largest effect first.
        basis: from which runs the changes are estimated; '' if all were played.
    """

    rows: tuple[Turned, ...]
    basis: str = ""

    @property
    def shown(self) -> tuple[Turned, ...]:
        """The knobs whose changes are worth a row."""
        return tuple(row for row in self.rows if row.effect >= _LEAST_SHARE_WITH_FIGURES)

    @property
    def others(self) -> tuple[Turned, ...]:
        """All other knobs."""
        return tuple(row for row in self.rows if row.effect < _LEAST_SHARE_WITH_FIGURES)


def answer(found: KnobTable) -> str:
    """Which knob matters, in a sentence: 'Twice the bandwidth of a host link would save 31 %; nothing else saves more than 4.1 %.'"""
    saving = sorted((row for row in found.rows if row.best[1] > 0), key=lambda row: -row.best[1])
    of = f" ({found.basis})" if found.basis else ""
    if not saving or saving[0].best[1] < _LEAST_SAVED_SHARE:
        most = f" more than {share_text(saving[0].best[1], 1)}" if saving else ""
        return f"No knob saves{most or ' anything'} when it is halved or doubled{of}."
    named = [row for row in saving if row.best[1] >= _LIKE_THE_BEST_SHARE * saving[0].best[1]][:_MOST_NAMED]
    told = [f"{_turn(row)}{' would save' if row is named[0] else ''} {share_text(row.best[1], 1)}" for row in named]
    text = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
    rest = saving[len(named) :]
    where = "in these runs " if found.basis else ""
    most = f"more than {share_text(rest[0].best[1], 1)}" if rest else "anything"
    return f"{text[0].upper()}{text[1:]}{of}; {where}nothing else saves {most}."


def _turn(row: Turned) -> str:
    """'twice the bandwidth of a host link'."""
    setting = row.best[0]
    word = {"x2": "twice", "/2": "half"}.get(setting)
    return f"{row.title} '{setting}'" if word is None else f"{word} {row.title}"


def knob_table(history: History, *, most: int | None = None) -> KnobTable:
    """Every knob that a replay can turn, halved and doubled.

    All changes are of the emulated time of the whole recording. Of a long journal the first and the last runs are played, because loads
    are mostly in the first; those between count as the last ones. Where these do not stand for the whole, all runs are played.

    Args:
        history: of a recording, from anybody.
        most: work of all replays together, so that a long journal is played in part; None: that of findings.

    Raises:
        RecordingError: if the journal cannot be played.
    """
    with collected_seldom():
        try:
            evidence = Evidence(history, {}, emulated_cycles=0, runs=0)
            evidence.runs = len(evidence.dispatches) if evidence.is_whole else sum(isinstance(call, Dispatch) for call in history.calls)
            knobs = _knobs(history.machine, _families(evidence.end, evidence.dispatches))
            parts, basis = evidence.ends_for(sum(map(len, knobs.values())), most=most)
        except (ValueError, ArithmeticError, LookupError, AssertionError, TypeError) as error:
            raise RecordingError(f"the journal of the recording cannot be played: {error or type(error).__name__}") from None
        cycles = (evidence.end.cycle if evidence.is_whole else replay_of_file(history).end_cycle) - begin_of(history.snapshot)
        told = sum(part.times * part.cycles for part in parts)
        if basis and told < _LEAST_COVERED_SHARE * cycles:  # the runs between are not as the last ones
            if evidence.is_whole:
                parts, basis = (evidence.whole,), ""
            else:
                basis += f", which stand for {share_text(told, cycles)} of the time"
        calls = [without_forgets(part.script.calls, part.history.snapshot) for part in parts]

        def change(setting: TurnedKnob) -> float:
            machine, programs = turned(history.machine, setting), with_family(history.programs, setting)
            more = 0.0
            for part, of_part in zip(parts, calls, strict=True):
                end = replay_of_file(part.history, machine=machine, programs=programs, calls=of_part).end_cycle
                more += part.times * (end - begin_of(part.history.snapshot) - part.cycles)
            return max((cycles + more) / cycles - 1, -1.0) if cycles else 0.0

        rows = [
            Turned(
                knob=knob.name,
                now=" and ".join(_now(history.machine, path) for path in knob.fields),
                changes={setting.words: change(setting) for setting in settings},
            )
            for knob, settings in knobs.items()
        ]
    return KnobTable(rows=tuple(sorted(rows, key=lambda row: -row.effect)), basis=basis)


def _knobs(machine: MachineSpec, families: Iterable[str]) -> dict[Knob, list[TurnedKnob]]:
    """The settings that the machine may have, of each knob."""
    found = {knob: [TurnedKnob(knob=knob, factor=0.5), TurnedKnob(knob=knob, factor=2.0)] for knob in (KNOBS[name] for name in TURNED)}
    pattern = KNOBS["sync.pattern"]
    found[pattern] = [TurnedKnob(knob=pattern, value=name) for name in SYNC_PATTERNS if name != machine.sync_pattern]
    for family in families:
        knob = family_knob(family)
        found[knob] = [TurnedKnob(knob=knob, family=family, factor=factor) for factor in (0.5, 2.0)]
    return {knob: [setting for setting in settings if _may_be(machine, setting)] for knob, settings in found.items()}


def _may_be(machine: MachineSpec, setting: TurnedKnob) -> bool:
    try:
        turned(machine, setting)
    except SpecError:  # no machine has such a value
        return False
    return True


def _families(end: Mark, dispatches: Sequence[Dispatch]) -> list[str]:
    """The families of supersteps that take most. Args: end: behind all dispatches."""
    found, runs = Counter[str](), Counter[int]()
    for call in dispatches:
        runs[call.key] += len(call.ipus)
    for key, totals in end.programs.items():
        for leaf, times, site, cycles in totals.body.uses:
            if isinstance(leaf, Superstep):
                count = runs[key] if site is None else sum(counted.get(site, 0) for counted in totals.counted.values())
                found[leaf.family] += times * count * cycles.total
    return [family for family, spent in found.most_common(_MOST_FAMILIES) if spent]


def _now(machine: MachineSpec, path: str) -> str:
    """The value of a field with its unit."""
    value, unit = value_of(machine, path), QUANTITIES[path].unit
    if isinstance(value, str):
        return value
    if unit == "s":
        return time_text(value)
    scaled, prefix = next(((value / scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (value, ""))
    return f"{scaled:.3g} {prefix}{unit}"
