"""Which knob of the machine matters to a recording: each halved and doubled, and its journal played again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

from tilestep.advice.evidence import MOST_PLAYED, Evidence, Played, begin_of, work_of
from tilestep.advice.knobs import FAMILY, KNOBS, TURNED, Knob, Setting, family_knob, setting_of, turned, with_family
from tilestep.errors import RecordingError, SpecError
from tilestep.figures.garbage import collected_seldom
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
from tilestep.sim.trace import EventKind

WHY_UNKNOWN: Final = "To play this recording takes long, so what may save time was played first. What is unknown was not played:"
_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_MATTERS: Final = 0.01  # of emulated time: a knob that saves less is not named
_AS_MUCH: Final = 0.5  # of what the best one saves: others that save as much are named beside it
_MOST_NAMED: Final = 3
_LEAST: Final = 0.0001  # of emulated time: a knob that changes less is named without figures
_COVERED: Final = 0.9  # of emulated time: runs that stand for less are not taken for the others, if all can be played
_MOST_FAMILIES: Final = 8  # of supersteps, those that take most
_MOST_LONG: Final = 4 * MOST_PLAYED  # work of the replays of runs that are too long for `most`: some settings are not played then
_PATTERN_PLAYS: Final = 2  # replays that one with another sync pattern takes, because entries are played in two orders

_BY_HOST: Final[tuple[EventKind, ...]] = ("load", "save", "stream-in", "host-call", "stream-out", "read", "io-in", "io-out")
_SPENT_ON: Final[Mapping[str, tuple[EventKind, ...]]] = MappingProxyType(
    {
        "host.link": _BY_HOST,
        "host.latency": _BY_HOST,
        "host.load": ("load",),
        "streaming-memory": ("host-call",),
        "sync.pattern": ("host-call",),
        "links": ("collective",),
        "gateway": ("collective",),
        "sync.hop": ("collective",),
    }
)
"""The time of IPUs that a knob may change: where it is longer, the knob is played earlier."""


@dataclass(frozen=True, kw_only=True)
class Turned:
    """One knob and what it decides.

    Attributes:
        knob: its name.
        now: the value of its first field, in words; '' for a family of supersteps.
        changes: for each setting of it that was played, what the recording's emulated time does: 0.1 is a tenth longer.
        unknown: settings that a machine may have, and that were not played.
    """

    knob: str
    now: str
    changes: Mapping[str, float]
    unknown: tuple[str, ...] = ()

    @property
    def effect(self) -> float:
        """The largest change that is known."""
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
        rows: those of which something is known, the one with the largest effect first.
        basis: from which runs the changes are estimated; '' if all were played.
        unplayed: of which nothing is known, because it would take long.
    """

    rows: tuple[Turned, ...]
    basis: str = ""
    unplayed: tuple[Turned, ...] = ()

    @property
    def is_full(self) -> bool:
        """Whether each setting was played."""
        return not self.unplayed and not any(row.unknown for row in self.rows)

    @property
    def shown(self) -> tuple[Turned, ...]:
        """The knobs whose changes are worth a row."""
        return tuple(row for row in self.rows if row.effect >= _LEAST)

    @property
    def others(self) -> dict[str, tuple[Turned, ...]]:
        """All other knobs, by what is known of them, in words: what was not played may have an effect."""
        little = [row for row in self.rows if row.effect < _LEAST]
        where = "in the runs that were played" if self.basis else "on this recording"
        found = {
            f"No effect {where}": [row for row in little if not row.unknown],
            "Would save less than 0.01 %": [row for row in little if row.unknown],
            "Not played": self.unplayed,
        }
        return {words: tuple(rows) for words, rows in found.items() if rows}

    @property
    def to_play(self) -> str:
        """A setting that was not played, as `--set` takes it; '' if there is none."""
        return next((f"{row.knob}={setting}" for row in (*self.rows, *self.unplayed) for setting in row.unknown), "")


