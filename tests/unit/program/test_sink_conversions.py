"""Conversions that XLA:CPU moved in front of a loop go back into it, so that products of halves stay products of halves."""

import pytest

from tests.golden.texts import clean
from tilestep.program import HloModule, parse_hlo

LOOP = """HloModule loop, entry_computation_layout={(f16[64,64]{1,0}, f16[64,8]{1,0})->f16[64,8]{1,0}}

%body (carried: (s32[], f16[64,8], f32[64,64])) -> (s32[], f16[64,8], f32[64,64]) {
  %carried = (s32[], f16[64,8]{1,0}, f32[64,64]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%carried), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %w = f32[64,64]{1,0} get-tuple-element(%carried), index=2
  %x = f16[64,8]{1,0} get-tuple-element(%carried), index=1
  %up = f32[64,8]{1,0} convert(%x)
  %dot = f32[64,8]{1,0} dot(%w, %up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %down = f16[64,8]{1,0} convert(%dot)
  ROOT %new = (s32[], f16[64,8]{1,0}, f32[64,64]{1,0}) tuple(%next, %down, %w)
}

%condition (seen: (s32[], f16[64,8], f32[64,64])) -> pred[] {
  %seen = (s32[], f16[64,8]{1,0}, f32[64,64]{1,0}) parameter(0)
  %k = s32[] get-tuple-element(%seen), index=0
  %many = s32[] constant(7)
  ROOT %less = pred[] compare(%k, %many), direction=LT
}

ENTRY %main (a: f16[64,64], b: f16[64,8]) -> f16[64,8] {
  %a = f16[64,64]{1,0} parameter(0)
  %b = f16[64,8]{1,0} parameter(1)
  %zero = s32[] constant(0)
  %wide = f32[64,64]{1,0} convert(%a)METADATA
  %start = (s32[], f16[64,8]{1,0}, f32[64,64]{1,0}) tuple(%zero, %b, %wide)
  %while = (s32[], f16[64,8]{1,0}, f32[64,64]{1,0}) while(%start), condition=%condition, body=%body
  ROOT %out = f16[64,8]{1,0} get-tuple-element(%while), index=1
}
"""


def cleaned(text: str) -> HloModule:
    return clean(parse_hlo(text))


def test_a_product_in_a_loop_keeps_its_halves() -> None:
    module = cleaned(LOOP.replace("METADATA", ""))
    dot = module.computations["body"].by_name["dot"]
    assert dot.leaves[0].dtype == "f16"
    assert all(module.computations["body"].by_name[operand].leaves[0].dtype == "f16" for operand in dot.operands)
    assert [leaf.dtype for leaf in module.entry.by_name["while"].leaves] == ["s32", "f16", "f16"]
    assert "wide" not in module.entry.by_name


def test_a_product_reads_halves_through_a_view() -> None:
    text = LOOP.replace("METADATA", "").replace("f32[64,64]", "f32[1,64,64]").replace("f32[1,64,64]{1,0}", "f32[1,64,64]{2,1,0}")
    text = text.replace("f16[64,64]", "f16[1,64,64]").replace("f16[1,64,64]{1,0}", "f16[1,64,64]{2,1,0}")
    view = "  %view = f32[64,64]{1,0} bitcast(%w)\n"
    module = cleaned(text.replace("  %dot", view + "  %dot").replace("dot(%w", "dot(%view"))
    body = module.computations["body"].by_name
    assert [body[name].leaves[0].dtype for name in (*body["dot"].operands, "dot", "view")] == ["f16"] * 4
    assert "wide" not in module.entry.by_name


MOVED = LOOP.replace("METADATA", "").replace(
    "  %start",
    "  %view = f32[64,64]{0,1} bitcast(%wide)\n  %turned = f32[64,64]{1,0} copy(%view)\n  %start",
)
MOVED = MOVED.replace("tuple(%zero, %b, %wide)", "tuple(%zero, %b, %turned)")


