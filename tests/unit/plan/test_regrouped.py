"""Copies that XLA:CPU makes for convolutions are found."""

from __future__ import annotations

import pytest

from tests.golden.texts import module_text
from tilestep.cost.copy import REGROUPED
from tilestep.plan.regrouped import regrouped
from tilestep.program import parse_hlo

LINES = """
  %x = f16[16,8,8,4]{{0,3,2,1}} parameter(0)
  %k = f16[3,3,4,4]{{3,2,1,0}} parameter(1)
  %c = f16[16,8,8,4]{{3,2,1,0}} copy(%x)
  %v = f16[16,8,8,4]{{3,2,1,0}} bitcast(%c)
  %y = f16[16,8,8,4]{{3,2,1,0}} convolution(%v, %k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
  ROOT %r = f16[16,8,8,4]{{3,2,1,0}} add(%y, %{other})"""


@pytest.mark.parametrize(("other", "found"), [("y", {"c"}), ("c", set[str]()), ("v", set[str]())])
def test_a_copy_is_marked_if_only_convolutions_read_it(other: str, found: set[str]) -> None:
    computation = regrouped(parse_hlo(module_text(LINES.format(other=other))).entry)
    assert {i.name for i in computation.instructions if REGROUPED in i.attributes} == found
