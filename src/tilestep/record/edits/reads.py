"""The host waits and reads later, or results do not leave the IPU at all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tilestep.plan.steps import Program
from tilestep.record.edits.script import Change, Script, made, with_changed
from tilestep.sim.calls import Call, Dispatch, Forget, Read, Wait


def read_at_the_end(script: Script) -> Script:
    """The edit that waits and reads after the last dispatch only. Values that a program takes over are read before."""
    ends = max((index for index, call in enumerate(script.calls) if isinstance(call, Dispatch)), default=-1)
    taken = _taken_over(script)
    calls: list[Call] = []
    later: list[Call] = []
    waiting: set[int] = set()
    for call in script.calls[: ends + 1]:
        match call:
            case Wait() | Read() if call.value not in taken:
                later.append(call)
                waiting.add(call.value)
            case Forget() if call.value in waiting:
                later.append(call)
            case _:
                if not waiting.isdisjoint(made(call)):  # its number is given again
                    calls, later, waiting = [*calls, *later], [], set()
                calls.append(call)
    return replace(script, calls=(*calls, *later, *script.calls[ends + 1 :]))


def without_results(key: int, results: Collection[int]) -> Change:
    """The edit with which a program does not return some results. Its supersteps stay."""

    def shorter(program: Program) -> Program:
        return replace(program, results=tuple(replace(r, size_bytes=0) if r.index in results else r for r in program.results))

    return with_changed([key], shorter)


def _taken_over(script: Script) -> set[int]:
    """Values whose memory a result takes."""
    positions = {
        key: [argument.index for argument in program.arguments if argument.result is not None] for key, program in script.programs.items()
    }
    return {row[index] for call in script.calls if isinstance(call, Dispatch) for row in call.arguments for index in positions[call.key]}
