"""A program that was planned before is not planned again."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.plan import PlanCache, lower
from tilestep.program import parse_hlo

HLO = Path(__file__).parents[2] / "golden" / "hlo"
TEXT = (HLO / "conv.hlo").read_text(encoding="utf-8")
BOW = load_machine("bow-2000")


def test_equal_programs_are_planned_once() -> None:
    plans = PlanCache()
    first = plans.plan(TEXT, BOW, name="first", num_ipus=1)
    assert first == lower(parse_hlo(TEXT), BOW, name="first", num_ipus=1)
    again = plans.plan(TEXT.replace("HloModule jit_", "HloModule other_"), BOW, name="again", num_ipus=1)
    assert again == replace(first, name="again")
    assert again.body is first.body


@pytest.mark.parametrize("path", sorted(HLO.glob("*.hlo")), ids=lambda path: path.stem)
def test_functions_that_differ_in_name_alone_are_planned_once(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = re.search(r'op_name="(jit\([^()"]*\))/', text)
    assert named is not None
    other = text.replace(named[1], "jit(stage_17)")
    plans = PlanCache()
    first = plans.plan(text, BOW, name="net", num_ipus=4)
    again = plans.plan(other, BOW, name="jit_stage_17", num_ipus=4)
    assert again == lower(parse_hlo(other), BOW, name="jit_stage_17", num_ipus=4)
    assert again.results is first.results


def test_whatever_changes_the_plan_is_part_of_the_key() -> None:
    plans = PlanCache()
    first = plans.plan(TEXT, BOW, name="net", num_ipus=1)
    assert plans.plan(TEXT, load_machine("c600"), name="net", num_ipus=1) == lower(
        parse_hlo(TEXT), load_machine("c600"), name="net", num_ipus=1
    )
    assert plans.plan(TEXT, BOW, name="net", num_ipus=1, options=PlanOptions(num_io_tiles=1000)).body != first.body
    assert plans.plan(TEXT, BOW, name="net", num_ipus=2).num_ipus == 2


def test_the_oldest_plan_goes_first() -> None:
    plans = PlanCache(programs=2)
    one, two, _, _ = (plans.plan(TEXT, BOW, name="net", num_ipus=count) for count in (1, 2, 1, 3))  # 2 was not asked for lately
    assert plans.plan(TEXT, BOW, name="net", num_ipus=1).body is one.body
    again = plans.plan(TEXT, BOW, name="net", num_ipus=2)
    assert again == two
    assert again.body is not two.body
