"""Keeps the calls on a running system."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar, cast, final

from tilestep.hints import EffectiveBatch
from tilestep.plan.steps import Counts
from tilestep.sim.calls import BEGIN, DISPATCH, EARLIER, NONE, Calls, HostLine, LogPosition, Moment, RawCall
from tilestep.sim.trace import Task

MAX_NUMBERS: Final = 8_000_000  # that a log keeps: a million calls, 64 MB
MAX_PARTS: Final = 2_000_000  # dispatches times their IPUs: a minute of replay
_CHUNK: Final = 32_768  # calls that wait to become numbers

Encoder = Callable[..., Sequence[int]]
T = TypeVar("T", bound=Hashable)


@final
class Interned(Generic[T]):
    """Things by the numbers that stand for them."""

    def __init__(self, items: Sequence[T] = ()) -> None:
        self.items: list[T] = list(items)
        self._numbers: dict[T, int] = {item: number for number, item in enumerate(self.items)}

    def number(self, item: T) -> int:
        """The number of a thing; a new one if it has none."""
        number = self._numbers.get(item)
        if number is None:
            number = self._numbers[item] = len(self.items)
            self.items.append(item)
        return number


@final
class CallLog:
    """Keeps the calls on a running system, up to a bound. They become numbers when many have gathered, or somebody asks."""

    def __init__(self, *, moments: int = 0) -> None:
        """Args: moments: of the system before the first call."""
        self._first_moment = moments
        self._latest = 0
        self._kinds = array("B")
        self._numbers = array("q")
        self._groups: Interned[str] = Interned()
        self._ipus: Interned[tuple[int, ...]] = Interned()
        self._batches: Interned[EffectiveBatch] = Interned()
        self._tasks: Interned[str] = Interned()
        self._complete = True
        self._parts = 0
        self._lines: Interned[HostLine] = Interned()
        self._notes = array("i")
        self._note = 0
        self._waiting: list[tuple[RawCall, int]] = []
        self._encoders: tuple[Encoder, ...] = (  # by kind
            self._put,
            self._copy,
            self._value,
            self._value,
            self._value,
            self._dispatch,
            self._accumulated,
            self._moment,
        )

    def add(self, call: RawCall) -> None:
        """Keeps a call: its kind and its arguments, which must not change."""
        self._waiting.append((call, self._note))
        if len(self._waiting) >= _CHUNK:
            self._store()

    def note_line(self, line: HostLine | None) -> None:
        """The line of the host program that makes the calls from now on; None: it is unknown."""
        self._note = 0 if line is None else self._lines.number(line) + 1

    def note_contents(self, contents: int) -> None:
        """The number of the bytes that the calls from now on put; 0: it is unknown."""
        self._note = contents

    def position(self) -> LogPosition:
        """Where the next call will be."""
        self._store()
        return LogPosition(len(self._kinds), len(self._numbers), self._latest)

    def calls(self, start: LogPosition = BEGIN) -> Calls:
        """A frozen copy of the calls since a position."""
        self._store()
        return Calls(
            kinds=self._kinds[start.call :],
            numbers=self._numbers[start.number :],
            latest=start.latest,
            groups=tuple(self._groups.items),
            ipus=tuple(self._ipus.items),
            batches=tuple(self._batches.items),
            tasks=tuple(self._tasks.items),
            complete=self._complete,
            notes=self._notes[start.call :],
            lines=tuple(self._lines.items),
        )

    def _store(self) -> None:
        """Makes numbers of the calls that wait."""
        waiting, self._waiting = self._waiting, []
        for (kind, *arguments), note in waiting:
            encode = cast(Encoder, self._encoders[kind])
            numbers = encode(*arguments)
            if kind == DISPATCH:
                self._parts += len(arguments[1])
            if not self._complete or len(self._numbers) + len(numbers) > MAX_NUMBERS or self._parts > MAX_PARTS:
                self._complete = False
                return
            self._kinds.append(kind)
            self._notes.append(note)
            self._numbers.extend(numbers)

    def _put(self, value: int, ipu: int, size_bytes: int, on_host: bool, since: Moment | None) -> Sequence[int]:
        begin = NONE if since is None else since.number if since.number >= self._first_moment else EARLIER - since.cycle
        latest, self._latest = self._latest, value
        return (value - latest, ipu, size_bytes, on_host, begin)

    def _copy(self, source: int, target: int, ipu: int, on_host: bool, group: tuple[str, int] | None) -> Sequence[int]:
        latest = self._latest
        if target > latest:
            self._latest = target
        return (source - latest, target - latest, ipu, on_host, *self._group(group))

    def _value(self, value: int) -> Sequence[int]:
        return (value - self._latest,)

    def _dispatch(
        self,
        key: int,
        ipus: tuple[int, ...],
        arguments: Sequence[Sequence[int]],
        results: Sequence[Sequence[int]],
        counts: Sequence[Counts],
        group: tuple[str, int] | None,
        task: Task | None,
    ) -> Sequence[int]:
        latest = self._latest
        numbers = [key, self._ipus.number(ipus), *self._group(group)]
        numbers += (NONE, NONE, NONE) if task is None else (task.stage, self._tasks.number(task.kind), task.microbatch)
        for rows in (arguments, results):
            numbers.append(len(rows[0]) if rows else 0)
            for row in rows:
                numbers += [value - latest for value in row]
                if rows is results and row:
                    self._latest = max(self._latest, row[-1])
        numbers.append(len(counts))
        for counted in counts:
            numbers.append(len(counted.times))
            for (site, arm), times in counted.times.items():
                numbers += (site, arm, times)
        return numbers

    def _accumulated(self, batch: EffectiveBatch, steps: int) -> Sequence[int]:
        return (self._batches.number(batch), steps)

    def _moment(self, number: int) -> Sequence[int]:
        return (number,)

    def _group(self, group: tuple[str, int] | None) -> tuple[int, int]:
        return (NONE, 0) if group is None else (self._groups.number(group[0]), group[1])
