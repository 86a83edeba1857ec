"""Enumerations act as pybind11's, with the original's numbers; beginnings of names, and versions."""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any

from tests.together import each
from tilestep.popart import enums, names

ALL = [
    kind
    for kind in vars(enums).values()
    if isinstance(kind, type) and issubclass(kind, Enum) and not kind.__name__.startswith("_") and len(kind)
]


@each(
    "member, number",
    [
        (enums.DataType.UINT8, 0),
        (enums.DataType.FLOAT, 11),
        (enums.DataType.UNDEFINED, 18),
        (enums.ReductionType.Sum, 0),
        (enums.ReductionType.Mean, 1),
        (enums.ReplicatedStreamMode.Broadcast, 0),
        (enums.AnchorReturnTypeId.Sum, 3),
        (enums.AdamMode.Lamb, 3),
        (enums.RecomputationType.RecomputeAll, 4),
        (enums.RecomputationType.Pipeline, 3),
        (enums.MergeVarUpdateType.AutoTight, 3),
        (enums.VirtualGraphMode.ExecutionPhases, 3),
        (enums.CommGroupType.Ungrouped, 3),
        (enums.PatternsLevel.All, 3),
        (enums.DeviceType.Sim, 4),
    ],
)
def test_numbers_are_the_originals(member: Any, number: int) -> None:
    assert (int(member), member.value, type(member)(number)) == (number, number, member)


@each("kind", ALL)
def test_numbers_are_different_and_without_gaps(kind: type[Enum]) -> None:
    assert sorted(member.value for member in kind) == list(range(len(kind)))


def test_each_function_gives_the_beginning_of_a_name() -> None:
    prefixes = {name: function() for name, function in inspect.getmembers(names, callable) if name.startswith("reserved")}
    assert len(prefixes) == 50
    assert len(set(prefixes.values())) == 50
    assert all(prefix.endswith("_") for prefix in prefixes.values())


def test_some_names_that_programs_write_out() -> None:
    assert names.reservedGradientPrefix() == "Gradient___"
    assert names.reservedAccl1Prefix() + "w" == "Accl1___w"
    assert names.reservedDefaultScaledLearningRate0Prefix() + "FLOAT" == "scaledLearningRate0___default___FLOAT"
    assert names.reservedLossScalingPrefix() == "lossScaling_"
