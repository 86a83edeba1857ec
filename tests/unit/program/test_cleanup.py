"""What XLA:CPU does for its own sake is undone; what the author wrote stays."""

from collections import Counter

import pytest

from tests.golden.texts import clean, hlo_text, module_text
from tilestep.program import Computation, parse_hlo


def cleaned(name: str) -> Computation:
    """The entry of a stored module, cleaned."""
    return clean(parse_hlo(hlo_text(name))).entry


def opcodes(computation: Computation) -> Counter[str]:
    return Counter(instruction.opcode for instruction in computation.instructions)


def test_no_wrapper_is_left() -> None:
    found = opcodes(cleaned("mlp_train_step"))
    assert not {"fusion", "call"} & set(found)
    assert found["dot"] == 5


def test_a_half_dot_reads_halves_and_erfc_is_one_operation() -> None:
    entry = cleaned("gelu_half")
    (dot,) = [i for i in entry.instructions if i.opcode == "dot"]
    assert [entry.by_name[operand].leaves[0].dtype for operand in dot.operands] == ["f16", "f16"]
    assert dot.leaves[0].dtype == "f16"
    (erfc,) = [i for i in entry.instructions if i.opcode == "erfc"]
    assert erfc.leaves[0].dtype == "f16"
    assert len(entry.instructions) < 30  # of 220


def test_a_reduction_of_halves_reads_halves_and_keeps_its_f32_result() -> None:
    entry = cleaned("gelu_half")
    (reduce,) = [i for i in entry.instructions if i.opcode == "reduce"]
    assert entry.by_name[reduce.operands[0]].leaves[0].dtype == "f16"
    assert reduce.leaves[0].dtype == "f32"


def test_bfloat16_operations_lose_the_converts_that_xla_put_around_them() -> None:
    entry = cleaned("bfloat16")
    assert opcodes(entry) == Counter({"parameter": 3, "dot": 1, "broadcast": 1, "add": 1, "tanh": 1})
    assert {i.leaves[0].dtype for i in entry.instructions} == {"bf16"}


def test_a_collective_on_bfloat16_is_not_promoted() -> None:
    entry = cleaned("psum")
    dtypes = [i.leaves[0].dtype for i in entry.instructions if i.opcode == "all-reduce"]
    assert sorted(dtypes) == ["bf16", "f32"]


def test_converts_that_the_author_wrote_stay() -> None:
    entry = """
  %x = f16[8,16]{1,0} parameter(0)
  %w = f16[16,4]{1,0} parameter(1)
  %x32 = f32[8,16]{1,0} convert(%x), metadata={op_name="jit(f)/convert_element_type"}
  %w32 = f32[16,4]{1,0} convert(%w), metadata={op_name="jit(f)/convert_element_type"}
  %d = f32[8,4]{1,0} dot(%x32, %w32), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %h = f16[8,4]{1,0} convert(%d), metadata={op_name="jit(f)/convert_element_type;jit(f)/other"}"""
    computation = clean(parse_hlo(module_text(entry))).entry
    assert opcodes(computation)["convert"] == 3
    assert computation.by_name["d"].leaves[0].dtype == "f32"


def test_erf_with_two_outputs_stays_in_parts() -> None:
    scope = ', metadata={op_name="jit(f)/erf"}'
    entry = f"""
  %x = f32[8]{{0}} parameter(0)
  %a = f32[8]{{0}} multiply(%x, %x){scope}
  %b = f32[8]{{0}} exponential(%a){scope}
  ROOT %t = (f32[8]{{0}}, f32[8]{{0}}) tuple(%a, %b)"""
    assert opcodes(clean(parse_hlo(module_text(entry))).entry)["erf"] == 0


def test_two_erfs_of_one_name_and_shape_are_one_operation_each() -> None:
    scope = ', metadata={op_name="jit(f)/erf"}'
    entry = f"""
  %x = f32[8]{{0}} parameter(0)
  %y = f32[8]{{0}} parameter(1)
  %a = f32[8]{{0}} multiply(%x, %x){scope}
  %b = f32[8]{{0}} exponential(%a){scope}
  %c = f32[8]{{0}} multiply(%y, %y){scope}
  %d = f32[8]{{0}} exponential(%c){scope}
  ROOT %t = (f32[8]{{0}}, f32[8]{{0}}) tuple(%b, %d)"""
    computation = clean(parse_hlo(module_text(entry))).entry
    assert [(i.name, i.operands) for i in computation.instructions if i.opcode == "erf"] == [("b", ("x",)), ("d", ("y",))]


