"""Wrappers are taken apart: what they wrap stands in their place, under their name."""

import pytest

from tests.golden.texts import module_text
from tilestep.errors import HloError
from tilestep.program import HloModule, parse_hlo
from tilestep.program.inline import inline_calls

ADD = """%wrapped (a: f32[4], b: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  %b = f32[4]{0} parameter(1)
  ROOT %sum = f32[4]{0} add(%b, %a), metadata={op_name="jit(f)/add"}
}"""
TWO = """%two (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  %twice = f32[4]{0} add(%a, %a)
  ROOT %minus = f32[4]{0} negate(%twice)
}"""


def inlined(entry: str, computations: str = "") -> HloModule:
    return inline_calls(parse_hlo(module_text(entry, computations=computations)))


def test_a_fusion_of_one_operation_becomes_that_operation() -> None:
    module = inlined(
        "  %x = f32[4]{0} parameter(0)\n  %y = f32[4]{0} parameter(1)\n  ROOT %r = f32[4]{0} fusion(%x, %y), kind=kLoop, calls=%wrapped",
        ADD,
    )
    root = module.entry.root
    assert (root.name, root.opcode, root.operands, root.op_name) == ("r", "add", ("y", "x"), "jit(f)/add")


def test_a_call_of_several_operations_becomes_all_of_them() -> None:
    module = inlined("  %x = f32[4]{0} parameter(0)\n  ROOT %r = f32[4]{0} call(%x), to_apply=%two", TWO)
    assert [(i.name, i.opcode, i.operands) for i in module.entry.instructions[1:]] == [
        ("r/twice", "add", ("x", "x")),
        ("r", "negate", ("r/twice",)),
    ]


def test_calls_inside_of_calls_are_taken_apart_too() -> None:
    outer = (
        TWO
        + "\n\n%outer (a: f32[4]) -> f32[4] {\n  %a = f32[4]{0} parameter(0)\n  ROOT %c = f32[4]{0} fusion(%a), kind=kLoop, calls=%two\n}"
    )
    module = inlined("  %x = f32[4]{0} parameter(0)\n  ROOT %r = f32[4]{0} call(%x), to_apply=%outer", outer)
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "add", "negate"]
    assert module.entry.root.name == "r"


def test_a_wrapper_that_returns_its_operand_disappears() -> None:
    same = "%same (a: f32[4]) -> f32[4] {\n  ROOT %a = f32[4]{0} parameter(0)\n}"
    module = inlined("  %x = f32[4]{0} parameter(0)\n  %c = f32[4]{0} call(%x), to_apply=%same\n  ROOT %r = f32[4]{0} negate(%c)", same)
    assert module.entry.root.operands == ("x",)


def test_an_asynchronous_wrapper_becomes_what_it_wraps() -> None:
    entry = (
        "  %x = f32[4]{0} parameter(0)\n"
        "  %s = ((f32[4]{0}), f32[4]{0}, u32[]) async-start(%x), calls=%two\n"
        "  %u = ((f32[4]{0}), f32[4]{0}, u32[]) async-update(%s)\n"
        "  %d = f32[4]{0} async-done(%u)\n"
        "  ROOT %r = f32[4]{0} abs(%d)"
    )
    module = inlined(entry, TWO)
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "add", "negate", "abs"]
    assert module.entry.root.operands == ("s",)


def test_a_started_collective_takes_the_shape_of_its_end() -> None:
    entry = (
        "  %x = f32[4]{0} parameter(0)\n"
        "  %s = (f32[4]{0}, f32[16]{0}) all-gather-start(%x), replica_groups={{0,1,2,3}}, dimensions={0}\n"
        "  ROOT %d = f32[16]{0} all-gather-done(%s)"
    )
    root = inlined(entry).entry.root
    assert (root.name, root.opcode, str(root.shape)) == ("s", "all-gather", "f32[16]")


def test_a_collective_that_never_ends_is_an_error() -> None:
    with pytest.raises(HloError, match=r"line 5: all-reduce-start 's' has no all-reduce-done"):
        inlined("  %x = f32[4]{0} parameter(0)\n  ROOT %s = f32[4]{0} all-reduce-start(%x), replica_groups={}")


def test_computations_that_call_each_other_in_a_circle_are_an_error() -> None:
    circle = "%one () -> f32[] {\n  ROOT %c = f32[] call(), to_apply=%one\n}"
    with pytest.raises(HloError, match="computation 'one' calls itself"):
        inlined("  ROOT %r = f32[] call(), to_apply=%one", circle)


def test_a_barrier_goes_and_what_it_held_back_is_named_directly() -> None:
    module = inlined(
        "  %x = f32[4]{0} parameter(0)\n  %y = f32[4]{0} parameter(1)\n  %t = (f32[4]{0}, f32[4]{0}) tuple(%x, %y)\n"
        "  %o = (f32[4]{0}, f32[4]{0}) opt-barrier(%t)\n  %a = f32[4]{0} get-tuple-element(%o), index=1\n  %n = f32[4]{0} negate(%a)\n"
        "  %m = f32[4]{0} opt-barrier(%n)\n  ROOT %r = f32[4]{0} abs(%m)"
    )
    assert [(i.name, i.operands, i.after) for i in module.entry.instructions[2:]] == [("n", ("y",), ("x", "y")), ("r", ("n",), ())]


def test_what_a_wrapper_wraps_waits_as_the_wrapper_does() -> None:
    entry = (
        "  %x = f32[4]{0} parameter(0)\n  %y = f32[4]{0} negate(%x)\n  %t = (f32[4]{0}, f32[4]{0}) tuple(%x, %y)\n"
        "  %o = (f32[4]{0}, f32[4]{0}) opt-barrier(%t)\n  %a = f32[4]{0} get-tuple-element(%o), index=0\n"
        "  ROOT %f = f32[4]{0} fusion(%a), kind=kLoop, calls=%inner"
    )
    inner = "%inner (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n  %m = f32[4]{0} abs(%p)\n  ROOT %k = f32[4]{0} negate(%m)\n}"
    module = inlined(entry, inner)
    assert [(i.name, i.operands, i.after) for i in module.entry.instructions[2:]] == [
        ("f/m", ("x",), ("x", "y")),
        ("f", ("f/m",), ("x", "y")),
    ]


def test_a_tuple_stays_if_somebody_else_uses_it_or_its_barrier() -> None:
    entry = "  %x = f32[4]{0} parameter(0)\n  %t = (f32[4]{0}) tuple(%x)\n  ROOT %o = (f32[4]{0}) opt-barrier(%t)"
    assert [(i.name, i.opcode) for i in inlined(entry).entry.instructions] == [("x", "parameter"), ("t", "tuple")]
    entry = "  %x = f32[4]{0} parameter(0)\n  %t = (f32[4]{0}) tuple(%x)\n  %o = (f32[4]{0}) opt-barrier(%t)\n"
    entry += "  %e = f32[4]{0} get-tuple-element(%t), index=0\n  %n = f32[4]{0} negate(%e)\n  ROOT %r = (f32[4]{0}) tuple(%n)"
    assert [i.name for i in inlined(entry).entry.instructions] == ["x", "t", "e", "n", "r"]
