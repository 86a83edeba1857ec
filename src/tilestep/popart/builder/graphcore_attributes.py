"""Attributes that operators of ai.graphcore write, where they are not simply their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tilestep.popart.builder.attributes import AttributeValue
from tilestep.popart.enums import ReductionType, ScatterReduction
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of, onnx_number

Attributes = dict[str, AttributeValue]
DEBUG_NAMES: Final = frozenset({"debugContext", "debug_context", "debugPrefix"})
_REDUCTIONS: Final = {ReductionType.Sum: "Sum", ReductionType.Mean: "Mean", ReductionType.NoReduction: "None"}
_SCATTERS: Final = {
    ScatterReduction.Sum: "sum",
    ScatterReduction.Max: "max",
    ScatterReduction.Min: "min",
    ScatterReduction.Mul: "mul",
    ScatterReduction.NoReduction: "none",
}


def as_given(values: Mapping[str, Any]) -> Attributes:
    """Parameters as they are, but None."""
    return {name: value for name, value in values.items() if value is not None}


def with_reduction(values: Mapping[str, Any]) -> Attributes:
    """Parameters as they are, with the reduction as a text."""
    return {**as_given(values), "reduction": _REDUCTIONS[values["reduction"]]}


def ctc_loss(values: Mapping[str, Any]) -> Attributes:
    """The type of the result as ONNX numbers it; 0 for that of the input."""
    return {**with_reduction(values), "outDataType": onnx_number(data_type_of(values["outDataType"]))}


def ctc_beam_search(values: Mapping[str, Any]) -> Attributes:
    """Parameters but the debug context."""
    return {name: values[name] for name in ("blank", "beam_width", "top_paths")}


def scatter(values: Mapping[str, Any]) -> Attributes:
    """One group unless it is said, and the reduction as a text."""
    return {"group_size": 1, **values, "reduction": _SCATTERS[values["reduction"]]}


def batch_normalization(values: Mapping[str, Any]) -> Attributes:
    """Epsilon and momentum only where they are not usual ones."""
    differing: Attributes = {name: values[name] for name, usual in (("epsilon", 1e-05), ("momentum", 0.9)) if values[name] != usual}
    return {**differing, "unbiased_variance": 0}


def group_normalization(values: Mapping[str, Any]) -> Attributes:
    """Epsilon only where it is not the usual one."""
    float32_epsilon = 2.0**-23  # differences below it are not written, as in the original
    differing: Attributes = {"epsilon": values["epsilon"]} if abs(values["epsilon"] - 1e-05) > float32_epsilon else {}
    return {**differing, "num_groups": values["num_groups"]}


def lstm(values: Mapping[str, Any]) -> Attributes:
    """Under the name that the operator has for it."""
    return {"output_full_sequence": values["outputFullSequence"]}


def depth_to_space(values: Mapping[str, Any]) -> Attributes:
    """The mode only where it is not the usual one."""
    return {"blocksize": values["blocksize"], **({} if values["mode"] == "DCR" else {"mode": values["mode"]})}


def subsample(values: Mapping[str, Any]) -> Attributes:
    """Strides. Raises: popart_exception for one of 0."""
    if 0 in values["strides"]:
        raise popart_exception(f"Strides invalid. 0 stride at index {values['strides'].index(0)}")
    return {"strides": values["strides"]}


def print_tensor(values: Mapping[str, Any]) -> Attributes:
    """Letters as their numbers."""
    letters = {name: ord(values[name]) for name in ("separator", "openBracket", "closeBracket")}
    return {**without_debug(values), **letters}


def slice(values: Mapping[str, Any]) -> Attributes:
    """Axes only where some are named."""
    return {name: values[name] for name in ("axes", "ends", "starts") if name != "axes" or values["axes"]}


def without_debug(values: Mapping[str, Any]) -> Attributes:
    """Parameters but the debug context."""
    return {name: value for name, value in values.items() if name not in DEBUG_NAMES}
