"""The lines of the user's code that findings are about: where a program is called, and where a step of it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilestep.plan.frames import stack, user_frame
from tilestep.plan.steps import Branch, Collective, HostCall, Loop, Node, Program, Series, Superstep
from tilestep.report.advice.finding import Line

Leaf = Superstep | Collective | HostCall


def leaves(node: Node) -> Iterator[Leaf]:
    """All leaves below a node, in order."""
    match node:
        case Series():
            for child in node.nodes:
                yield from leaves(child)
        case Loop():
            yield from leaves(node.body)
        case Branch():
            for arm in node.arms:
                yield from leaves(arm)
        case _:
            yield node


def line_of(program: Program, frame: int) -> Line | None:
    """The line that the user wrote of a step's line and its callers; None if that is unknown."""
    number = user_frame(program.frames, frame)
    return _line(program, number) if number else None


def line_of_call(program: Program) -> Line | None:
    """Where the user calls the program's function; the function itself if its caller is unknown; None if both are."""
    found: Counter[int] = Counter()
    name = _plain(program.name.removeprefix("jit_"))
    for leaf in leaves(program.body):
        lines = [number for number in stack(program.frames, leaf.frame) if user_frame(program.frames, number) == number]
        own = [k for k, number in enumerate(lines) if _plain(program.frames[number - 1].function.rpartition(".")[2]) == name]
        if own:
            found[lines[min(own[-1] + 1, len(lines) - 1)]] += 1
        elif lines:
            found[lines[0]] += 1
    return _line(program, found.most_common(1)[0][0]) if found else None


def _line(program: Program, number: int) -> Line:
    frame = program.frames[number - 1]
    return Line(file=frame.file, number=frame.line)


def _plain(name: str) -> str:
    """A function's name as programs spell it: without the characters that HLO does not allow."""
    return "".join(character for character in name if character.isalnum())
