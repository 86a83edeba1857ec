"""Copies that XLA:CPU makes for convolutions are found."""

import pytest

from tests.golden.texts import module_text
from tilestep.cost.copy import REGROUPED
from tilestep.plan.passes.conv_copies import regrouped
from tilestep.program import parse_hlo
from tilestep.program.context import Context

LINES = """
  %x = f16[16,8,8,4]{{0,3,2,1}} parameter(0)
  %k = f16[3,3,4,4]{{3,2,1,0}} parameter(1)
  %c = f16[16,8,8,4]{{3,2,1,0}} copy(%x)
  %v = f16[16,8,8,4]{{3,2,1,0}} bitcast(%c)
  %y = f16[16,8,8,4]{{3,2,1,0}} convolution(%v, %k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
  ROOT %r = f16[16,8,8,4]{{3,2,1,0}} add(%y, %{other})"""


@pytest.mark.parametrize(("other", "found"), [("y", {"c"}), ("c", set[str]()), ("v", set[str]())])
def test_a_copy_is_marked_if_only_convolutions_read_it(other: str, found: set[str]) -> None:
    computation = regrouped(parse_hlo(module_text(LINES.format(other=other))).entry, Context(computations={}))
    assert {i.name for i in computation.instructions if REGROUPED in i.attributes} == found


STAYS = """
  %x = f16[16,8,8,4]{{3,2,1,0}} parameter(0)
  %k = f16[4,4,3,3]{{3,2,1,0}} parameter(1)
  %b = f16[3,3,4,4]{{0,1,3,2}} bitcast(%k)
  %c = f16[3,3,4,4]{{3,2,1,0}} copy(%b)
  %y = f16[16,8,8,4]{{3,2,1,0}} convolution(%x, %c), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
  %n = f16[4,4,3,3]{{3,2,1,0}} {other}
  ROOT %r = (f16[4,4,3,3], f16[16,8,8,4]) tuple(%{returned}, %y)"""


@pytest.mark.parametrize(
    ("other", "returned", "opcode"),
    [
        ("parameter(2)", "k", "bitcast"),
        ("negate(%k)", "n", "copy"),  # another kernel comes back: a training step
        ("negate(%k)", "k", "copy"),  # another instruction reads the kernel as it is
    ],
)
def test_a_kernel_that_stays_needs_no_copy(other: str, returned: str, opcode: str) -> None:
    computation = regrouped(parse_hlo(module_text(STAYS.format(other=other, returned=returned))).entry, Context(computations={}))
    copy = computation.by_name["c"]
    assert (copy.opcode, REGROUPED in copy.attributes) == (opcode, opcode == "copy")
