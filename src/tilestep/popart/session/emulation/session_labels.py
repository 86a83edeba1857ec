"""The programs of a session as a PopART user knows them: their names, their tensors, and their lines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final, final

from tilestep.advice.finding import Line
from tilestep.figures.quantities import names_text
from tilestep.pjrt.running.entries import PlannedRun
from tilestep.pjrt.running.host_notes import current_line
from tilestep.plan.frames import rank_of_file, stack
from tilestep.plan.steps import Argument, Program
from tilestep.popart.builder.graph.origins import note_origin
from tilestep.popart.session.emulation.advice_words import operator_of
from tilestep.popart.session.emulation.stage_functions import Specs, StageFunctions
from tilestep.program.frames import Frame

ANCHORS: Final = "anchors"  # the program from which all values of an anchor leave
RUN: Final = "run"  # a session of one stage that accumulates nothing
WEIGHTS: Final = "weights from host"
_NAMES: Final = {
    "_take_weights": WEIGHTS,
    "watched_rows": ANCHORS,
    "watched_copy": "anchors of weights",
    "watched_sum": "sums of anchors",
    "_whole": RUN,
    "zeros": "accumulators of zeros",
    "_copied": "copies of weights",
    "_added": "sums of anchors",
    "_stay": "anchors that stay",
    "_every": "anchors of some microbatches",
}
_OF_STAGES: Final = (
    (re.compile(r"stage_(\d+)_watched_totals"), "anchors of stage {}"),
    (re.compile(r"stage_(\d+)_load_parameters"), "weights of stage {} from streaming memory"),
)
_STAGE: Final = re.compile(r"jit_stage_(\d+)_forward")
_WHOLE: Final = "jit__whole"  # a run of a pipeline that is one program
_PLACE: Final = re.compile(r"(.+)\[(\d+)\]")
_NOTES: Final = (note_origin.__qualname__, PurePath(note_origin.__code__.co_filename).name)  # function and file
_CONSOLE: Final = ("tilestep", "tilestep.exe")  # the script of this package's command


def program_name(name: str) -> str:
    """'jit_stage_1_forward_and_backward' is 'stage 1 forward and backward'."""
    plain = name.removeprefix("jit_")
    for pattern, said in _OF_STAGES:
        if found := pattern.fullmatch(plain):
            return said.format(found[1])
    return _NAMES.get(plain) or plain.strip("_").replace("_", " ")


def _at_ipus(name: str, ipus: Sequence[int]) -> str:
    """The weights come to each stage's IPUs in a program of its own."""
    if name != WEIGHTS:
        return name
    return f"weights to {'IPU' if len(ipus) == 1 else 'IPUs'} {names_text(list(map(str, ipus)), most=4)}"


def line_now() -> Line | None:
    """The line of the user's program that is being run; None if there is none."""
    line = current_line()
    return None if line is None or PurePath(line[0]).name in _CONSOLE else Line(file=line[0], number=line[1])


@final
class SessionLabels:
    """A session's programs in its user's words. Lines that made no operator are the one that prepared the session.

    Args: line: that one, if known.
    """

    def __init__(self, stages: StageFunctions, line: Line | None) -> None:
        self._stages, self._line = stages, line
        self._known: dict[int, Program] = {}

    def __call__(self, planned: PlannedRun) -> Program:
        """The program of a run."""
        if planned.key not in self._known:
            program = planned.program
            made = _of_operators(program.frames)
            arguments = self._arguments(program)
            names = {old.name: new.name for old, new in zip(program.arguments, arguments, strict=True)}
            memory = program.memory
            self._known[planned.key] = replace(
                program,
                name=_at_ipus(self._name(program.name), planned.ipus),
                frames=tuple(frame if number in made else self._frame(frame) for number, frame in enumerate(program.frames, 1)),
                arguments=arguments,
                memory=replace(memory, alive=tuple((names.get(name) or operator_of(name) or name, size) for name, size in memory.alive)),
            )
        return self._known[planned.key]

    def _name(self, name: str) -> str:
        said = program_name(name)
        return said if len(self._stages.functions) > 1 else said.removeprefix("stage 0 ").removesuffix(" of stage 0")

    def _frame(self, frame: Frame) -> Frame:
        if not rank_of_file(frame.file):
            return frame
        line = self._line
        return replace(frame, file="" if line is None else line.file, line=0 if line is None else line.number, column=0, function="")

    def _arguments(self, program: Program) -> tuple[Argument, ...]:
        """The arguments with the names of the model's tensors, as far as they are its weights and inputs."""
        stage = _STAGE.match(program.name)
        if stage is None and program.name != _WHOLE:
            return program.arguments
        params: Specs = self._stages.params[int(stage[1]) if stage else 0]
        weights = [(name, params[name].shape) for name in sorted(params)]
        inputs = list(zip(self._stages.inputs, (spec.shape for spec in self._stages.elements), strict=False))
        if stage is None:
            trains = any(argument.name.startswith("donated[") for argument in program.arguments)
            named = {"donated" if trains else "read": weights, "columns[0]": inputs}
        else:
            named = {"args[0]": weights}
            if not int(stage[1]):
                named["args[2]" if self._stages.aux[0] else "args[1]"] = inputs
        return tuple(_named(argument, named) for argument in program.arguments)


def _of_operators(frames: Sequence[Frame]) -> frozenset[int]:
    """The numbers of the frames of the user's program that called the builder. Args: frames: of a program."""
    made = [number for number, frame in enumerate(frames, 1) if (frame.function, PurePath(frame.file).name) == _NOTES]
    callers = frozenset(number for each in made for number in stack(frames, each))
    return frozenset(number for number in callers if PurePath(frames[number - 1].file).name not in _CONSOLE)


def _named(argument: Argument, tensors: Mapping[str, Sequence[tuple[str, Sequence[int]]]]) -> Argument:
    place = _PLACE.fullmatch(argument.name)
    names = tensors.get(place[1], ()) if place is not None else ()
    if place is None or int(place[2]) >= len(names):
        return argument
    name, shape = names[int(place[2])]
    dims = [int(dim) for dim in argument.shape.partition("[")[2].rstrip("]").split(",") if dim.isdigit()]
    return replace(argument, name=name) if dims[len(dims) - len(shape) :] == list(shape) else argument
