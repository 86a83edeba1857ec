"""What edits change: the calls of a host program, and its programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilestep.plan.steps import Program
from tilestep.sim.calls import Call, Copy, Dispatch, Forget, Put, Read, Wait
from tilestep.sim.snapshot import Snapshot


class ImpossibleEditError(ValueError):
    """The host program cannot be written so: it uses a value again that the edit takes away."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """The calls of a host program in order, and its programs by key."""

    calls: Sequence[Call]  # in order
    programs: Mapping[int, Program]  # programs by key

    def with_programs(self, changed: Mapping[int, Program]) -> Script:
        """The script with other programs in the place of some."""
        return replace(self, programs={**self.programs, **changed})


Change = Callable[[Script], Script]
"""An edit. Raises: ImpossibleEditError."""


def in_turn(*changes: Change) -> Change:
    """Several edits, one after the other, as one."""

    def change(script: Script) -> Script:
        for each in changes:
            script = each(script)
        return script

    return change


def with_changed(keys: Sequence[int], program: Callable[[Program], Program]) -> Change:
    """The edit that changes the programs with these keys."""
    return lambda script: script.with_programs({key: program(script.programs[key]) for key in keys})


def used(call: Call) -> Iterator[int]:
    """The values that a call uses, each as often as it does. To forget a value is no use."""
    match call:
        case Dispatch():
            for row in call.arguments:
                yield from row
        case Copy():
            yield call.source
        case Wait() | Read():
            yield call.value
        case _:
            return


def values_made_by(call: Call) -> Iterator[int]:
    """The values that a call makes."""
    match call:
        case Dispatch():
            for row in call.results:
                yield from row
        case Copy():
            yield call.target
        case Put():
            yield call.value
        case _:
            return


def using(call: Call, now: Mapping[int, int]) -> Call:
    """The call with other values in the place of some that it uses."""
    match call:
        case Dispatch():
            return call._replace(arguments=tuple(tuple(now.get(value, value) for value in row) for row in call.arguments))
        case Copy():
            return call._replace(source=now.get(call.source, call.source))
        case Wait() | Read():
            return call._replace(value=now.get(call.value, call.value))
        case _:
            return call


def without_forgets(calls: Sequence[Call], before: Snapshot) -> Sequence[Call]:
    """The calls that take time: to forget a value takes none. All of them, if a number names one value after another.

    Args: before: the state before the first call.
    """
    numbers = [value for call in calls for value in values_made_by(call)]
    if len({*numbers, *(value.number for value in before.values)}) < len(numbers) + len(before.values):
        return calls
    return [call for call in calls if not isinstance(call, Forget)]


def unused_number(calls: Sequence[Call]) -> int:
    """A number such that neither it nor a smaller one is a value of any call."""
    least = 0
    for call in calls:
        for value in values_made_by(call):
            least = min(least, value)
        for value in (call.value,) if isinstance(call, Forget) else used(call):
            least = min(least, value)
    return least - 1
