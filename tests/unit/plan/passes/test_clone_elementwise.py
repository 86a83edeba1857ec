"""Functions of one array are computed again where that takes less memory than to keep them."""

from tests.golden.texts import module_text
from tilestep.cost import ELEMENTWISE
from tilestep.plan.passes.fuse import fuse, with_less_kept
from tilestep.program import parse_hlo
from tilestep.program.context import Context

# An activation function with two values for its gradient: t and s are functions of x alone, which itself comes of a product.
GRADIENT = """
  %a = f32[8,8]{1,0} parameter(0)
  %g = f32[8,8]{1,0} parameter(1)
  %x = f32[8,8]{1,0} dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[8,8]{1,0} tanh(%x)
  %s = f32[8,8]{1,0} multiply(%t, %t)
  %y = f32[8,8]{1,0} add(%t, %s)
  %p = f32[8,8]{1,0} dot(%y, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %u = f32[8,8]{1,0} multiply(%p, %t)
  ROOT %r = f32[8,8]{1,0} add(%u, %s)"""


def passes(lines: str) -> list[list[str]]:
    entry = with_less_kept(parse_hlo(module_text(lines)).entry, Context(computations={}))
    found = fuse(entry, elementwise=ELEMENTWISE)
    return [[member.name for member in unit.members] for unit in found.order if unit.fused]


def test_a_gradient_computes_functions_of_one_array_again() -> None:
    forward, backward = passes(GRADIENT)
    assert forward == ["t", "s", "y"]
    assert sorted(backward) == ["r", "s/r", "t/r", "u"]


def test_one_value_is_kept_instead_of_another() -> None:
    lines = GRADIENT.replace("ROOT %r = f32[8,8]{1,0} add(%u, %s)", "ROOT %r = f32[8,8]{1,0} negate(%u)")
    assert passes(lines) == [["t", "s", "y"], ["u", "r"]]


def test_one_value_is_computed_again_if_its_array_is_read_there_too() -> None:
    lines = GRADIENT.replace("ROOT %r = f32[8,8]{1,0} add(%u, %s)", "ROOT %r = f32[8,8]{1,0} add(%u, %x)")
    assert sorted(passes(lines)[1]) == ["r", "t/r", "u"]


def test_values_that_are_stored_anyway_are_read() -> None:
    lines = GRADIENT.replace("dot(%y, %g)", "dot(%t, %s)")
    assert passes(lines)[-1] == ["u", "r"]


def test_functions_of_two_arrays_are_kept() -> None:
    lines = GRADIENT.replace("tanh(%x)", "add(%x, %g)").replace("multiply(%t, %t)", "multiply(%t, %g)")
    assert passes(lines)[-1] == ["u", "r"]


def test_the_end_of_a_long_chain_is_kept_and_its_functions_are_computed_again() -> None:
    chain = "".join(f"  %c{n} = f32[8,8]{{1,0}} negate(%{f'c{n - 1}' if n else 'x'})\n" for n in range(16))
    lines = GRADIENT.replace("  %t =", chain + "  %t =").replace("tanh(%x)", "tanh(%c15)")
    assert sorted(passes(lines)[-1]) == ["r", "s/r", "u"]
    shorter = passes(lines.replace("tanh(%c15)", "tanh(%c13)"))[-1]
    assert {"c0/r", "t/r", "s/r"} < set(shorter)


def test_one_value_is_computed_again_if_a_later_product_reads_its_array_anyway() -> None:
    """The derivative d of a layer whose result t the gradient of the next weights reads, too."""
    lines = """
  %a = f32[8,8]{1,0} parameter(0)
  %g = f32[8,8]{1,0} parameter(1)
  %x = f32[8,8]{1,0} dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[8,8]{1,0} tanh(%x)
  %d = f32[8,8]{1,0} multiply(%t, %t)
  %p = f32[8,8]{1,0} dot(%t, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %u = f32[8,8]{1,0} multiply(%p, %d)
  ROOT %w = f32[8,8]{1,0} dot(%t, %u), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    assert sorted(passes(lines)[-1]) == ["d/u", "u"]
    assert passes(lines.replace("dot(%t, %u)", "dot(%a, %u)")) == [["t", "d"], ["u"]]
