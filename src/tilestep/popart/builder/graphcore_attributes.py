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
    return {name: value for name, value in values.items() if value is not None}


def with_reduction(values: Mapping[str, Any]) -> Attributes:
    return {**as_given(values), "reduction": _REDUCTIONS[values["reduction"]]}


def ctc_loss(values: Mapping[str, Any]) -> Attributes:
    return {**with_reduction(values), "outDataType": onnx_number(data_type_of(values["outDataType"]))}


def ctc_beam_search(values: Mapping[str, Any]) -> Attributes:
    return {name: values[name] for name in ("blank", "beam_width", "top_paths")}


def scatter(values: Mapping[str, Any]) -> Attributes:
    return {"group_size": 1, **values, "reduction": _SCATTERS[values["reduction"]]}


def batch_normalization(values: Mapping[str, Any]) -> Attributes:
    differing: Attributes = {name: values[name] for name, usual in (("epsilon", 1e-05), ("momentum", 0.9)) if values[name] != usual}
    return {**differing, "unbiased_variance": 0}


def group_normalization(values: Mapping[str, Any]) -> Attributes:
    float32_epsilon = 2.0**-23  # differences below it are not written, as in the original
    differing: Attributes = {"epsilon": values["epsilon"]} if abs(values["epsilon"] - 1e-05) > float32_epsilon else {}
    return {**differing, "num_groups": values["num_groups"]}


def lstm(values: Mapping[str, Any]) -> Attributes:
    return {"output_full_sequence": values["outputFullSequence"]}


def depth_to_space(values: Mapping[str, Any]) -> Attributes:
    return {"blocksize": values["blocksize"], **({} if values["mode"] == "DCR" else {"mode": values["mode"]})}


def subsample(values: Mapping[str, Any]) -> Attributes:
    if 0 in values["strides"]:
        raise popart_exception(f"Strides invalid. 0 stride at index {values['strides'].index(0)}")
    return {"strides": values["strides"]}


def print_tensor(values: Mapping[str, Any]) -> Attributes:
    letters = {name: ord(values[name]) for name in ("separator", "openBracket", "closeBracket")}
    return {**without_debug(values), **letters}


def slice(values: Mapping[str, Any]) -> Attributes:
    return {name: values[name] for name in ("axes", "ends", "starts") if name != "axes" or values["axes"]}


def without_debug(values: Mapping[str, Any]) -> Attributes:
    return {name: value for name, value in values.items() if name not in DEBUG_NAMES}
