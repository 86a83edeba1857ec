"""Programs elsewhere: on the CPU, as one program with their neighbours, or called with the shapes of another."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from tilestep.recording.edits.script import Change, Script, used, using
from tilestep.sim.calls import Call, Dispatch, Forget, Put, Read, Wait

LOOP_STEPS: Final = 100  # calls that one call with a loop would do
MERGED = "tilestep merged"  # name of the program group that stands for one program


def on_cpu(keys: Collection[int]) -> Change:
    """The edit that runs programs on the CPU: the host reads their arguments, and has their results at once.

    The time of the CPU itself does not count. Members of program groups stay.
    """

    def change(script: Script) -> Script:
        calls: list[Call] = []
        for call in script.calls:
            if not (isinstance(call, Dispatch) and call.key in keys and call.group is None):
                calls.append(call)
                continue
            for value in dict.fromkeys(used(call)):
                calls += (Wait(value), Read(value))
            program = script.programs[call.key]
            for ipu, row in zip(call.simulated, call.results, strict=True):
                calls += (
                    Put(value, ipu, result.size_bytes, result.on_host, None) for value, result in zip(row, program.results, strict=True)
                )
        return replace(script, calls=tuple(calls))

    return change


def passed_straight(keys: Collection[int]) -> Change:
    """The edit that leaves out programs that copy their one argument: whoever takes the copy takes the argument.

    Members of program groups stay.
    """

    def change(script: Script) -> Script:
        calls: list[Call] = []
        originals: dict[int, int] = {}  # by copy
        copies = Counter[int]()  # original -> copies that are still there
        forgotten: set[int] = set()  # originals that only copies keep

        for call in script.calls:
            match call:
                case Dispatch() if call.key in keys and call.group is None:
                    for (copy,), (value,) in zip(call.results, call.arguments, strict=True):
                        originals[copy] = originals.get(value, value)
                        copies[originals[copy]] += 1
                case Forget():
                    value = originals.pop(call.value, call.value)
                    if value != call.value:
                        copies[value] -= 1
                    else:
                        forgotten.add(value)
                    if value in forgotten and copies[value] <= 0:
                        forgotten.discard(value)
                        del copies[value]
                        calls.append(Forget(value))
                case _:
                    calls.append(using(call, originals))
        return replace(script, calls=tuple(calls))

    return change


def merged(keys: Collection[int], *, at_most: int | None = None, by_turns: bool = False) -> Change:
    """The edit that makes one program of calls that follow each other: neighbours share a load and a dispatch, and pass values on the chip.

    It is an estimate: in place of the one program, the calls become members of a program group, an entry for calls between which the host
    waits for nothing.

    Args:
        keys: of the programs; calls of other programs end an entry.
        at_most: calls in one entry; None: any number.
        by_turns: whether an entry has each program once, as a function without a loop has.
    """

    def change(script: Script) -> Script:
        entry, size = 1, 0
        inside: set[int] = set()
        calls: list[Call] = []
        for call in script.calls:
            match call:
                case Dispatch() if call.key in keys and call.group is None:
                    if size == at_most or (by_turns and size and call.key in inside):
                        entry, size = entry + 1, 0
                    inside = {*inside, call.key} if size else {call.key}
                    size += 1
                    calls.append(call._replace(group=(MERGED, entry)))
                    continue
                case Dispatch() | Wait() | Read():
                    entry, size = entry + bool(size), 0
                case _:
                    pass
            calls.append(call)
        return replace(script, calls=tuple(calls))

    return change


def called_as(keys: Collection[int], other: int) -> Change:
    """The edit that calls one program in the place of others, as if their arguments were filled up to its shapes."""

    def change(script: Script) -> Script:
        def renamed(call: Call) -> Call:
            return call._replace(key=other) if isinstance(call, Dispatch) and call.key in keys else call

        return replace(script, calls=tuple(map(renamed, script.calls)))

    return change


def of_one_loop(keys: Collection[int], other: int, group: str) -> Change:
    """The edit that calls one loop in the place of equal ones. Args: other: its program. group: its program group."""

    def change(script: Script) -> Script:
        entries: dict[object, int] = {}

        def renamed(call: Call) -> Call:
            if not (isinstance(call, Dispatch) and (call.key in keys or call.key == other)):
                return call
            return call._replace(key=other, group=(group, entries.setdefault(call.group, len(entries))))

        return replace(script, calls=tuple(map(renamed, script.calls)))

    return change
