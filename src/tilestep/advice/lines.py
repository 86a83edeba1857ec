"""The lines of the user's code that findings are about: where a program is called, and where a step of it comes from."""

from __future__ import annotations

from collections import Counter

from tilestep.advice.finding import Line
from tilestep.plan.frames import user_frame, user_frames
from tilestep.plan.steps import Program, leaves


def line_of(program: Program, frame: int) -> Line | None:
    """The line that the user wrote of a step's line and its callers; None if that is unknown."""
    number = user_frame(program.frames, frame)
    return _line(program, number) if number else None


def line_of_call(program: Program) -> Line | None:
    """Where the user calls the program's function; the function itself if its caller is unknown; None if both are."""
    path = _common_path(program)
    name = plain(program.name.removeprefix("jit_"))
    own = [plain(program.frames[number - 1].function.rpartition(".")[2]) == name for number in path]
    place = len(path) - 1
    if True in own:
        place -= own[::-1].index(True)
        while place and own[place]:
            place -= 1
    return _line(program, path[place]) if path else None


def _common_path(program: Program) -> list[int]:
    """The user's lines that most steps have in common, callers first. Steps of JAX's functions may have lines of another call."""
    own = user_frames(program.frames)
    steps = Counter(own[leaf.frame] for leaf in leaves(program.body))  # below each line
    called: dict[int, list[int]] = {}
    for number in range(len(program.frames), 0, -1):  # whom a line calls comes behind it
        if steps[number]:
            caller = own[program.frames[number - 1].parent]
            steps[caller] += steps[number]
            called.setdefault(caller, []).append(number)
    path: list[int] = []
    while further := called.get(path[-1] if path else 0, []):
        number = max(further, key=lambda each: steps[each])
        if 2 * steps[number] <= sum(steps[each] for each in further):
            break
        path.append(number)
    return path


def _line(program: Program, number: int) -> Line:
    frame = program.frames[number - 1]
    return Line(file=frame.file, number=frame.line)


def plain(name: str) -> str:
    """A function's name as programs spell it: without the characters that HLO does not allow."""
    return "".join(character for character in name if character.isalnum())
