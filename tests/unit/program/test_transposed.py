"""A convolution reads its operands as they were before XLA:CPU transposed them."""

from __future__ import annotations

import pytest

from tilestep.program import parse_hlo
from tilestep.program.cleanup import clean

# The gradient of a kernel [1, 1, 5, 4]: images [6, 14, 14, 5] and the result's gradient [6, 14, 14, 4], as XLA:CPU rewrites it.
GRADIENT = """HloModule gradient, entry_computation_layout={(f32[6,14,14,5]{3,2,1,0}, f32[6,14,14,4]{3,2,1,0})->f32[5,1,1,4]{3,2,1,0}}

ENTRY %main (x: f32[6,14,14,5], y: f32[6,14,14,4]) -> f32[5,1,1,4] {
  %x = f32[6,14,14,5]{3,2,1,0} parameter(0)
  %y = f32[6,14,14,4]{3,2,1,0} parameter(1)
  %other = f32[5,14,14,6]{0,2,1,3} bitcast(%x)
  %first = f32[5,14,14,6]{3,2,1,0} copy(%other)METADATA
  %kernel = f32[14,14,6,4]{3,1,0,2} bitcast(%y)
  %second = f32[14,14,6,4]{3,2,1,0} copy(%kernel)
  ROOT %convolution = f32[5,1,1,4]{3,2,1,0} convolution(%first, %second), window={size=14x14}, dim_labels=b01f_01io->b01f
}
"""


def test_transpositions_become_labels() -> None:
    convolution = clean(parse_hlo(GRADIENT.replace("METADATA", ""))).entry.by_name["convolution"]
    assert convolution.operands == ("x", "y")
    assert convolution.attributes["dim_labels"] == "f01b_i01o->b01f"


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("METADATA", ', metadata={op_name="jit(f)/copy"}'),  # the author's own
        ("{0,2,1,3} bitcast(%x)", "{3,2,1,0} bitcast(%x)"),  # the same bytes in another shape
    ],
)
def test_other_copies_stay(what: str, by: str) -> None:
    convolution = clean(parse_hlo(GRADIENT.replace(what, by).replace("METADATA", ""))).entry.by_name["convolution"]
    assert convolution.operands == ("first", "y")
