"""The fingerprint of a program: equal for equal code, options and machine, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.pjrt.running.program_source import fingerprint

MACHINE = load_machine("bow-2000")
GIVEN: dict[str, Any] = {"code": b"module", "num_replicas": 1, "num_partitions": 4, "options": PlanOptions(), "machine": MACHINE}


def test_equal_programs_have_equal_fingerprints() -> None:
    assert fingerprint(**GIVEN) == fingerprint(**{**GIVEN, "machine": load_machine("bow-2000"), "options": PlanOptions()})
    assert len(fingerprint(**GIVEN)) == 64


@pytest.mark.parametrize(
    "other",
    [
        {"code": b"modules"},
        {"num_replicas": 4, "num_partitions": 1},
        {"options": PlanOptions(partials_type="half")},
        {"machine": load_machine("bow-2000", num_tiles=4)},
        {"machine": replace(MACHINE, sync_pattern="singlePipeline")},
    ],
)
def test_all_that_a_plan_depends_on_is_in_the_fingerprint(other: dict[str, Any]) -> None:
    assert fingerprint(**{**GIVEN, **other}) != fingerprint(**GIVEN)
