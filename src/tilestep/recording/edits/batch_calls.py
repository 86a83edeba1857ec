"""Fewer calls of a program: each does the work of several, such as with a larger batch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tilestep.plan.steps import Program
from tilestep.recording.edits.script import Change, Script, used, using
from tilestep.sim.calls import Call, Dispatch, Forget, Put, Read, Wait


def in_fewer_calls(key: int, larger: Program, times: int) -> Change:
    """The edit that leaves out all calls of a program but the first of each `times`, which do the work of all.

    Whoever takes, waits for or reads what a call gave that is left out takes what the call before it gave, and reads it once. What the
    host put for calls that are left out is not put. Members of program groups stay.

    Args:
        key: of the program.
        larger: what takes its place.
        times: as much work as it does.
    """

    def change(script: Script) -> Script:
        own = [index for index, call in enumerate(script.calls) if isinstance(call, Dispatch) and call.key == key and call.group is None]
        left_out = {index for place, index in enumerate(own) if place % times}
        elsewhere = {value for index, call in enumerate(script.calls) if index not in left_out for value in used(call)}
        unused = {value for index in left_out for value in used(script.calls[index])} - elsewhere
        unused &= {call.value for call in script.calls if isinstance(call, Put)}
        return replace(script, calls=_without(script, left_out, unused, key)).with_programs({key: larger})

    return change


def _without(script: Script, left_out: set[int], unused: set[int], key: int) -> list[Call]:
    calls: list[Call] = []
    given: Sequence[Sequence[int]] = ()  # by the last call that stays
    same: dict[int, int] = {}  # by a value that is not made any more
    alive = Counter[int]()  # names of each value that the host program has not forgotten; one more while calls that are left out may come
    asked: set[tuple[type[Call], int]] = set()  # waits and reads of values that have other names

    def forget(value: int) -> None:
        alive[value] -= 1
        if alive[value] <= 0:
            del alive[value]
            calls.append(Forget(value))

    for index, call in enumerate(script.calls):
        match call:
            case Dispatch() if index in left_out:
                for row, kept in zip(call.results, given, strict=True):
                    same.update(zip(row, kept, strict=True))
                    alive.update(kept)
            case Dispatch():
                calls.append(using(call, same))
                if call.key == key and call.group is None:
                    for value in (value for row in given for value in row):
                        forget(value)
                    given = call.results
                    alive.update(value for row in (*given, *given) for value in row)
            case Put() if call.value in unused:
                pass
            case Wait() | Read():
                asking = call._replace(value=same.get(call.value, call.value))
                if asking.value not in alive:
                    calls.append(asking)
                elif (type(call), asking.value) not in asked:
                    asked.add((type(call), asking.value))
                    calls.append(asking)
            case Forget() if call.value in unused:
                pass
            case Forget():
                forget(same.get(call.value, call.value))
            case _:
                calls.append(using(call, same))
    return calls
