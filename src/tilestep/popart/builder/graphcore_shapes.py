"""Types that operators of ai.graphcore give, by those of their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from onnx import TensorProto

from tilestep.popart.builder.windows import spatial_shape
from tilestep.popart.enums import DataType
from tilestep.popart.exceptions import popart_exception, popart_internal_exception
from tilestep.popart.tensors import onnx_number

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The type of a tensor. Attributes: kind: TensorProto's number."""

    kind: int
    shape: Shape


Inputs = Sequence[Typed | None]  # None is an absent input
Results = Sequence[Typed | None]
Rule = Callable[[Inputs, Mapping[str, Any], int], Results]  # inputs, attributes, number of outputs -> outputs


def _first(inputs: Inputs, position: int = 0) -> Typed:
    given = inputs[position] if position < len(inputs) else None
    if given is None:
        raise popart_internal_exception(f"input {position} of an operator of ai.graphcore is absent")
    return given


def _as_first(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    return [_first(inputs)]


def _as_second(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    return [_first(inputs, 1)]


def _broadcast(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    left, right = _first(inputs), _first(inputs, 1)
    pairs = list(zip_longest(reversed(left.shape), reversed(right.shape), fillvalue=1))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return [None]
    return [replace(left, shape=tuple(b if a == 1 else a for a, b in reversed(pairs)))]


def _loss(shape_of: int) -> Rule:
    """A loss: a scalar, or with reduction "None" the shape of input `shape_of`."""

    def rule(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
        reduction = attributes.get("reduction", "Mean")
        if reduction not in ("Mean", "Sum", "None"):
            raise popart_internal_exception(f"No loss reduction type for {reduction}")
        return [replace(_first(inputs), shape=_first(inputs, shape_of).shape if reduction == "None" else ())]

    return rule


def _ctc(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    kind = attributes.get("outDataType", 0) or given.kind
    reduced = given.shape[1:2] if attributes.get("reduction", "Mean") == "None" else ()
    return [Typed(kind=kind, shape=reduced), Typed(kind=kind, shape=given.shape)]


def _ctc_beam_search(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    time, batch, paths = given.shape[0], given.shape[1], attributes["top_paths"]
    return [
        replace(given, shape=(batch, paths)),
        Typed(kind=TensorProto.UINT32, shape=(batch, paths)),
        Typed(kind=TensorProto.UINT32, shape=(batch, paths, time)),
    ]


def _batch_normalization(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    x, mean, variance = _first(inputs), _first(inputs, 3), _first(inputs, 4)
    return [x, mean, variance, mean, variance][:outputs]


def _group_normalization(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    x = _first(inputs)
    statistics = replace(x, shape=(x.shape[0] * attributes["num_groups"],))
    return [x, statistics, statistics]


def _subsample(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """Sizes are rounded down, as the original's builder says them, although its programs round up."""
    given, strides = _first(inputs), attributes["strides"]
    if len(strides) != len(given.shape):
        return [None]
    return [replace(given, shape=tuple(size // stride for size, stride in zip(given.shape, strides, strict=True)))]


def _lstm(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    x, weights = _first(inputs), _first(inputs, 1)
    state = (x.shape[1], weights.shape[2])
    full = (x.shape[0], *state) if attributes.get("output_full_sequence", 1) else state
    return [replace(x, shape=full), replace(x, shape=state)]


def _multi_conv(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    results: list[Typed | None] = []
    before = 0
    for position in range(outputs):
        data, weights = _first(inputs, 3 * position), _first(inputs, 3 * position + 1)
        rank = len(data.shape) - 2

        def part(name: str, per_axis: int, default: int, rank: int = rank, before: int = before) -> list[int]:
            flat = list(attributes.get(name, ()))
            return flat[before * per_axis : (before + rank) * per_axis] if flat else [default] * (rank * per_axis)

        spatial = spatial_shape(
            data.shape[2:],
            weights.shape[2:],
            pads=part("pads", 2, 0),
            out_pads=part("outPads", 2, 0),
            strides=part("strides", 1, 1),
            dilations=part("dilations", 1, 1),
            in_dilations=part("inDilations", 1, 1),
        )
        results.append(replace(data, shape=(data.shape[0], weights.shape[0], *spatial)))
        before += rank
    return results


def _dynamic_slice(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """A slice has the given sizes along its axes. The original's builder says the whole tensor's shape here, its program does not."""
    given = _first(inputs)
    shape = list(given.shape)
    for axis, size in zip(attributes["axes"], attributes["sizes"], strict=True):
        shape[axis] = size
    return [replace(given, shape=tuple(shape))]


def _normalize_image(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    if len(given.shape) < 2 or given.shape[-1] != 3:
        raise popart_exception("requires the inner dimension to be 3.")
    kind = TensorProto.FLOAT16 if given.kind == TensorProto.UINT8 else given.kind
    return [Typed(kind=kind, shape=(*given.shape[:-1], 4))]


def _depth_to_space(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given, block = _first(inputs), attributes["blocksize"]
    if len(given.shape) != 4 or block <= 0:
        return [None]
    batch, channels, height, width = given.shape
    return [replace(given, shape=(batch, channels // (block * block), height * block, width * block))]


def _reshape(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """0 keeps a size, and -1 is what is left."""
    given = _first(inputs)
    shape = [given.shape[axis] if size == 0 and axis < len(given.shape) else size for axis, size in enumerate(attributes["shape"])]
    if shape.count(-1) == 1:
        others = math.prod(size for size in shape if size != -1)
        shape[shape.index(-1)] = math.prod(given.shape) // others if others else 0
    return [replace(given, shape=tuple(shape))]


def _slice(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    starts, ends = attributes["starts"], attributes["ends"]
    axes: Sequence[int] = attributes["axes"] if "axes" in attributes else range(len(starts))
    if not len(starts) == len(ends) == len(axes) or any(not -len(given.shape) <= axis < len(given.shape) for axis in axes):
        return [None]
    shape = list(given.shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        shape[axis] = len(range(given.shape[axis])[start:end])
    return [replace(given, shape=tuple(shape))]


def _init(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """`data_type` is a number of PopART's DataType, not of ONNX's."""
    return [Typed(kind=onnx_number(DataType(attributes["data_type"])), shape=tuple(attributes["shape"]))]


def _scatter_reduce(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    if len(inputs) == 3:
        return [replace(given, shape=_first(inputs, 2).shape)]
    axis = attributes["axis"] % max(len(given.shape), 1)
    return [replace(given, shape=(*given.shape[:axis], attributes["axis_size"], *given.shape[axis + 1 :]))]


def _grouped_gather(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """Data [groups, ...] and indices [groups, ...], with the axis counted from the data's groups on."""
    data, indices = _first(inputs), _first(inputs, 1)
    axis = attributes["axis"] % max(len(data.shape), 1)
    return [replace(data, shape=(*data.shape[:axis], *indices.shape[1:], *data.shape[axis + 1 :]))]


def _reduce_median(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    rank = len(given.shape)
    listed: Sequence[int] = attributes["axes"] if "axes" in attributes else range(rank)
    axes = {axis % rank for axis in listed} if rank else set[int]()
    sizes = [(axis, size) for axis, size in enumerate(given.shape) if axis not in axes or attributes.get("keepdims", 1)]
    shape = tuple(1 if axis in axes else size for axis, size in sizes)
    return [replace(given, shape=shape), Typed(kind=TensorProto.INT32, shape=shape)]


def _bucketize(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    return [Typed(kind=TensorProto.INT32, shape=_first(inputs).shape)]


def _sort(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    return [given, Typed(kind=TensorProto.INT32, shape=given.shape)]


def _spline_basis(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given = _first(inputs)
    shape = (given.shape[0], (1 + attributes.get("degree", 1)) ** given.shape[1])
    return [replace(given, shape=shape), Typed(kind=TensorProto.INT32, shape=shape)]


def _spline_weighting(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    given, weights = _first(inputs), _first(inputs, 1)
    return [replace(given, shape=(given.shape[0], weights.shape[2]))]


RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        (
            *("BitwiseNot", "CopyVarUpdate", "Detach", "DynamicAdd", "DynamicUpdate", "DynamicZero", "Expm1", "Gelu", "GeluErf"),
            *(
                "IncrementMod",
                "Log1p",
                "NearbyInt",
                "Nop",
                "PrintTensor",
                "ReplicatedAllReduce",
                "Reverse",
                "Round",
                "Scale",
                "ShapedDropout",
            ),
            *("Swish", "TensorRemap"),
        ),
        _as_first,
    ),
    **dict.fromkeys(
        ("Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXnor", "BitwiseXor", "Fmod", "Remainder", "ScaledAdd"),
        _broadcast,
    ),
    "BatchNormalization": _batch_normalization,
    "Bucketize": _bucketize,
    "Ctc": _ctc,
    "CtcBeamSearchDecoder": _ctc_beam_search,
    "DepthToSpace": _depth_to_space,
    "DynamicSlice": _dynamic_slice,
    "GroupNormalization": _group_normalization,
    "GroupedGather": _grouped_gather,
    "IdentityLoss": _loss(0),
    "Init": _init,
    "L1": _loss(0),
    "LSTM": _lstm,
    "MultiConv": _multi_conv,
    "Nll": _loss(1),
    "NormalizeImage": _normalize_image,
    "ReduceMedian": _reduce_median,
    "Reshape": _reshape,
    "ScatterReduce": _scatter_reduce,
    "SequenceSlice": _as_second,
    "Slice": _slice,
    "Sort": _sort,
    "SplineBasis": _spline_basis,
    "SplineWeighting": _spline_weighting,
    "Subsample": _subsample,
}
