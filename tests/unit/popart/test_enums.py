"""Enumerations act as pybind11's, with the original's numbers; beginnings of names, and versions."""

from __future__ import annotations

import inspect
import pickle
from enum import Enum
from typing import Any

import pytest

from tests.together import each
from tilestep.popart import enums, names
from tilestep.popart.versions import packageHash, versionNumber, versionString

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


def test_there_are_41_enumerations() -> None:
    assert len(ALL) == 41


def test_texts() -> None:
    assert str(enums.ReductionType.Mean) == "ReductionType.Mean"
    assert repr(enums.ReductionType.Mean) == "<ReductionType.Mean: 1>"
    assert enums.ReductionType.Mean.name == "Mean"
    assert [str(kind) for kind in enums.DeviceType] == ["ipu-model", "cpu", "ipu", "offline-ipu", "sim"]
    assert [str(pattern) for pattern in enums.SyncPattern] == ["full", "singlePipeline", "replicaAndLadder"]


def test_members_of_two_classes_are_never_equal_nor_ordered() -> None:
    assert enums.ReductionType.Sum != enums.InitType.NoInit
    assert enums.ReductionType.Sum != 0
    members: Any = enums.ReductionType
    with pytest.raises(TypeError):
        assert members.Sum < members.Mean


def test_short_names_are_the_same_members() -> None:
    context = enums.BatchSerializationTransformContext
    assert context.Fwd is context.Forward
    assert (context.Fwd.name, list(context)) == ("Forward", [context.Forward, context.Backward])


def test_an_unknown_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="9 is not a valid ReductionType"):
        enums.ReductionType(9)


def test_a_member_indexes_and_pickles() -> None:
    assert ["a", "b"][enums.ReductionType.Mean] == "b"
    assert pickle.loads(pickle.dumps(enums.ReductionType.Mean)) is enums.ReductionType.Mean


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


def test_the_version_is_the_originals() -> None:
    assert versionString() == ".".join(map(str, versionNumber()))
    assert versionNumber()[0] == 3
    assert packageHash() == packageHash() != ""
