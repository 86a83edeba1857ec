"""How advice names the arguments that stream in."""

from dataclasses import replace

from tests.unit.sim.toy import program, superstep
from tilestep.advice.host.streaming import written_names
from tilestep.plan.steps import Argument, Frame, Program

FILE = "/home/me/train.py"
SOURCE = "def step(state, image, label):\n    return state + image\n"


def called(name: str, *arguments: str) -> Program:
    frames = (Frame(file=FILE, function="step", line=2, column=5, parent=0),)
    given = tuple(Argument(index=at, name=each, shape="f32[8]", size_bytes=32, result=None) for at, each in enumerate(arguments))
    return replace(program(replace(superstep(5), frame=1), name=name), frames=frames, arguments=given)


def names(name: str, *arguments: str, source: str | None = SOURCE) -> list[str]:
    return written_names(called(name, "carry", *arguments), arguments, {FILE: source}.get)


def test_elements_of_a_loop_have_the_names_of_its_bodys_parameters() -> None:
    assert names("jit_repeat_step", "elements[0]", "elements[1]['x']") == ["image", "label['x']"]
    assert names("jit_while_loop_step", "elements", source="step = lambda c, x: c\ndef step(c, x):\n    return c") == ["x"]
    assert names("jit_repeat_step", "elements['image']", source=None) == ["image"]


def test_elements_are_counted_where_their_names_are_not_known() -> None:
    assert names("jit_repeat_step", "elements[0]", "elements[1]['x']", source=None) == [
        "item 0 of the dataset's elements",
        "item 1['x'] of the dataset's elements",
    ]
    assert names("jit_repeat_step", "elements", source="def step(self, state, x):\n    return x") == ["the dataset's elements"]
    assert names("jit_repeat_step", "elements[0]", "elements[1]", source="def step(state, x, *more):\n    return x") == [
        "item 0 of the dataset's elements",
        "item 1 of the dataset's elements",
    ]


def test_inputs_of_a_stage_are_counted() -> None:
    assert names("jit_stage_2_forward", "args[1][0]", "args[0]['w']") == ["input 0 of stage 2", "args[0]['w']"]


def test_arguments_of_other_programs_keep_their_names() -> None:
    assert names("jit_step", "elements[0]", "args[1][0]") == ["elements[0]", "args[1][0]"]
