"""The evidence behind the advice: the history of a profile, which is played again with a change to see what the change saves.

All work is bounded in numbers of calls, and not in seconds, so that the advice does not depend on the speed of the host.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeVar, final

from tilestep.advice.finding import Line
from tilestep.advice.user_code.lines import HostLines, host_lines, line_of_call, most
from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Program
from tilestep.recording.edits.script import Change, Script, values_made_by
from tilestep.recording.history import History
from tilestep.recording.replay import play, replay
from tilestep.recording.sources import Source
from tilestep.sim.calls import Call, Copy, Dispatch, Forget, MomentCall, Put
from tilestep.sim.mark import Mark
from tilestep.sim.snapshot import Snapshot
from tilestep.sim.state.ledger import ProgramTotals
from tilestep.sim.system import System
from tilestep.units import seconds_from_cycles

MOST_READ: Final = 1_000_000  # work of the calls that are looked at: a second on a slow computer
MOST_PLAYED: Final = 2_000_000  # work of the calls that are played for all findings together: two seconds there
_CALL_WORK: Final = 12  # numbers that take as long as a call does beside its own
_WORK_TO_FORGET_A_VALUE: Final = 3
_LEAST_CALLS: Final = 3  # the first is cold, the last two are taken to be warm
LEAST_TURNS: Final = 4  # the second half of them is taken to be warm
_WARM_UP_SHARE: Final = 0.25  # where not all runs are looked at, the first ones only warm the system
_LEAST_WARM: Final = 3  # turns, of which the first loads and the last has no end; those of a loop have many trips each
_MOST_WARM: Final = 64  # turns of which a warm step is the mean; a quarter as many go before them, in which an edit warms up
_Noted = TypeVar("_Noted")


class Handed(NamedTuple):
    """An argument of a call that a program has made before: that program's key, which argument, and its number."""

    maker: int
    index: int
    value: int


