"""Keeps the calls on a running system."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Final, Generic, TypeVar, final

import numpy as np

from tilestep.hints import EffectiveBatch
from tilestep.sim import calls as kinds
from tilestep.sim.calls import BEGIN, CALL_KINDS, EARLIER, NONE, Call, CallNames, Calls, Dispatch, HostLine, LogPosition, Moment

MAX_NUMBERS: Final = 8_000_000  # a million calls, 64 MB
MAX_PARTS: Final = 2_000_000  # dispatches times their IPUs: a minute of replay
_CHUNK: Final = 32_768  # calls that wait to become numbers

_NUMBERS: Final = {kind: number for number, kind in enumerate(CALL_KINDS.values())}
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

    def __init__(self, *, moments: int = 0, simulated_ipus: int = 0) -> None:
        """Args: moments: of the system before the first call. simulated_ipus: of the machine."""
        self._first_moment, self._simulated_ipus = moments, simulated_ipus
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
        self._waiting: list[Call | list[int]] = []  # a list: values that were forgotten one after the other

    def add(self, call: Call) -> None:
        """Keeps a call. What it holds must not change."""
        self._waiting.append(call)
        if len(self._waiting) >= _CHUNK:
            self._store()

    def add_forgotten(self, values: list[int]) -> None:
        """Keeps a `Forget` for each value: a pod forgets as many as it makes. The list must not change."""
        self._waiting.append(values)

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
            names=CallNames(
                latest=start.latest,
                groups=tuple(self._groups.items),
                ipus=tuple(self._ipus.items),
                batches=tuple(self._batches.items),
                tasks=tuple(self._tasks.items),
                complete=self._complete,
                simulated_ipus=self._simulated_ipus,
            ),
            notes=self._notes[start.call :],
            lines=tuple(self._lines.items),
        )

    def _store(self) -> None:
        """Makes numbers of the calls that wait."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if isinstance(call, list):
                times, kind, note = len(call), _NUMBERS[kinds.Forget], 0
                numbers: Sequence[int] = self._after_latest(call, times)
            else:
                times, kind = 1, _NUMBERS[type(call)]
                numbers, note = self._numbers_of(call)
            if isinstance(call, Dispatch):
                self._parts += len(call.arguments)
            if not self._complete or len(self._numbers) + len(numbers) > MAX_NUMBERS or self._parts > MAX_PARTS:
                self._complete = False
                return
            self._kinds.extend(array("B", (kind,)) * times)
            self._notes.extend(array("i", (note,)) * times)
            self._numbers.extend(numbers)

    def _numbers_of(self, call: Call) -> tuple[Sequence[int], int]:
        """The numbers of a call, and its note."""
        latest = self._latest
        match call:
            case kinds.Put(value, ipu, size_bytes, on_host, since, contents):
                self._latest = value
                return (value - latest, ipu, size_bytes, on_host, self._begin(since)), contents
            case kinds.Copy(source, target, ipu, on_host, group):
                self._latest = max(latest, target)
                return (source - latest, target - latest, ipu, on_host, *self._group(group)), 0
            case kinds.Wait(value, line) | kinds.Read(value, line):
                return (value - latest,), self._line(line)
            case kinds.Forget(value):
                return (value - latest,), 0
            case Dispatch():
                return self._dispatch(call), self._line(call.line)
            case kinds.Accumulated(batch, steps):
                return (self._batches.number(batch), steps), 0
            case kinds.MomentCall(number):
                return (number,), 0

    def _dispatch(self, call: Dispatch) -> Sequence[int]:
        task = call.task
        head = [call.key, self._ipus.number(call.ipus), *self._group(call.group)]
        head += (NONE, NONE, NONE) if task is None else (task.stage, self._tasks.number(task.kind), task.microbatch)
        numbers = array("q", head)
        for rows in (call.arguments, call.results):
            width = len(rows[0]) if rows else 0
            numbers.append(width)
            numbers.extend(self._after_latest(chain.from_iterable(rows), width * len(rows)))
        self._latest = max((self._latest, *(row[-1] for row in call.results if row)))
        numbers.append(len(call.counts))
        for counted in call.counts:
            numbers.append(len(counted.times))
            for (site, arm), times in counted.times.items():
                numbers.extend((site, arm, times))
        return numbers

    def _after_latest(self, values: Iterable[int], count: int) -> array[int]:
        """How far so many values come after the latest; a pod has very many."""
        return array("q", (np.fromiter(values, np.int64, count) - self._latest).tobytes())

    def _begin(self, since: int | Moment | None) -> int:
        if isinstance(since, Moment):
            return since.number if since.number >= self._first_moment else EARLIER - since.cycle
        return NONE if since is None else since

    def _line(self, line: HostLine | None) -> int:
        return 0 if line is None else self._lines.number(line) + 1

    def _group(self, group: tuple[str, int] | None) -> tuple[int, int]:
        return (NONE, 0) if group is None else (self._groups.number(group[0]), group[1])
