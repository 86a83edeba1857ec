"""The calls on a simulated system: what a journal notes, a recording keeps and a replay makes again, on the same machine or on another.

A recording keeps a call as its kind and some whole numbers. Values are counted backwards from the value that was made last, because a
program that goes round uses values of the same age at each turn, so that the numbers repeat.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from tilestep.hints import EffectiveBatch
from tilestep.plan.steps import Counts
from tilestep.sim.trace import PipelineTask

NONE: Final = -1
EARLIER: Final = -2  # less the cycle of a moment before the first call


HostLine = tuple[str, int]
"""A line of the host program: path of the file, and number."""


class Moment(NamedTuple):
    """A moment of the host's program, at which an upload may have begun."""

    number: int
    cycle: int


class Put(NamedTuple):
    """A host array becomes a value."""

    value: int
    ipu: int
    size_bytes: int
    on_host: bool
    since: int | Moment | None = None  # number of the moment; the moment itself if it was before the first call
    contents: int = 0  # equal for equal bytes; 0: unknown


class Copy(NamedTuple):
    """A value is copied to another IPU or memory."""

    source: int
    target: int
    ipu: int
    on_host: bool
    group: tuple[str, int] | None


class Wait(NamedTuple):
    """The host waits for a value."""

    value: int
    line: HostLine | None = None


class Read(NamedTuple):
    """The host reads a value."""

    value: int
    line: HostLine | None = None


class Forget(NamedTuple):
    """A value is gone."""

    value: int


class Dispatch(NamedTuple):
    """A program starts. Arguments, results and counts are by device position."""

    key: int  # dispatches with one key share residency
    ipus: tuple[int, ...]
    arguments: Sequence[Sequence[int]]  # values, in the order of the program's arguments
    results: Sequence[Sequence[int]]  # new values, in the order of its results
    counts: Sequence[Counts]  # how often the data-dependent parts were taken; () if there are none
    group: tuple[str, int] | None = None  # name and entry of the program group around the call
    task: PipelineTask | None = None  # the pipeline's task that the run belongs to
    line: HostLine | None = None

    @property
    def simulated(self) -> tuple[int, ...]:
        """Those of the IPUs that have arguments and results: all, or those that are simulated, which have the lowest numbers."""
        lowest = sorted(self.ipus)[: len(self.arguments)]
        return self.ipus if len(lowest) == len(self.ipus) else tuple(ipu for ipu in self.ipus if ipu <= lowest[-1])


class Accumulated(NamedTuple):
    """A loop that accumulates gradients has done some steps."""

    batch: EffectiveBatch
    steps: int


class MomentCall(NamedTuple):
    """A moment at which an upload may begin."""

    number: int


class LogPosition(NamedTuple):
    """A place in a log between two calls."""

    call: int
    number: int
    latest: int  # the value that had been made last


BEGIN: Final = LogPosition(0, 0, 0)

Call = Put | Copy | Wait | Read | Forget | Dispatch | Accumulated | MomentCall
CALL_KINDS: Final[Mapping[str, type[Call]]] = {  # in the order of their numbers
    "put": Put,
    "copy": Copy,
    "wait": Wait,
    "read": Read,
    "forget": Forget,
    "dispatch": Dispatch,
    "accumulated": Accumulated,
    "moment": MomentCall,
}


