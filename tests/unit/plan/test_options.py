"""Every option of a plan changes what it says it changes."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.texts import module_text
from tests.unit.cost.machines import BOW, work
from tilestep.cost import StepCost
from tilestep.errors import SettingsError
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.plan import Program, Superstep, lower
from tilestep.plan.price import price
from tilestep.plan.products.conv import plan_convolution
from tilestep.plan.products.matmul import plan_dot
from tilestep.program import parse_hlo

GOLDEN = Path(__file__).parents[2] / "golden" / "hlo"
DEFAULTS = PlanOptions()
HALF = PlanOptions(partials_type="half")
Price = Callable[[PlanOptions], StepCost]


def product(options: PlanOptions, dtype: str = "f16") -> StepCost:
    job = work(
        "dot",
        f"{dtype}[4096,4096] {dtype}[4096,1024]",
        f"{dtype}[4096,1024]",
        resident=(False, True),
        lhs_contracting_dims="{1}",
        rhs_contracting_dims="{0}",
    )
    return plan_dot(job, BOW, options)


def convolution(options: PlanOptions) -> StepCost:
    job = work(
        "convolution",
        "f16[16,28,28,128] f16[3,3,128,128]",
        "f16[16,28,28,128]",
        resident=(False, True),
        window="{size=3x3 pad=1_1x1_1}",
        dim_labels="b01f_01io->b01f",
    )
    return plan_convolution(job, BOW, options)


def lowered(options: PlanOptions) -> Program:
    module = parse_hlo((GOLDEN / "conv.hlo").read_text(encoding="utf-8"))
    return lower(module, load_machine("bow-2000"), name="net", num_ipus=1, options=options)


@pytest.mark.parametrize("cost", [product, convolution])
def test_half_partials_double_the_rate_of_half_operands(cost: Price) -> None:
    assert 1.4 < cost(DEFAULTS).compute_cycles / cost(HALF).compute_cycles < 2.1
    assert cost(HALF).flops == cost(DEFAULTS).flops


def test_floats_are_added_in_floats_whatever_the_option_says() -> None:
    assert product(DEFAULTS, "f32") == product(HALF, "f32")


@pytest.mark.parametrize("cost", [product, convolution])
def test_a_wide_load_brings_weights_in_half_the_cycles(cost: Price) -> None:
    assert cost(replace(HALF, weight_load_bits=128)).cycles < cost(HALF).cycles


def test_temporaries_keep_to_the_proportion() -> None:
    costs = [product(replace(HALF, available_memory_proportion=proportion)) for proportion in (0.6, 0.2, 0.05)]
    for cost, proportion in zip(costs, (0.6, 0.2, 0.05), strict=True):
        assert cost.temporary_tile_bytes <= proportion * BOW.tile.sram_bytes
    assert costs[0].cycles <= costs[1].cycles < costs[2].cycles


def test_io_tiles_neither_compute_nor_hold_values() -> None:
    plain, apart = lowered(DEFAULTS), lowered(PlanOptions(num_io_tiles=1400))
    assert (plain.num_io_tiles, apart.num_io_tiles) == (0, 1400)
    assert apart.memory.peak_bytes > plain.memory.peak_bytes
    machine = load_machine("bow-2000")
    small = replace(machine, ipu=replace(machine.ipu, num_tiles=72))
    module = parse_hlo((GOLDEN / "conv.hlo").read_text(encoding="utf-8"))
    assert apart.body == lower(module, small, name="net", num_ipus=1).body


def test_some_tiles_must_be_left_to_compute() -> None:
    with pytest.raises(SettingsError, match=r"ipu_num_io_tiles is 1,472: it must be less than the 1,472 tiles of an IPU"):
        lowered(PlanOptions(num_io_tiles=1472))


def test_look_ups_keep_to_the_proportion_too() -> None:
    job = work("gather", "f16[30522,1024] s32[8192,1]", "f16[8192,1024]", slice_sizes="{1,1024}")
    narrow = price(job, BOW, PlanOptions(available_memory_proportion=0.05))
    assert narrow.temporary_tile_bytes <= 0.05 * BOW.tile.sram_bytes < price(job, BOW, DEFAULTS).temporary_tile_bytes
    assert narrow.cycles > price(job, BOW, DEFAULTS).cycles


MACHINE = load_machine("m2000", num_ipus=1, num_tiles=64)
LINES = """
  %x = f16[512,512]{{1,0}} parameter(0)
  %y = f16[512,512]{{1,0}} parameter(1)
  %a = f16[512,512]{{1,0}} dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, frontend_attributes={{{first}}}
  %z = f16[512,512]{{1,0}} parameter(2)
  ROOT %b = f16[512,512]{{1,0}} dot(%a, %z), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""


def planned(first: str, options: PlanOptions | None = None) -> Program:
    return lower(parse_hlo(module_text(LINES.format(first=first))), MACHINE, name="program", num_ipus=1, options=options or PlanOptions())


def products(first: str, options: PlanOptions | None = None) -> list[Superstep]:
    return [node for node in planned(first, options).body.nodes if isinstance(node, Superstep) and node.family == "matmul"]


def test_an_operation_without_options_has_the_programs() -> None:
    assert planned('other="0.1"') == planned("")


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ('ipu_partials_type="half"', PlanOptions(partials_type="half")),
        ('ipu_available_memory_proportion="0.1"', PlanOptions(available_memory_proportion=0.1)),
        (
            'ipu_available_memory_proportion="0.05",mark="x",ipu_partials_type="half"',
            PlanOptions(available_memory_proportion=0.05, partials_type="half"),
        ),
    ],
)
def test_an_operation_with_options_is_planned_with_them_and_its_neighbour_is_not(first: str, options: PlanOptions) -> None:
    (before, neighbour), (own, other), (alike, _) = products(""), products(first), products("", options)
    assert other == neighbour
    assert own == alike
    assert own.compute_cycles != before.compute_cycles
    limit = options.available_memory_proportion * MACHINE.ipu.tile.sram_bytes
    assert own.temporary_tile_bytes <= limit


def test_options_of_an_operation_go_before_those_of_the_program() -> None:
    own, _ = products('ipu_partials_type="float"', PlanOptions(partials_type="half"))
    before, _ = products("")
    assert own == before


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (
            'ipu_available_memory_proportion="1.5"',
            "operation 'a': ipu_available_memory_proportion is 1.5: it must be more than 0 and at most 1",
        ),
        ('ipu_available_memory_proportion="much"', "ipu_available_memory_proportion is 'much': it must be a number"),
        ('ipu_partials_type="single"', "ipu_partials_type is 'single': it must be 'float' or 'half'"),
        (
            'ipu_partial_type="half"',
            "it may have ipu_available_memory_proportion, ipu_partials_type; the nearest is 'ipu_partials_type'",
        ),
        ('ipu_num_io_tiles="3"', "an operation has no option 'ipu_num_io_tiles' of its own"),
    ],
)
def test_a_wrong_option_names_the_operation_and_the_bound(first: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        planned(first)
