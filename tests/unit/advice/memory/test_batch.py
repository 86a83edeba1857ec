"""Room for a larger batch: the largest that fits is what planning each size says, and what has no batch says so."""

import re
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from tilestep.advice.ipus.collectives import added_over
from tilestep.advice.memory.batch import batches, smaller
from tilestep.advice.memory.remedies import OF_CODE, did_not_fit
from tilestep.figures.quantities import bytes_text
from tilestep.machine import MachineSpec, load_machine
from tilestep.options import PlanOptions
from tilestep.plan.lower import lower
from tilestep.plan.steps import Program
from tilestep.program.hlo import parse_hlo
from tilestep.recording.edits.larger_dimension import enlarged
from tilestep.recording.edits.script import ImpossibleEditError
from tilestep.recording.sources import Source, planned_again

BOW = load_machine("bow-2000")
HLO = """HloModule jit_f, entry_computation_layout={(f32[512,64]{1,0}, f32[64,32]{1,0})->f32[512,32]{1,0}}

ENTRY %main (x: f32[512,64], w: f32[64,32]) -> f32[512,32] {
  %x = f32[512,64]{1,0} parameter(0)
  %w = f32[64,32]{1,0} parameter(1)
  %d = f32[512,32]{1,0} dot(f32[512,64]{1,0} %x, f32[64,32]{1,0} %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %e = f32[512,32]{1,0} exponential(f32[512,32]{1,0} %d)
}
"""


def planned(text: str = HLO, machine: MachineSpec = BOW) -> tuple[Program, Source]:
    program = lower(parse_hlo(text), machine, name="jit_f", num_ipus=1, options=PlanOptions())
    return program, Source(text=lambda: text, options=PlanOptions())


def with_tiles_of(sram_bytes: int, executable_bytes: int | None = None) -> MachineSpec:
    executable_bytes = min(sram_bytes, BOW.ipu.tile.executable_bytes) if executable_bytes is None else executable_bytes
    tile = replace(BOW.ipu.tile, sram_bytes=sram_bytes, executable_bytes=executable_bytes)
    return replace(BOW, ipu=replace(BOW.ipu, tile=tile))


def test_the_batch_is_the_first_dimension_of_the_largest_new_argument() -> None:
    program, _ = planned()
    assert list(batches(program, ())) == [(512, {0: 0})]
    assert list(batches(program, {0})) == [(64, {1: 0}), (32, {1: 1})]
    assert list(batches(program, {0, 1})) == []
    images = [replace(a, shape=shape) for a, shape in zip(program.arguments, ("f32[8,5,3]", "f32[6,5,3]"), strict=True)]
    assert list(batches(replace(program, arguments=tuple(images)), ())) == [(8, {0: 0}), (5, {0: 1, 1: 1})]  # channels are none


def test_a_smaller_batch_is_the_first_part_that_fits() -> None:
    program, source = planned()
    sizes = {
        part: planned_again(source, program, BOW, edit=partial(enlarged, dims={0: 0}, factor=Fraction(1, part))).memory.peak_bytes
        for part in (2, 4)
    }
    assert program.memory.peak_bytes > sizes[2] > sizes[4]
    found = smaller(program, source, with_tiles_of(sizes[4]))
    assert found is not None
    now, then = found
    assert (now.batch, then.batch, then.peak_bytes, then.fits) == (512, 128, sizes[4], True)
    assert smaller(program, source, with_tiles_of(1000)) is None  # its code alone takes more
    with pytest.raises(ImpossibleEditError, match="has no part"):
        planned_again(source, program, BOW, edit=partial(enlarged, dims={0: 0}, factor=Fraction(1, 3)))


def test_what_did_not_fit_says_by_how_much_and_what_would_make_it_fit() -> None:
    program, source = planned()
    sizes = planned_again(source, program, BOW, edit=partial(enlarged, dims={0: 0}, factor=Fraction(1, 2))).memory
    machine = with_tiles_of(sizes.peak_bytes)
    found = did_not_fit(program, source, machine)
    assert found is not None
    over = program.memory.peak_bytes - machine.ipu.tile.sram_bytes
    assert found.urgent
    assert f"{over:,} B too many" in found.text
    assert "a batch of 256 in place of 512, with which it fits" in found.text
    assert found.gain is not None
    assert found.gain.tile_bytes >= over
    assert "None of them is enough" not in found.text
    alone = did_not_fit(program, None, machine)
    assert alone is not None
    assert (alone.gain, alone.edit) == (None, "")
    assert "cannot be planned again" in alone.unknown
    assert did_not_fit(program, source, BOW) is None