@dataclass(frozen=True, kw_only=True)
class CallNames:
    """What numbers of calls stand for."""

    latest: int  # the value that had been made last before the first call
    groups: tuple[str, ...]  # names of program groups, by their numbers
    ipus: tuple[tuple[int, ...], ...]  # the IPUs of dispatches, by their numbers
    batches: tuple[EffectiveBatch, ...]  # batches of updates, by their numbers
    tasks: tuple[str, ...]  # kinds of a pipeline's tasks, by their numbers
    complete: bool  # whether no call is missing at the end
    simulated_ipus: int = 0  # those from this number on have no arguments and results; 0: all have


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The calls of a recording, in order."""

    kinds: array[int]  # numbers of their CALL_KINDS
    numbers: array[int]  # for all calls, one after the other
    names: CallNames  # the numbers index them
    # for each call; empty if none were kept. Of a dispatch, a wait and a read the number of the host program's line, from 1; of a put a
    # number that is equal for equal bytes; 0: unknown.
    notes: array[int]
    lines: tuple[HostLine, ...]  # lines of the host program, by their numbers less 1

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Call]:
        """The calls with names for their numbers.

        Raises: IndexError, ValueError if the numbers are none of a log's.
        """
        return _Reader(self).calls()


@final
class _Reader:
    """Gives a log's numbers their names."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._numbers = calls.numbers
        self._position = 0
        self._latest = calls.names.latest

    def calls(self) -> Iterator[Call]:
        notes = self._calls.notes
        for index, kind in enumerate(self._calls.kinds):
            yield self._call(kind, notes[index] if notes else 0)

    def _call(self, kind: int, note: int) -> Call:
        latest = self._latest
        match kind:
            case 0:
                value, ipu, size_bytes, on_host, since = self._take(5)
                self._latest = latest + value
                begin = None if since == NONE else since if since >= 0 else Moment(NONE, EARLIER - since)
                return Put(self._latest, ipu, size_bytes, bool(on_host), begin, note)
            case 1:
                source, target, ipu, on_host, group, entry = self._take(6)
                self._latest = max(latest, latest + target)
                return Copy(latest + source, latest + target, ipu, bool(on_host), self._group(group, entry))
            case 2:
                return Wait(latest + self._take(1)[0], self._line(note))
            case 3:
                return Read(latest + self._take(1)[0], self._line(note))
            case 4:
                return Forget(latest + self._take(1)[0])
            case 5:
                return self._dispatch(self._line(note))
            case 6:
                batch, steps = self._take(2)
                return Accumulated(self._calls.names.batches[batch], steps)
            case 7:
                return MomentCall(self._take(1)[0])
            case _:
                raise ValueError(f"a call has kind {kind}: the kinds are 0 to {len(CALL_KINDS) - 1}")

    def _dispatch(self, line: HostLine | None) -> Dispatch:
        latest = self._latest
        key, ipus, group, entry, stage, task, microbatch = self._take(7)
        devices, num_simulated = self._calls.names.ipus[ipus], self._calls.names.simulated_ipus
        num_rows = sum(ipu < num_simulated for ipu in devices) if num_simulated else len(devices)
        arguments, results = (self._rows(num_rows) for _ in range(2))
        for row in results:
            if row:
                self._latest = max(self._latest, latest + row[-1])
        counts: list[Counts] = []
        for _ in range(self._take(1)[0]):
            flat = self._take(3 * self._take(1)[0])
            counts.append(Counts(times={(site, arm): times for site, arm, times in zip(flat[::3], flat[1::3], flat[2::3], strict=True)}))
        return Dispatch(
            key=key,
            ipus=devices,
            arguments=tuple(tuple(latest + value for value in row) for row in arguments),
            results=tuple(tuple(latest + value for value in row) for row in results),
            counts=tuple(counts),
            group=self._group(group, entry),
            task=None if task == NONE else PipelineTask(stage, self._calls.names.tasks[task], microbatch),
            line=line,
        )

    def _rows(self, count: int) -> list[array[int]]:
        width = self._take(1)[0]
        return [self._take(width) for _ in range(count)]

    def _group(self, group: int, entry: int) -> tuple[str, int] | None:
        return None if group == NONE else (self._calls.names.groups[group], entry)

    def _line(self, note: int) -> HostLine | None:
        lines = self._calls.lines
        return lines[note - 1] if 0 < note <= len(lines) else None

    def _take(self, count: int) -> array[int]:
        start, self._position = self._position, self._position + count
        if not 0 <= count <= len(self._numbers) - start:
            raise ValueError(f"a call needs {count:,} numbers, but {max(len(self._numbers) - start, 0):,} are left")
        return self._numbers[start : self._position]
