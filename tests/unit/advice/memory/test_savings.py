"""What would free memory of a tile: of the values that wait for backward one stays, from which the others are computed again."""

import pytest

from tilestep.advice.memory.savings import freed_of
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.plan.lower import lower
from tilestep.program.hlo import parse_hlo
from tilestep.recording.sources import Source

FORWARD, BACKWARD = (f', metadata={{op_name="jit(f)/{scope}/op"}}' for scope in ("jvp(f)", "transpose(jvp(f))"))
SIZE = "f32[1472,512]"  # a row for each tile


def waiting(count: int) -> str:
    """A program that makes so many values forward, and reads them in turn backward."""
    made = [f"  %v{n} = {SIZE} {('exponential', 'sine')[n]}({SIZE} %x){FORWARD}" for n in range(count)]
    read = [f"  %g{n + 1} = {SIZE} multiply({SIZE} %g{n}, {SIZE} %v{n}){BACKWARD}" for n in range(count)]
    begin = (
        f"  %x = {SIZE} parameter(0)",
        *made,
        f"  %h = {SIZE} negate({SIZE} %x){BACKWARD}",
        f"  %g0 = {SIZE} cosine({SIZE} %h){BACKWARD}",
    )
    end = f"  ROOT %r = {SIZE} abs({SIZE} %g{count}){BACKWARD}"
    return "\n".join(["HloModule jit_f", "", f"ENTRY %main (x: {SIZE}) -> {SIZE} {{", *begin, *read, end, "}", ""])


@pytest.mark.parametrize(("count", "freed"), [(1, []), (2, [512 * 4])])
def test_of_two_values_that_wait_for_backward_recomputation_frees_one(count: int, freed: list[int]) -> None:
    text, options, machine = waiting(count), PlanOptions(fusion="none"), load_machine("bow-2000")
    program = lower(parse_hlo(text), machine, name="jit_f", num_ipus=1, options=options)
    found = freed_of(program, Source(text=lambda: text, options=options), machine, could_recompute=True)
    assert [way.tile_bytes for way in found if way.way == "jax.checkpoint"] == freed


def test_an_argument_that_comes_alone_is_divided_itself_and_not_called_a_batch() -> None:
    text = """HloModule jit_f

ENTRY %main (x: f32[1472,512]) -> f32[1472,256] {
  %x = f32[1472,512] parameter(0)
  %e = f32[1472,512] exponential(f32[1472,512] %x)
  %m = f32[1472,512] multiply(f32[1472,512] %e, f32[1472,512] %x)
  ROOT %s = f32[1472,256] slice(f32[1472,512] %m), slice={[0:1472], [0:256]}
}
"""
    options, machine = PlanOptions(fusion="none"), load_machine("bow-2000")
    program = lower(parse_hlo(text), machine, name="jit_f", num_ipus=1, options=options)
    found = freed_of(program, Source(text=lambda: text, options=options), machine, could_recompute=False)
    assert [way.way for way in found] == ["divided: arg0 along axis 0 over 4 IPUs"]
