"""Fields take what pybind11 takes, and refuse the rest by name."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tests.together import each
from tilestep.popart.enums import ReductionType, VirtualGraphMode
from tilestep.popart.options import SessionOptions, TensorLocationSettings


@each(
    "name, given, kept",
    [
        ("enableOutlining", 0, False),
        ("enableOutlining", np.True_, True),
        ("enableOutlining", None, False),
        ("accumulationFactor", np.int32(4), 4),
        ("accumulationFactor", True, 1),
        ("outlineThreshold", 2, 2.0),
        ("logDir", "here", "here"),
        ("customCodelets", ("a.cpp",), ["a.cpp"]),
        ("dotChecks", frozenset({"Final"}), {"Final"}),
        ("virtualGraphSplitRatios", np.array([0.5, 0.5]), [0.5, 0.5]),
    ],
)
def test_a_value_that_pybind11_converts_is_converted(name: str, given: Any, kept: Any) -> None:
    options = SessionOptions()
    setattr(options, name, given)
    assert getattr(options, name) == kept
    assert type(getattr(options, name)) is type(kept)


@each(
    "name, given, message",
    [
        ("enableOutlining", "no", r"enableOutlining must be True or False, not 'no' \(str\)"),
        ("accumulationFactor", 1.5, "accumulationFactor must be a whole number, not 1.5"),
        ("accumulationFactor", 2**63, "accumulationFactor must be a whole number from"),
        ("defaultBufferingDepth", -1, "defaultBufferingDepth must be a whole number from 0"),
        ("numIOTiles", 2**31, "numIOTiles must be a whole number from"),
        ("accumulationFactor", ReductionType.Mean, "accumulationFactor must be a whole number"),
        ("outlineThreshold", "1", "outlineThreshold must be a number, not '1'"),
        ("logDir", 3, "logDir must be a text, not 3"),
        ("virtualGraphMode", 1, "virtualGraphMode must be a member of VirtualGraphMode, not 1"),
        ("virtualGraphMode", ReductionType.Sum, "virtualGraphMode must be a member of VirtualGraphMode"),
        ("customCodelets", "a.cpp", "customCodelets must be a list, not 'a.cpp'"),
        ("dotChecks", ["Final"], "dotChecks must be a set"),
        ("engineOptions", {"a": 1}, "engineOptions must be a dict with a text under each key"),
        ("engineOptions", [("a", "b")], "engineOptions must be a dict"),
        ("weightTensorLocationSettings", VirtualGraphMode.Off, "must be a TensorLocationSettings"),
    ],
)
def test_a_value_of_another_type_is_a_type_error(name: str, given: Any, message: str) -> None:
    options = SessionOptions()
    before = options.as_plain()
    with pytest.raises(TypeError, match=message):
        setattr(options, name, given)
    assert options.as_plain() == before


def test_a_dict_is_changed_in_place_and_checked(options: SessionOptions) -> None:
    given = {"a": "1"}
    options.engineOptions = given
    options.engineOptions["b"] = "2"
    options.engineOptions.update({"c": "3"}, d="4")
    options.engineOptions |= {"e": "5"}
    assert options.engineOptions.setdefault("f", "6") == "6"
    assert options.engineOptions == {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}
    assert given == {"a": "1"}
    wrong: Any = options.engineOptions
    with pytest.raises(TypeError, match="'g': 7 is not allowed here: it must be a text"):
        wrong["g"] = 7
    with pytest.raises(TypeError, match="must be a text"):
        wrong.update({8: "h"})


def test_a_record_that_is_assigned_is_copied_and_a_nested_one_is_live() -> None:
    options, settings = SessionOptions(), TensorLocationSettings(minElementsForOffChip=5)
    options.weightTensorLocationSettings = settings
    settings.minElementsForOffChip = 6
    assert options.weightTensorLocationSettings.minElementsForOffChip == 5
    options.weightTensorLocationSettings.minElementsForOffChip = 7
    assert options.weightTensorLocationSettings.minElementsForOffChip == 7
    assert SessionOptions().weightTensorLocationSettings.minElementsForOffChip == 2


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda options: options.copied(), lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_shares_nothing(options: SessionOptions, how: Any) -> None:
    options.engineOptions["a"] = "b"
    options.automaticLossScalingSettings.toTrackTensors = ["x"]
    twin: SessionOptions = how(options)
    assert twin.same_as(options)
    twin.engineOptions["a"] = "c"
    twin.automaticLossScalingSettings.updatePeriod = 3
    assert (options.engineOptions["a"], options.automaticLossScalingSettings.updatePeriod) == ("b", 1)
    assert not twin.same_as(options)


def test_what_was_changed_is_shown(options: SessionOptions) -> None:
    assert repr(options) == "SessionOptions()"
    options.accumulationFactor = 4
    options.hardwareInstrumentations = set()
    assert options.changed() == {"accumulationFactor": 4, "hardwareInstrumentations": set()}
    assert repr(options) == "SessionOptions(hardwareInstrumentations=set(), accumulationFactor=4)"
