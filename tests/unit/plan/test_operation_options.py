"""Single operations have options of their own."""

from __future__ import annotations

import re

import pytest

from tests.golden.texts import module_text
from tilestep.errors import SettingsError
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.plan import Program, Superstep, lower
from tilestep.program import parse_hlo

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
