"""The host waits and reads later, or results do not leave the IPU at all."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from tilestep.plan.steps import Program
from tilestep.recording.edits.script import Change, Script, values_made_by, with_changed
from tilestep.sim.calls import Call, Dispatch, Forget, HostLine, Read, Wait


def read_at_the_end(script: Script, *, keeping: Collection[HostLine] = ()) -> Script:
    """The edit that waits and reads after the last dispatch only. Values that a program takes over are read before.

    Args: keeping: lines at which the host goes on to wait and read.
    """
    ends = max((index for index, call in enumerate(script.calls) if isinstance(call, Dispatch)), default=-1)
    taken = _taken_over(script)
    calls: list[Call] = []
    later: list[Call] = []
    waiting: set[int] = set()
    for call in script.calls[: ends + 1]:
        match call:
            case Wait() | Read() if call.value not in taken and call.line not in keeping:
                later.append(call)
                waiting.add(call.value)
            case Forget() if call.value in waiting:
                later.append(call)
            case _:
                if not waiting.isdisjoint(values_made_by(call)):  # its number is given again
                    calls, later, waiting = [*calls, *later], [], set()
                calls.append(call)
    return replace(script, calls=(*calls, *later, *script.calls[ends + 1 :]))


def without_results(key: int, results: Collection[int]) -> Change:
    """The edit with which a program does not return some results. Its supersteps stay."""

    return with_changed([key], lambda program: _shorter(program, results))


def _shorter(program: Program, results: Collection[int]) -> Program:
    return replace(program, results=tuple(replace(r, size_bytes=0) if r.index in results else r for r in program.results))


def _taken_over(script: Script) -> set[int]:
    """Values whose memory a result takes."""
    positions = {
        key: [argument.index for argument in program.arguments if argument.result is not None] for key, program in script.programs.items()
    }
    return {row[index] for call in script.calls if isinstance(call, Dispatch) for row in call.arguments for index in positions[call.key]}


def read_of_last_run(key: int, *, keeping: Collection[HostLine] = ()) -> Change:
    """The edit that waits for and reads results of a program only after the last run of which results were read before.

    Args: keeping: lines at which the host goes on to wait and read.
    """

    def change(script: Script) -> Script:
        asked = [found for found in asked_of(script, key) if found.line not in keeping]
        last = max((found.run for found in asked), default=-1)
        dropped = {found.position for found in asked if found.run != last}
        return replace(script, calls=tuple(call for position, call in enumerate(script.calls) if position not in dropped))

    return change


def leaving_seldom(key: int, results: Collection[int], *, every: int) -> Change:
    """The edit with which some results of a program leave the IPU after each so many runs only. Args: results: their numbers."""

    def change(script: Script) -> Script:
        dropped = {found.position for found in asked_of(script, key, results) if (found.run + 1) % every}
        other, run = max(script.programs) + 1, -1  # the same program without these results
        calls: list[Call] = []
        for position, call in enumerate(script.calls):
            if isinstance(call, Dispatch) and call.key == key:
                run += 1
                calls.append(call if (run + 1) % every == 0 else call._replace(key=other))
            elif position not in dropped:
                calls.append(call)
        return replace(script, calls=tuple(calls)).with_programs({other: _shorter(script.programs[key], results)})

    return change


def runs_read(script: Script, key: int) -> int:
    """After how many runs of a program the host reads results of it."""
    return len({found.run for found in asked_of(script, key) if found.is_read})


class AskedRead(NamedTuple):
    """The host waits for a result of a program, or reads it."""

    position: int  # among the calls
    run: int  # the program's run that gave it
    size_bytes: int
    line: HostLine | None
    is_read: bool


def asked_of(script: Script, key: int, results: Collection[int] | None = None) -> Iterator[AskedRead]:
    """Each wait for and each read of a result of a program. Args: results: None: of any."""
    makers: dict[int, tuple[int, int]] = {}
    sizes = [(r.index, r.size_bytes) for r in script.programs[key].results if results is None or r.index in results]
    run = -1
    for position, call in enumerate(script.calls):
        match call:
            case Wait() | Read() if call.value in makers:
                yield AskedRead(position, *makers[call.value], call.line, isinstance(call, Read))
            case Dispatch() if call.key == key:
                run += 1
                makers.update((row[index], (run, size)) for row in call.results for index, size in sizes)
            case _:
                for value in values_made_by(call):  # its number is given again
                    makers.pop(value, None)


def last_state_reads(script: Script) -> Script:
    """The edit that reads what stays on the devices only the last time that it was read: behind the last of these dispatches."""
    found = list(_state_reads(script))
    last = found[-1].turn if found else 0
    dropped = {read.position for read in found if read.turn != last}
    return replace(script, calls=tuple(call for position, call in enumerate(script.calls) if position not in dropped))


def state_bytes_read(script: Script) -> int:
    """Bytes of what stays on the devices, as they were read last; 0 if that was read once at most."""
    found = list(_state_reads(script))
    last = {read.value: read.size_bytes for read in found if read.turn == found[-1].turn}  # which may have been read twice
    return sum(last.values()) if len({read.turn for read in found}) > 1 else 0


class _StateRead(NamedTuple):
    position: int  # among the calls
    turn: int  # dispatches before it
    value: int
    size_bytes: int


def _state_reads(script: Script) -> Iterator[_StateRead]:
    """The reads of values that took over the memory of an argument."""
    kept = {key: [(r.index, r.size_bytes) for r in program.results if r.argument is not None] for key, program in script.programs.items()}
    sizes: dict[int, int] = {}
    turn = 0
    for position, call in enumerate(script.calls):
        match call:
            case Read() if call.value in sizes:
                yield _StateRead(position, turn, call.value, sizes[call.value])
            case _:
                for value in values_made_by(call):  # its number is given again
                    sizes.pop(value, None)
        if isinstance(call, Dispatch):
            turn += 1
            sizes.update({row[index]: size for row in call.results for index, size in kept.get(call.key, ())})