def test_a_dot_of_halves_that_is_wanted_in_f32_keeps_its_result() -> None:
    entry = """
  %x = f16[8,16]{1,0} parameter(0)
  %w = f16[16,4]{1,0} parameter(1)
  %x32 = f32[8,16]{1,0} convert(%x)
  %w32 = f32[16,4]{1,0} convert(%w)
  ROOT %d = f32[8,4]{1,0} dot(%x32, %w32), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    root = clean(parse_hlo(module_text(entry))).entry.root
    assert root.operands == ("x", "w")
    assert root.leaves[0].dtype == "f32"


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_dot_of_halves_reads_them_through_views(dtype: str) -> None:
    """As XLA:CPU writes a batched product whose operands it transposes; an operand that something else reads in f32 stays in f32."""
    entry = f"""
  %x = {dtype}[8,2,16]{{2,1,0}} parameter(0)
  %w = {dtype}[16,4]{{1,0}} parameter(1)
  %x32 = f32[8,2,16]{{2,1,0}} convert(%x)
  %w32 = f32[16,4]{{1,0}} convert(%w)
  %t = f32[2,8,16]{{2,1,0}} transpose(%x32), dimensions={{1,0,2}}
  %b = f32[16,16]{{1,0}} bitcast(%t)
  %d = f32[16,4]{{1,0}} dot(%b, %w32), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    alone = clean(parse_hlo(module_text(entry + "\n  ROOT %r = f32[16,4]{1,0} negate(%d)"))).entry
    assert [alone.by_name[name].leaves[0].dtype for name in ("t", "b", "d", "r")] == [dtype, dtype, "f32", "f32"]
    assert alone.by_name["d"].operands == ("b", "w")
    assert opcodes(alone)["convert"] == 0

    shared = clean(parse_hlo(module_text(entry + "\n  ROOT %r = (f32[16,4]{1,0}, f32[16,16]{1,0}) tuple(%d, %b)"))).entry
    assert [shared.by_name[name].leaves[0].dtype for name in ("t", "b", "d")] == ["f32", "f32", "f32"]
    assert shared.by_name["d"].operands == ("b", "w32")


SHARED = """
  %x = f16[8,8]{{1,0}} parameter(0)
  %w = f16[8,8]{{1,0}} parameter(1)
  %a = f32[8,8]{{1,0}} convert(%x)
  %own = f32[8,8]{{1,0}} convert(%w), metadata={{op_name="jit(f)/convert_element_type"}}
  %dot = f32[8,8]{{1,0}} dot(%a, %own), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/dot_general"}}
  %back = f16[8,8]{{1,0}} convert(%dot), metadata={{op_name="jit(f)/{back}"}}
  %twice = f32[8,8]{{1,0}} add(%own, %own)
  ROOT %r = (f16[8,8], f32[8,8]) tuple(%back, %twice)"""


@pytest.mark.parametrize(("back", "dtype"), [("dot_general", "f16"), ("convert_element_type", "f32")])
def test_a_half_dot_shares_a_conversion_with_its_author(back: str, dtype: str) -> None:
    cleaned_entry = clean(parse_hlo(module_text(SHARED.format(back=back)))).entry
    (dot,) = [i for i in cleaned_entry.instructions if i.opcode == "dot"]
    assert {cleaned_entry.by_name[operand].leaves[0].dtype for operand in dot.operands} == {dtype}
    assert dot.leaves[0].dtype == dtype
    (add,) = [i for i in cleaned_entry.instructions if i.opcode == "add"]
    assert add.leaves[0].dtype == "f32"


