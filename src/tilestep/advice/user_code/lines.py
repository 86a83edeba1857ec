"""The lines of the user's code that findings are about: where it calls programs, waits and reads, and where a step of one comes from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilestep.advice.finding import Line
from tilestep.plan.frames import user_frame, user_frames
from tilestep.plan.steps import Program, leaves
from tilestep.recording.edits.script import values_made_by
from tilestep.sim.calls import Call, Dispatch, Put, Read, Wait


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
                makers.update(dict.fromkeys(values_made_by(call), call.key))
                if line := _host_line(call):
                    runs.setdefault(call.key, Counter())[line] += 1
            case Read() | Wait():
                if line := _host_line(call):
                    since[line] += 1
                    if isinstance(call, Read) and call.value in makers:
                        reads.setdefault(makers[call.value], Counter())[line] += 1
            case _:
                for value in values_made_by(call):  # its number is given again
                    makers.pop(value, None)
                if isinstance(call, Put) and call.contents:
                    contents[call.value] = call.contents
    in_groups = frozenset(call.key for call in calls if isinstance(call, Dispatch) and call.group is not None)
    return HostLines(runs=runs, reads=reads, pauses=pauses, in_groups=in_groups, contents=contents)


def most(lines: Counter[Line] | None) -> Line | None:
    """The line that is counted most often, of equal ones the first; None if there is none."""
    return max(lines, key=lambda line: lines[line]) if lines else None


def _host_line(call: Dispatch | Read | Wait) -> Line | None:
    return None if call.line is None else Line(file=call.line[0], number=call.line[1])