def test_what_is_moved_in_front_of_a_loop_is_moved_in_halves() -> None:
    module = cleaned(MOVED)
    entry = module.entry.by_name
    assert module.computations["body"].by_name["dot"].leaves[0].dtype == "f16"
    assert [str(entry[name].shape) for name in ("view", "turned")] == ["f16[64,64]"] * 2
    assert (entry["view"].operands, entry["turned"].operands, "wide" in entry) == (("a",), ("view",), False)
    assert entry["start"].operands[2] == "turned"


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("  %while = ", "  %other = f32[64,64]{1,0} sine(%turned)\n  %while = "),  # something else reads it
        ("%turned = f32[64,64]{1,0} copy(%view)", "%bits = s32[64,64]{0,1} bitcast(%view)\n  %turned = f32[64,64]{1,0} bitcast(%bits)"),
    ],
)
def test_a_float_that_is_more_than_moved_stays(what: str, by: str) -> None:
    module = cleaned(MOVED.replace(what, by))
    assert module.computations["body"].by_name["dot"].leaves[0].dtype == "f32"
    assert module.entry.by_name["turned"].leaves[0].dtype == "f32"


def test_a_view_that_something_else_reads_stays() -> None:
    text = LOOP.replace("METADATA", "")
    view = "  %view = f32[64,64]{1,0} bitcast(%w)\n  %other = f32[64,64]{1,0} sine(%view)\n"
    text = text.replace("  %dot", view + "  %dot").replace("dot(%w", "dot(%view").replace("%next, %down, %w)", "%next, %down, %w, %other)")
    before, after = "(s32[], f16[64,8]{1,0}, f32[64,64]{1,0})", "(s32[], f16[64,8]{1,0}, f32[64,64]{1,0}, f32[64,64]{1,0})"
    text = text.replace(before, after).replace("tuple(%zero, %b, %wide)", "tuple(%zero, %b, %wide, %wide)")
    assert cleaned(text).computations["body"].by_name["dot"].leaves[0].dtype == "f32"


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("convert(%a)METADATA", 'convert(%a), metadata={op_name="jit(f)/convert_element_type"}'),  # the author's own
        ("ROOT %out = f16[64,8]{1,0} get-tuple-element(%while), index=1", "ROOT %out = f32[64,64]{1,0} get-tuple-element(%while), index=2"),
        ("tuple(%next, %down, %w)", "tuple(%next, %down, %grown)"),  # changed by the loop
    ],
    ids=["author", "read behind the loop", "changed"],
)
def test_other_floats_stay_floats(what: str, by: str) -> None:
    text = LOOP.replace(what, by).replace("METADATA", "")
    if "%grown" in by:
        text = text.replace("  %dot = ", "  %grown = f32[64,64]{1,0} add(%w, %w)\n  %dot = ")
    module = cleaned(text)
    assert [leaf.dtype for leaf in module.entry.by_name["while"].leaves] == ["s32", "f16", "f32"]
    assert module.computations["body"].by_name["w"].leaves[0].dtype == "f32"


def test_a_conversion_that_a_loop_carries_twice_stays_for_the_other_use() -> None:
    """The second element is handed on without being read; only the first goes back to its product."""
    text = LOOP.replace("METADATA", "").replace(", f32[64,64]{1,0})", ", f32[64,64]{1,0}, f32[64,64]{1,0})")
    text = text.replace(", f32[64,64])", ", f32[64,64], f32[64,64])").replace("tuple(%zero, %b, %wide)", "tuple(%zero, %b, %wide, %wide)")
    text = text.replace("  %dot = ", "  %spare = f32[64,64]{1,0} get-tuple-element(%carried), index=3\n  %dot = ")
    module = cleaned(text.replace("tuple(%next, %down, %w)", "tuple(%next, %down, %w, %spare)"))
    assert [leaf.dtype for leaf in module.entry.by_name["while"].leaves] == ["s32", "f16", "f16", "f32"]
    assert "wide" in module.entry.by_name