def answer(found: KnobTable) -> str:
    """Which knob matters, in a sentence: 'Twice the bandwidth of a host link would save 31 %; nothing else saves more than 4.1 %.'"""
    saving = sorted((row for row in found.rows if row.best[1] > 0), key=lambda row: -row.best[1])
    of = f" ({found.basis})" if found.basis else ""
    that = "" if found.is_full else " that was played"
    if not saving or saving[0].best[1] < _MATTERS:
        most = f" more than {share_text(saving[0].best[1], 1)}" if saving else ""
        return f"No knob{that} saves{most or ' anything'} when it is halved or doubled{of}."
    named = [row for row in saving if row.best[1] >= _AS_MUCH * saving[0].best[1]][:_MOST_NAMED]
    told = [f"{_turn(row)}{' would save' if row is named[0] else ''} {share_text(row.best[1], 1)}" for row in named]
    text = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
    rest = saving[len(named) :]
    where = "in these runs " if found.basis else ""
    most = f"more than {share_text(rest[0].best[1], 1)}" if rest else "anything"
    return f"{text[0].upper()}{text[1:]}{of}; {where}nothing else{that} saves {most}."


def _turn(row: Turned) -> str:
    """'twice the bandwidth of a host link'."""
    setting = row.best[0]
    word = {"x2": "twice", "/2": "half"}.get(setting)
    return f"{row.title} '{setting}'" if word is None else f"{word} {row.title}"


