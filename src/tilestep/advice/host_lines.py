"""The lines of the host program that run programs, wait and read, and the uploads that have equal bytes, as a recording keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilestep.advice.finding import Line
from tilestep.recording.edits.script import made
from tilestep.sim.calls import Call, Dispatch, Put, Read, Wait


@dataclass(frozen=True, kw_only=True)
class HostLines:
    """What was kept of the calls beside their time.

    Attributes:
        runs: how often each line ran a program, by its key.
        reads: how often each line read results of a program, by its key.
        pauses: how often each line waited or read before the last run.
        in_groups: keys of the programs that ran in a group.
        contents: of values that the host put: equal for equal bytes.
    """

    runs: Mapping[int, Counter[Line]] = field(default_factory=dict[int, Counter[Line]])
    reads: Mapping[int, Counter[Line]] = field(default_factory=dict[int, Counter[Line]])
    pauses: Counter[Line] = field(default_factory=Counter[Line])
    in_groups: frozenset[int] = frozenset()
    contents: Mapping[int, int] = field(default_factory=dict[int, int])


def host_lines(calls: Sequence[Call]) -> HostLines:
    """What was kept of calls."""
    runs: dict[int, Counter[Line]] = {}
    reads: dict[int, Counter[Line]] = {}
    pauses: Counter[Line] = Counter()
    since: Counter[Line] = Counter()
    makers: dict[int, int] = {}
    contents: dict[int, int] = {}
    for call in calls:
        match call:
            case Dispatch():
                pauses.update(since)
                since.clear()
                makers.update(dict.fromkeys(made(call), call.key))
                if line := _line(call):
                    runs.setdefault(call.key, Counter())[line] += 1
            case Read() | Wait():
                if line := _line(call):
                    since[line] += 1
                    if isinstance(call, Read) and call.value in makers:
                        reads.setdefault(makers[call.value], Counter())[line] += 1
            case _:
                for value in made(call):  # its number is given again
                    makers.pop(value, None)
                if isinstance(call, Put) and call.contents:
                    contents[call.value] = call.contents
    in_groups = frozenset(call.key for call in calls if isinstance(call, Dispatch) and call.group is not None)
    return HostLines(runs=runs, reads=reads, pauses=pauses, in_groups=in_groups, contents=contents)


def most(lines: Counter[Line] | None) -> Line | None:
    """The line that is counted most often, of equal ones the first; None if there is none."""
    return max(lines, key=lambda line: lines[line]) if lines else None


def _line(call: Dispatch | Read | Wait) -> Line | None:
    return None if call.line is None else Line(file=call.line[0], number=call.line[1])