def test_arithmetic_between_a_conversion_and_a_dot_stays_in_f32() -> None:
    entry = """
  %x = f16[8,16]{1,0} parameter(0)
  %w = f16[16,4]{1,0} parameter(1)
  %x32 = f32[8,16]{1,0} convert(%x)
  %n = f32[8,16]{1,0} sine(%x32)
  %w32 = f32[16,4]{1,0} convert(%w)
  ROOT %d = f32[8,4]{1,0} dot(%n, %w32), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    root = clean(parse_hlo(module_text(entry))).entry.root
    assert root.operands == ("n", "w32")


def test_a_convert_that_a_restored_and_an_unrestored_operation_share_serves_both() -> None:
    entry = """
  %x = bf16[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %x32 = f32[8]{0} convert(%x)
  %a = f32[8]{0} negate(%x32), metadata={op_name="jit(f)/neg"}
  %a16 = bf16[8]{0} convert(%a)
  %b = f32[8]{0} add(%x32, %y), metadata={op_name="jit(f)/add"}
  ROOT %t = (bf16[8]{0}, f32[8]{0}) tuple(%a16, %b)"""
    computation = clean(parse_hlo(module_text(entry))).entry
    assert computation.by_name["a"].operands == ("x",)
    assert computation.by_name["a"].leaves[0].dtype == "bf16"
    assert computation.by_name["b"].operands == ("x32", "y")
    assert computation.root.operands == ("a", "b")


HEAD = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }"


def entry(lines: str, *, head: str = "HloModule m") -> Computation:
    return clean(parse_hlo(module_text(lines, head=head))).entry


def copies(computation: Computation) -> list[str]:
    return [instruction.name for instruction in computation.instructions if instruction.opcode == "copy"]


def test_the_copy_of_a_donated_weight_that_is_only_read_before_its_update_goes() -> None:
    assert copies(clean(parse_hlo(hlo_text("mlp_train_step"))).entry) == []


def test_the_copy_of_a_donated_argument_that_is_read_after_its_update_stays() -> None:
    lines = """
  %p = f32[8]{0} parameter(0)
  %old = f32[8]{0} copy(%p)
  %new = f32[8]{0} negate(%p)
  %both = f32[8]{0} add(%old, %new)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%new, %both)"""
    assert copies(entry(lines, head=HEAD)) == ["old"]
    assert copies(entry(lines)) == []  # not donated: nothing overwrites it


def test_the_copy_of_an_argument_to_write_into_goes_if_nobody_else_reads_it() -> None:
    lines = """
  %p = f32[8]{0} parameter(0)
  %u = f32[1]{0} parameter(1)
  %i = s32[] parameter(2)
  %mine = f32[8]{0} copy(%p)
  %updated = f32[8]{0} dynamic-update-slice(%mine, %u, %i)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%updated, %X)"""
    assert copies(entry(lines.replace("%X", "%updated"))) == []
    assert copies(entry(lines.replace("%X", "%p"))) == ["mine"]


def test_a_copy_in_another_layout_stays() -> None:
    lines = "  %p = f32[8,4]{1,0} parameter(0)\n  %c = f32[8,4]{0,1} copy(%p)\n  ROOT %r = f32[8,4]{0,1} negate(%c)"
    assert copies(entry(lines)) == ["c"]


def test_a_loop_that_swaps_what_it_carries_keeps_its_copies() -> None:
    body = """
%body (t: (f32[8], f32[8])) -> (f32[8], f32[8]) {
  %t = (f32[8]{0}, f32[8]{0}) parameter(0)
  %a = f32[8]{0} get-tuple-element(%t), index=0
  %b = f32[8]{0} get-tuple-element(%t), index=1
  %a2 = f32[8]{0} copy(%a)
  %b2 = f32[8]{0} copy(%b)
  ROOT %n = (f32[8]{0}, f32[8]{0}) tuple(%b2, %a2)
}

%cond (t: (f32[8], f32[8])) -> pred[] {
  %t = (f32[8]{0}, f32[8]{0}) parameter(0)
  ROOT %c = pred[] constant(true)
}"""
    lines = """
  %p = (f32[8]{0}, f32[8]{0}) parameter(0)
  ROOT %w = (f32[8]{0}, f32[8]{0}) while(%p), condition=%cond, body=%body"""
    module = clean(parse_hlo(module_text(lines, computations=body)))
    assert copies(module.computations["body"]) == ["a2", "b2"]


def test_the_copies_of_a_loop_that_updates_weights_go() -> None:
    module = clean(parse_hlo(hlo_text("train_loop")))
    (loop,) = [i for i in module.entry.instructions if i.opcode == "while"]
    assert copies(module.computations[loop.called("body")[0]]) == []