@dataclass(frozen=True, kw_only=True)
class Played:
    """A part of a history that is short enough to be played for each finding.

    Attributes:
        history: the part, with a snapshot at its begin.
        script: its calls and programs.
        cycles: that it takes.
        basis: '' for the whole history, else words.
        times: as many runs as this part has, the profile has.
        offset: calls before it.
    """

    history: History
    script: Script
    cycles: int
    basis: str
    times: float = 1.0
    offset: int = 0

    def saved(self, change: Change) -> int | None:
        """Cycles that the part takes less with a change; None if the host program cannot be written so."""
        after = self.after(change, self.script)
        return None if after is None else self.cycles - after[1]

    def after(self, change: Change, script: Script) -> tuple[Script, int] | None:
        """A script with a change, and the cycles that it takes; None if the host program cannot be written so.

        Args: script: of this part, with other changes, perhaps.
        """
        try:
            changed = change(script)
            system = replay(self.history, programs=changed.programs, calls=changed.calls)
        except (ValueError, LookupError):  # the edit is impossible, or leaves a call that cannot be made
            return None
        return changed, system.end_cycle - begin_of(self.history.snapshot)

    def share_saved(self, change: Change, key: int) -> float | None:
        """The share that an edit saves of warm steps, after which a call of a program may do what several did; None if too few are left.

        Both are played between the same calls, so that what comes between those, such as an evaluation, is in both.

        Args: key: of the program whose calls are steps.
        """
        try:
            changed = change(self.script)
            places, before = (_calls_of(script, key) for script in (changed, self.script))
            half = len(places) // 2
            if len(places) < _LEAST_CALLS:
                return None
            ends = half, len(places) - 1
            own = [self._place_before(changed.calls[places[end]], end * len(before) // len(places), before) for end in ends]
            spent: list[int] = []
            for script, begin, end in ((self.script, *(before[each] for each in own)), (changed, places[half], places[-1])):
                programs = {**self.history.programs, **script.programs}
                first, last = noted_at(self.history, script.calls, (begin, end), _end_cycle, programs)
                spent.append(last - first)
        except (ValueError, LookupError):  # as above
            return None
        return 1 - spent[1] / spent[0] if spent[0] > 0 else None

    def _place_before(self, call: Call, guess: int, before: Sequence[int]) -> int:
        """Which of the calls before an edit gave what a call gives with it, the nearest to a guess; the guess if none did."""
        results = tuple(values_made_by(call))
        same = [number for number, at in enumerate(before) if tuple(values_made_by(self.script.calls[at])) == results]
        return min(same or [guess], key=lambda number: abs(number - guess))


@dataclass(frozen=True, kw_only=True)
class Warm:
    """Warm steps: what the calls up to their end take longer than those up to their begin.

    So an edit may make other calls of them. Both are played with it.

    Attributes:
        played: these calls.
        first: up to the first of these steps.
        last: up to the end of the last one.
        steps: how many lie between.
        all_steps: of the part that is played for each finding.
        key: of the program that begins them.
        step_cycles: of one of them, from the end of all work before to that behind.
        told_cycles: of a step as it is told: of all of the second half, with what the host waits for.
    """

    played: Played
    first: Script
    last: Script
    steps: float
    all_steps: float
    key: int
    step_cycles: float
    told_cycles: float = 0.0

    def after(self, change: Change) -> Warm | None:
        """The steps with an edit; None if the host program cannot be written so."""
        first, last = (self.played.after(change, script) for script in (self.first, self.last))
        if first is None or last is None:
            return None
        return replace(self, first=first[0], last=last[0], step_cycles=(last[1] - first[1]) / self.steps)


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Some turns of a program, or of a group of programs, after the way to a warm system.

    Attributes:
        cycles: from the begin of the first to the end of the last.
        count: how many.
        end: position in the calls behind the last.
        loads: key -> runs of that program between the two that had to load it.
        sums: key -> all sums of that program between the two; None if they were not asked for.
    """

    cycles: int
    count: int
    end: int
    loads: Mapping[int, int]
    sums: Mapping[int, ProgramTotals] | None = None


@final
class Evidence:
    """The history of a profile, and what is worked out of it once.

    Args:
        history: of the profile.
        sources: what its programs were planned from, by key.
        emulated_cycles: of the profile.
        runs: of the profile.
    """

    def __init__(self, history: History, sources: Mapping[int, Source], *, emulated_cycles: int, runs: int) -> None:
        self.history = history
        self.sources = sources
        self.emulated_cycles = emulated_cycles
        self.runs = runs
        self._turns: dict[tuple[int, ...], Turns | None] = {}

    @property
    def machine(self) -> MachineSpec:
        """That was emulated."""
        return self.history.machine

    @property
    def programs(self) -> Mapping[int, Program]:
        """Of the history, by key."""
        return self.history.programs

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The first calls of the history, with names for their numbers: all of them if that is no more than `MOST_READ`."""
        found: list[Call] = []
        work = 0
        for call in self.history.calls:
            work += _work(call)
            if work > MOST_READ:
                break
            found.append(call)
        return tuple(found)

    @property
    def is_whole(self) -> bool:
        """Whether `calls` has all that the host program did."""
        return len(self.calls) == len(self.history.calls) and self.history.complete

    @cached_property
    def dispatches(self) -> tuple[Dispatch, ...]:
        """Among the calls, in order."""
        return tuple(call for call in self.calls if isinstance(call, Dispatch))

    @cached_property
    def host_lines(self) -> HostLines:
        """The lines of the host program that make the calls, as far as they were kept."""
        return host_lines(self.calls)

    def line_of_call(self, key: int) -> Line | None:
        """Where the user calls a program: most often, if that was kept; else as the program's steps tell; None if both are unknown.

        The steps of a program in a group have the better line, because a loop or a pipeline of this package calls it.
        """
        kept = most(self.host_lines.runs.get(key))
        told = line_of_call(self.programs[key])
        return (told or kept) if key in self.host_lines.in_groups else (kept or told)

    @cached_property
    def end(self) -> Mark:
        """The system behind all of the calls."""
        return replay(self.history, calls=self.calls).mark()

    @cached_property
    def whole(self) -> Played:
        """All of the calls."""
        return _played(self.history, self.calls, self.end.cycle)

    def played_for(self, changes: int, *, most: int | None = None) -> Played:
        """The part of the calls that may be played so often: all of them, or the last runs.

        Args: most: work of all replays together; None: MOST_PLAYED.
        """
        work = work_of(self.calls)
        allowed = (MOST_PLAYED if most is None else most) // (changes + 2)
        if work <= allowed and self.is_whole:
            return self.whole
        first = _first_of_last(self.calls, min(allowed, work if self.is_whole else int((1 - _WARM_UP_SHARE) * work)))
        starts = tuple(_starts(self.calls))
        start = next((start for start in starts if start >= first), starts[-1] if starts else 0)
        system = replay(self.history, calls=self.calls[:start])
        rest = _without_earlier_moments(self.calls[start:])
        runs, before = (sum(isinstance(call, Dispatch) for call in calls) for calls in (rest, self.calls[:start]))
        if self.is_whole:
            basis = f"of the last {runs:,} of {self.runs:,} runs" if before else ""
        else:
            basis = f"of runs {before + 1:,} to {before + runs:,} of {self.runs:,}"
        history = replace(self.history, snapshot=system.snapshot())
        played = _played(history, rest, replay(history, calls=rest).end_cycle, basis, max(self.runs, 1) / max(runs, 1))
        return replace(played, offset=start)

    def warm(self, played: Played, starts: Mapping[int, float]) -> Warm | None:
        """Some steps after the way to a warm system, with what goes before them; None if they are too few.

        Args: played: the part that is played; this takes no longer. starts: of turns, to the steps of each.
        """
        places, end = list(self._within(tuple(starts), MOST_PLAYED // 4)), played.offset + len(played.script.calls)
        all_steps = sum(steps for start, steps in starts.items() if played.offset <= start < end)
        if len(places) < _LEAST_WARM or not all_steps:
            return None
        allowed, most = work_of(played.script.calls), _MOST_WARM
        while True:  # the last of them, because the host is ahead for long where a load takes long
            half = max(len(places) // 2, len(places) - 1 - most)
            middle, last = self._alike(places, half, min(half + most, len(places) - 1))
            begin = self._behind(places, middle - most // 4)
            calls = self.calls[begin : places[last]]
            if most == 1 or work_of(calls) <= allowed:
                break
            most //= 2
        if begin:
            history = replace(self.history, snapshot=replay(self.history, calls=self.calls[:begin]).snapshot())
            calls = _without_earlier_moments(calls)
        else:
            history = self.history
        window = _played(history, calls, begin_of(history.snapshot))
        first = replace(window.script, calls=calls[: places[middle] - begin])
        steps = sum(starts[at] for at in places[middle:last])
        start = self.calls[places[middle]]
        key = start.key if isinstance(start, Dispatch) else -1
        warm = Warm(played=window, first=first, last=window.script, steps=steps, all_steps=all_steps, key=key, step_cycles=0.0)
        found = warm.after(lambda script: script)
        return found if found is not None and found.step_cycles > 0 else None

    def ends_for(self, changes: int, *, most: int | None = None) -> tuple[tuple[Played, ...], str]:
        """The parts of the calls that may be played so often: all of them, or the first and the last runs; and which, in words.

        The first runs are as they are, because programs are loaded in them; the last ones stand for all others, too, by `times`.
        Args: most: as of `played_for`.
        """
        allowed = MOST_PLAYED if most is None else most
        if self.is_whole and work_of(self.calls) <= allowed // (changes + 2):
            return (self.whole,), ""
        last = self.played_for(changes, most=allowed // 2)
        if not last.basis:
            return (last,), ""
        runs, work, end = sum(isinstance(call, Dispatch) for call in last.script.calls), 0, 0
        starts = set(_starts(self.calls))
        for index, call in enumerate(self.calls):
            if index in starts:
                end = index
            work += _work(call)
            if work > allowed // 2 // (changes + 2):
                break
        head = self.calls[:end]
        first = sum(isinstance(call, Dispatch) for call in head)
        last = replace(last, times=(self.runs - first) / max(runs, 1))
        if not first or first > len(self.dispatches) - runs:
            return (last,), f"estimated from the last {runs:,} of {self.runs:,} runs"
        start = _played(self.history, head, replay(self.history, calls=head).end_cycle)
        return (start, last), f"estimated from the first {first:,} and the last {runs:,} of {self.runs:,} runs"

    def entries(self, group: str, key: int | None = None) -> tuple[int, ...]:
        """Positions in the calls at which the host enters a program group. Args: key: only entries that run this program of it."""
        found: dict[int, int] = {}
        with_key: set[int] = set()
        for index, call in enumerate(self.calls):
            if isinstance(call, Dispatch) and call.group is not None and call.group[0] == group:
                found.setdefault(call.group[1], index)
                if key in (None, call.key):
                    with_key.add(call.group[1])
        return tuple(index for entry, index in found.items() if entry in with_key)

    @cached_property
    def handed_over(self) -> Mapping[int, Sequence[Handed]]:
        """By the key of who takes them: arguments that a program has made, and copies of such, on the first IPU of each call."""
        makers: dict[int, int] = {}
        found = defaultdict[int, list[Handed]](list)
        for call in self.calls:
            if isinstance(call, Dispatch):
                row = call.arguments[0] if call.arguments else ()
                found[call.key] += [Handed(makers[value], index, value) for index, value in enumerate(row) if value in makers]
                makers.update(dict.fromkeys(values_made_by(call), call.key))
            elif isinstance(call, Copy) and call.source in makers:
                makers[call.target] = makers[call.source]
            elif isinstance(call, Copy | Put):  # the number is given again
                for value in values_made_by(call):
                    makers.pop(value, None)
        return {**found}

    @cached_property
    def states(self) -> frozenset[int]:
        """Values that a program makes and takes again in a later call: parameters, and the like."""
        return frozenset(each.value for key, taken in self.handed_over.items() for each in taken if each.maker == key)

    def runs_of(self, key: int) -> tuple[int, ...]:
        """Positions in the calls at which a program is dispatched."""
        return tuple(index for index, call in enumerate(self.calls) if isinstance(call, Dispatch) and call.key == key)

    def turns(self, starts: Sequence[int], *, sums: bool = False) -> Turns | None:
        """The second half of some turns, when the system is warm; None if they are too few.

        Args: starts: positions in the calls at which the turns begin. sums: whether it has those of programs, which take longer.
        """
        known = tuple(starts)
        if known not in self._turns or (sums and (found := self._turns[known]) is not None and found.sums is None):
            self._turns[known] = self._second_half(starts, sums=sums)
        return self._turns[known]

    def _behind(self, places: Sequence[int], turn: int) -> int:
        """Where a turn begins with what the host puts for it: behind the call before; an entry into a group where its first call is."""
        if turn <= 0:
            return 0
        start = self.calls[places[turn]]
        return places[turn - 1] + 1 if isinstance(start, Dispatch) and start.group is None else places[turn]

    def _within(self, starts: Sequence[int], most: int) -> Iterator[int]:
        """Those positions in the calls up to which there is no more than so much work."""
        work, ends = 0, 0
        for index, call in enumerate(self.calls):
            work += _work(call)
            if work > most:
                break
            ends = index
        return (start for start in starts if start <= ends)

    def _second_half(self, starts: Sequence[int], *, sums: bool) -> Turns | None:
        starts = list(self._within(starts, MOST_PLAYED // 4))
        if len(starts) < LEAST_TURNS:
            return None
        half, end = self._alike(starts, len(starts) // 2, len(starts) - 1)
        middle, last, count = starts[half], starts[end], end - half
        if sums:
            first, end = self._at(middle, last, System.mark, self.machine, self.programs)
            programs = {key: totals.since(first.programs.get(key)) for key, totals in end.programs.items()}
            loads = {key: totals.loads for key, totals in programs.items()}
            return Turns(cycles=end.cycle - first.cycle, count=count, end=last, loads=loads, sums=programs)
        (begin, before), (then, after) = self._at(middle, last, _loaded, self.machine, self.programs)
        loads = {key: times - before.get(key, 0) for key, times in after.items()}
        return Turns(cycles=then - begin, count=count, end=last, loads=loads)

    def _alike(self, starts: Sequence[int], first: int, last: int) -> tuple[int, int]:
        """Two turns between which whole periods lie, such as nine steps and one whose loss is read: behind turns that are rare alike.

        Args: starts: positions in the calls at which turns begin. first, last: the numbers of turns that are meant.
        """
        kinds = [frozenset(Counter(map(_what, self.calls[starts[turn - 1] : starts[turn]])).items()) for turn in range(first, last + 1)]
        often = Counter(kinds)
        rare = min((kind for kind in often if often[kind] > 1), key=lambda kind: often[kind], default=None)
        places = [turn for turn, kind in enumerate(kinds, first) if kind == rare]
        return (places[0], places[-1]) if len(places) > 1 and 2 * (places[-1] - places[0]) >= last - first else (first, last)

    def without_loads(self, begin: int, end: int) -> int:
        """Cycles from one position in the calls to a later one, if loads took no time."""
        machine = replace(self.machine, host=replace(self.machine.host, load_seconds=0.0))
        programs = {key: replace(each, memory=replace(each.memory, code_bytes=0)) for key, each in self.programs.items()}
        first, last = self._at(begin, end, _end_cycle, machine, programs)
        return last - first

    def _at(
        self, begin: int, end: int, noted: Callable[[System], _Noted], machine: MachineSpec, programs: Mapping[int, Program]
    ) -> tuple[_Noted, _Noted]:
        """What is noted of a system at two positions in the calls."""
        first, last = noted_at(replace(self.history, machine=machine), self.calls, (begin, end), noted, programs)
        return first, last

    def seconds(self, cycles: float) -> float:
        """Of emulated time."""
        return seconds_from_cycles(round(cycles), self.machine.ipu.clock_hz)


def noted_at(
    history: History, calls: Sequence[Call], places: Sequence[int], noted: Callable[[System], _Noted], programs: Mapping[int, Program]
) -> list[_Noted]:
    """What is noted of a system at some positions in calls. Raises: ValueError, LookupError as a replay."""
    system = System.restored(history.snapshot, history.machine, programs, record=False)
    found: list[_Noted] = []

    def watched() -> Iterator[Call]:
        for index, call in enumerate(calls[: places[-1] + 1]):
            if index in places:
                found.append(noted(system))
            if index < places[-1]:
                yield call

    play(system, watched(), programs)
    return found


def _calls_of(script: Script, key: int) -> list[int]:
    return [index for index, call in enumerate(script.calls) if isinstance(call, Dispatch) and call.key == key and call.group is None]


def _what(call: Call) -> tuple[object, ...]:
    """What a call does, whichever values it is of. To forget one takes no time."""
    return () if isinstance(call, Forget) else (type(call), *((call.key,) if isinstance(call, Dispatch) else ()))


def _end_cycle(system: System) -> int:
    return system.end_cycle


def _loaded(system: System) -> tuple[int, dict[int, int]]:
    return system.end_cycle, system.loads()


def work_of(calls: Iterable[Call]) -> int:
    """How long it takes to read or to play calls, in numbers."""
    return sum(map(_work, calls))


def begin_of(snapshot: Snapshot) -> int:
    """The end of all work before a history."""
    return max(snapshot.horizon, snapshot.host_cycle)


def _played(history: History, calls: tuple[Call, ...], end: int, basis: str = "", times: float = 1.0) -> Played:
    """A part. Args: end: the cycle behind its calls."""
    script = Script(calls=calls, programs=history.programs)
    return Played(history=history, script=script, cycles=end - begin_of(history.snapshot), basis=basis, times=times if basis else 1.0)


def _first_of_last(calls: Sequence[Call], work: int) -> int:
    """The position from which on the calls are so much work at most."""
    for index in reversed(range(len(calls))):
        work -= _work(calls[index])
        if work < 0:
            return index + 1
    return 0


def _starts(calls: Sequence[Call]) -> Iterator[int]:
    """Positions of dispatches that are in no group, or begin an entry."""
    before: tuple[str, int] | None = None
    for index, call in enumerate(calls):
        if isinstance(call, Dispatch):
            if call.group is None or call.group != before:
                yield index
            before = call.group


def _without_earlier_moments(calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls in which uploads that began before the first of them begin when they are made."""
    known = {call.number for call in calls if isinstance(call, MomentCall)}
    return tuple(
        call._replace(since=None) if isinstance(call, Put) and isinstance(call.since, int) and call.since not in known else call
        for call in calls
    )


def _work(call: Call) -> int:
    """Of one call."""
    match call:
        case Dispatch():
            return _CALL_WORK + sum(len(row) for row in (*call.arguments, *call.results))
        case Forget():
            return _WORK_TO_FORGET_A_VALUE
        case _:
            return _CALL_WORK
