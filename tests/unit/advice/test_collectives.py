"""Sums over IPUs inside of a step: which argument's axis they add up over."""

from __future__ import annotations

import pytest

from tilestep.advice.collectives import added_over
from tilestep.program.hlo import parse_hlo

HLO = """HloModule jit_f, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8,4], w: f32[4,16]) -> f32[8,16] {
  %x = f32[8,4]{1,0} parameter(0), sharding=X, metadata={op_name="x"}
  %w = f32[4,16]{1,0} parameter(1), sharding=W, metadata={op_name="w"}
  %tanh = f32[8,4]{1,0} tanh(%x)
  %dot = f32[8,16]{1,0} dot(%tanh, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %all-reduce = f32[8,16]{1,0} all-reduce(%dot), channel_id=1, replica_groups={{0,1,2,3}}, to_apply=%add
}
"""


@pytest.mark.parametrize(
    ("x", "w", "said"),
    [
        ("{devices=[1,4]<=[4]}", "{devices=[4,1]<=[4]}", "axis 1 of x, axis 0 of w, which are divided over 4 IPUs"),
        ("{replicated}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "axis 0 of w, which is divided over 2 IPUs"),
        ("{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", None),
        ("{replicated}", "{replicated}", None),
    ],
)
def test_the_contracted_axis_that_is_divided_is_named(x: str, w: str, said: str | None) -> None:
    assert added_over(parse_hlo(HLO.replace("=X", f"={x}").replace("=W", f"={w}")), "all-reduce") == said