def knob_table(history: History, *, most: int | None = None) -> KnobTable:
    """Every knob that a replay can turn, halved and doubled.

    All changes are of the emulated time of the whole recording. Of a long journal the first and the last runs are played, because loads
    are mostly in the first; those between count as the last ones. Where these do not stand for the whole, all of it is played: with what
    each knob may save first, those first on which IPUs spend most time, and as many settings as the time allows.

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
            spent = _spent(evidence.end, evidence.dispatches)
            knobs = _knobs(history.machine, spent)
            parts, basis = evidence.ends_for(sum(map(len, knobs.values())), most=most)
        except (ValueError, ArithmeticError, LookupError, AssertionError, TypeError) as error:
            raise RecordingError(f"the journal of the recording cannot be played: {error or type(error).__name__}") from None
        cycles = (evidence.end.cycle if evidence.is_whole else replay_of_file(history).end_cycle) - begin_of(history.snapshot)
        told = sum(part.times * part.cycles for part in parts)
        stands = not basis or told >= _COVERED * cycles  # else the runs between are not as the last ones
        if not evidence.is_whole:
            basis += "" if stands else f", which stand for {share_text(told, cycles)} of the time"
            return _Replays(history, parts, cycles).table(knobs, basis)
        whole = _Replays(history, (evidence.whole,), cycles)
        if stands:
            found = _Replays(history, parts, cycles).table(knobs, basis)
            if not basis or whole.agree(found):
                return found
        return whole.table(knobs, "")


@final
class _Replays:
    """Replays of some runs with a knob turned.

    Args:
        history: of the recording.
        parts: the runs.
        cycles: that the recording takes.
    """

    def __init__(self, history: History, parts: Sequence[Played], cycles: int) -> None:
        self._history, self._cycles = history, cycles
        self._parts = [(part, without_forgets(part.script.calls, part.history.snapshot)) for part in parts]
        self._work = sum(work_of(calls) for _, calls in self._parts)

    def table(self, knobs: Mapping[Knob, Sequence[Setting]], basis: str) -> KnobTable:
        """The knobs, as many as there is time for: first what each may save. Args: knobs: their settings, the first ones first."""
        settings = [setting for of in knobs.values() for setting in of]
        changes: dict[Setting, float] = {}
        left = _MOST_LONG - self._play([setting for setting in settings if setting.is_faster], changes, _MOST_LONG)
        found = {setting.knob: min(change, 0.0) for setting, change in changes.items()}
        slower = sorted((setting for setting in settings if not setting.is_faster), key=lambda setting: found.get(setting.knob, 0.0))
        self._play(slower, changes, left)
        rows = [self._row(knob, of, changes) for knob, of in knobs.items()]
        known = [row for row in rows if row.changes or not row.unknown]
        return KnobTable(
            rows=tuple(sorted(known, key=lambda row: -row.effect)), basis=basis, unplayed=tuple(row for row in rows if row not in known)
        )

    def agree(self, estimated: KnobTable) -> bool:
        """Whether these runs tell of the knob with the largest effect what others tell."""
        row = max(estimated.rows, key=lambda row: row.effect)
        setting, change = max(row.changes.items(), key=lambda each: abs(each[1]), default=("", 0.0))
        return not setting or abs(self._change(setting_of(f"{row.knob}={setting}")) - change) < _MATTERS

    def _play(self, settings: Iterable[Setting], changes: dict[Setting, float], most: int) -> int:
        """Notes the changes of settings until their replays are so much work; returns how much they were."""
        done = 0
        for setting in settings:
            work = self._work * (_PATTERN_PLAYS if setting.knob.name == "sync.pattern" else 1)
            if done + work > most:
                break
            changes[setting] = self._change(setting)
            done += work
        return done

    def _change(self, setting: Setting) -> float:
        machine, programs = turned(self._history.machine, setting), with_family(self._history.programs, setting)
        more = 0.0
        for part, calls in self._parts:
            end = replay_of_file(part.history, machine=machine, programs=programs, calls=calls).end_cycle
            more += part.times * (end - begin_of(part.history.snapshot) - part.cycles)
        return max((self._cycles + more) / self._cycles - 1, -1.0) if self._cycles else 0.0

    def _row(self, knob: Knob, settings: Sequence[Setting], changes: Mapping[Setting, float]) -> Turned:
        return Turned(
            knob=knob.name,
            now=" and ".join(_now(self._history.machine, path) for path in knob.fields),
            changes={setting.words: changes[setting] for setting in settings if setting in changes},
            unknown=tuple(setting.words for setting in settings if setting not in changes),
        )


def _knobs(machine: MachineSpec, spent: Counter[str]) -> dict[Knob, list[Setting]]:
    """The settings that the machine may have, of each knob. Those on which most time was spent come first."""
    families = sorted((name for name in spent if name.startswith(FAMILY) and spent[name]), key=lambda name: -spent[name])[:_MOST_FAMILIES]
    found = {knob: [Setting(knob=knob, factor=0.5), Setting(knob=knob, factor=2.0)] for knob in (KNOBS[name] for name in TURNED)}
    pattern = KNOBS["sync.pattern"]
    found[pattern] = [Setting(knob=pattern, value=name) for name in SYNC_PATTERNS if name != machine.sync_pattern]
    for family in (name.removeprefix(FAMILY) for name in families):
        knob = family_knob(family)
        found[knob] = [Setting(knob=knob, family=family, factor=factor) for factor in (0.5, 2.0)]
    order = sorted(found, key=lambda knob: -spent[knob.name])
    return {knob: [setting for setting in found[knob] if _may_be(machine, setting)] for knob in order}


def _may_be(machine: MachineSpec, setting: Setting) -> bool:
    try:
        turned(machine, setting)
    except SpecError:  # no machine has such a value
        return False
    return True


def _spent(end: Mark, dispatches: Sequence[Dispatch]) -> Counter[str]:
    """Cycles of all IPUs that a knob may change, by its name. Args: end: behind all dispatches."""
    found, runs = Counter[str](), Counter[int]()
    for call in dispatches:
        runs[call.key] += len(call.ipus)
    for key, totals in end.programs.items():
        kinds = Counter[EventKind]()
        for row in totals.cycles.values():
            kinds.update(row)
        found.update({knob: sum(kinds[kind] for kind in of) for knob, of in _SPENT_ON.items()})
        for leaf, times, site, cycles in totals.body.uses:
            if isinstance(leaf, Superstep):
                count = runs[key] if site is None else sum(counted.get(site, 0) for counted in totals.counted.values())
                found[FAMILY + leaf.family] += times * count * cycles.total
    return found


def _now(machine: MachineSpec, path: str) -> str:
    """The value of a field with its unit."""
    value, unit = value_of(machine, path), QUANTITIES[path].unit
    if isinstance(value, str):
        return value
    if unit == "s":
        return time_text(value)
    scaled, prefix = next(((value / scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (value, ""))
    return f"{scaled:.3g} {prefix}{unit}"
