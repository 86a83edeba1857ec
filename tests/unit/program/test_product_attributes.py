"""Products that XLA:CPU has made anew get the attributes of what they stand for."""

from __future__ import annotations

import pytest

from tests.golden.texts import module_text
from tilestep.program import parse_hlo
from tilestep.program.context import Context
from tilestep.program.product_attributes import with_attributes

LINES = """
  %x = f32[2,8,8,4]{{3,2,1,0}} parameter(0)
  %k = f32[3,3,4,4]{{3,2,1,0}} parameter(1)
  %y = f32[2,8,8,4]{{3,2,1,0}} convolution(%x, %k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{own}
  %v = f32[2,4,8,8]{{1,3,2,0}} bitcast(%y)
  ROOT %r = f32[2,4,8,8]{{1,3,2,0}} {last}"""
MARK = 'frontend_attributes={mark="1"}'
NAME = 'metadata={op_name="conv"}'


@pytest.mark.parametrize(
    ("own", "last", "found"),
    [
        ("", f"copy(%v), {MARK}, {NAME}", '{mark="1"}'),
        ("", f"copy(%v), {NAME}", None),
        ("", f"negate(%v), {MARK}, {NAME}", '{mark="1"}'),
        ("", "negate(%v)", None),
        ("", f"add(%v, %v), {MARK}, {NAME}", None),  # two users: it ends what XLA made, but not for the convolution alone
        (f", {NAME}", f"copy(%v), {MARK}, {NAME}", None),
        (', frontend_attributes={mark="2"}', f"copy(%v), {MARK}, {NAME}", '{mark="2"}'),
    ],
)
def test_attributes_come_from_the_end_of_what_was_made(own: str, last: str, found: str | None) -> None:
    computation = with_attributes(parse_hlo(module_text(LINES.format(own=own, last=last))).entry, Context(computations={}))
    assert computation.by_name["y"].attributes.get("frontend_attributes") == found
    assert computation.root is computation.by_name["r"]
