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
    path = _common_path(program)
    name = _plain(program.name.removeprefix("jit_"))
    own = [_plain(program.frames[number - 1].function.rpartition(".")[2]) == name for number in path]
    place = len(path) - 1
    if True in own:
        place -= own[::-1].index(True)
        while place and own[place]:
            place -= 1
    return _line(program, path[place]) if path else None


def _common_path(program: Program) -> list[int]:
    """The user's lines that most steps have in common, callers first. Steps of JAX's functions may have lines of another call."""
    paths = [
        [number for number in reversed(stack(program.frames, leaf.frame)) if user_frame(program.frames, number) == number]
        for leaf in leaves(program.body)
    ]
    path: list[int] = []
    while paths := [each for each in paths if len(each) > len(path)]:
        [(number, times)] = Counter(each[len(path)] for each in paths).most_common(1)
        if 2 * times <= len(paths):
            break
        paths = [each for each in paths if each[len(path)] == number]
        path.append(number)
    return path


def _line(program: Program, number: int) -> Line:
    frame = program.frames[number - 1]
    return Line(file=frame.file, number=frame.line)


def _plain(name: str) -> str:
    """A function's name as programs spell it: without the characters that HLO does not allow."""
    return "".join(character for character in name if character.isalnum())