def test_tiles_and_what_may_hold_code_may_be_full_to_the_last_byte() -> None:
    program, source = planned()
    peak, code = program.memory.peak_bytes, program.memory.instruction_bytes
    of_code, of_data = (did_not_fit(program, source, with_tiles_of(peak - less, code - 1 + less)) for less in (0, 1))
    assert of_code is not None
    assert OF_CODE in of_code.text
    assert of_data is not None
    assert "a batch of 256 in place of 512, with which it fits" in of_data.text
    assert "None of them is enough" not in of_data.text
    assert did_not_fit(program, source, with_tiles_of(peak, code)) is None


def test_a_state_is_no_batch_that_could_be_smaller() -> None:
    hlo = """HloModule jit_step

ENTRY %main (w: f32[8192,32768], x: f32[64,8192]) -> f32[8192,32768] {
  %w = f32[8192,32768] parameter(0), metadata={op_name="w"}
  %x = f32[64,8192] parameter(1), metadata={op_name="x"}
  %zero = f32[] constant(0)
  %s = f32[] reduce(f32[64,8192] %x, f32[] %zero), dimensions={0,1}, to_apply=%sum
  %b = f32[8192,32768] broadcast(f32[] %s), dimensions={}
  ROOT %r = f32[8192,32768] add(f32[8192,32768] %w, f32[8192,32768] %b)
}
"""
    total = "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
    total += "  ROOT %c = f32[] add(f32[] %a, f32[] %b)\n}\n\n"
    text = hlo.replace("ENTRY", f"{total}ENTRY")
    program = lower(parse_hlo(text), BOW, name="jit_step", num_ipus=1, options=PlanOptions())
    found = did_not_fit(program, Source(text=lambda: text, options=PlanOptions()), BOW)
    assert found is not None
    assert "a batch of" not in found.text


def test_a_division_names_its_arrays_and_axes_and_what_it_leaves() -> None:
    """A batch is planned in parts; where nothing is enough, the least machine that would hold all of it is named."""
    program, source = planned()
    found = did_not_fit(program, source, with_tiles_of(program.memory.peak_bytes - 8))
    assert found is not None
    assert "the batch divided: arg0 along axis 0 over 4 IPUs (-" in found.text
    quarter = planned_again(source, program, BOW, edit=partial(enlarged, dims={0: 0}, factor=Fraction(1, 4))).memory.peak_bytes
    assert f"(-{bytes_text(program.memory.peak_bytes - quarter)} a tile), enough" in found.text
    never = did_not_fit(program, source, with_tiles_of(1000))
    assert never is not None
    assert re.search(r"None of them is enough by itself: .* leaves [\d.]+ KiB of 1000 B\.", never.text), never.text
    assert "or a Pipeline of tilestep.train, with a part of the layers on each IPU" in never.text


REDUCTIONS = """HloModule jit_f, num_partitions=4

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
        ("", "", "axis 1 of x, axis 0 of w, which are divided over 4 IPUs"),  # as JAX 0.12 has it
    ],
)
def test_the_contracted_axis_that_is_divided_is_named(x: str, w: str, said: str | None) -> None:
    text = REDUCTIONS.replace(", sharding=X", x and f", sharding={x}").replace(", sharding=W", w and f", sharding={w}")
    assert added_over(parse_hlo(text), "all-reduce", 4) == said


ARGMAX = """HloModule jit_f

%larger (a: f32[], i: s32[], b: f32[], j: s32[]) -> (f32[], s32[]) {
  %a = f32[] parameter(0)
  %i = s32[] parameter(1)
  %b = f32[] parameter(2)
  %j = s32[] parameter(3)
  %gt = pred[] compare(%a, %b), direction=GT
  %value = f32[] select(%gt, %a, %b)
  %index = s32[] select(%gt, %i, %j)
  ROOT %both = (f32[], s32[]) tuple(%value, %index)
}

ENTRY %main (x: f32[512,64]) -> s32[512] {
  %x = f32[512,64]{1,0} parameter(0)
  %indices = s32[512,64]{1,0} iota(), iota_dimension=1
  %least = f32[] constant(-inf)
  %zero = s32[] constant(0)
  %found = (f32[512]{0}, s32[512]{0}) reduce(%x, %indices, %least, %zero), dimensions={1}, to_apply=%larger
  ROOT %index = s32[512]{0} get-tuple-element(%found), index=1
}
"""


def test_arrays_that_are_reduced_together_grow_together() -> None:
    larger = enlarged(parse_hlo(ARGMAX), {0: 0}, 2).entry
    assert [larger.by_name[name].leaves[0].dims for name in ("x", "indices", "index")] == [(1024, 64), (1024, 64), (1024,)]
    assert [leaf.dims for leaf in larger.by_name["found"].leaves] == [(1024,), (1024,)]
