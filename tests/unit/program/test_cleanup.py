"""What XLA:CPU does for its own sake is undone; what the author wrote stays."""

from __future__ import annotations

from collections import Counter

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
