"""Types that frequent operators of ai.graphcore give, by those of their inputs, and of those whose handlers differ from the builder.

All others have what `jax.eval_shape` finds of their handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from tilestep.popart.exceptions import popart_internal_exception

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


def _broadcast(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    left, right = _first(inputs), _first(inputs, 1)
    pairs = list(zip_longest(reversed(left.shape), reversed(right.shape), fillvalue=1))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return [None]
    return [replace(left, shape=tuple(b if a == 1 else a for a, b in reversed(pairs)))]


def _group_normalization(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """A model has one in each layer, and to trace its handler takes 3 ms."""
    x = _first(inputs)
    statistics = replace(x, shape=(x.shape[0] * attributes["num_groups"],))
    return [x, statistics, statistics]


def _subsample(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """Sizes are rounded down, as the original's builder says them, although its programs round up."""
    given, strides = _first(inputs), attributes["strides"]
    if len(strides) != len(given.shape):
        return [None]
    return [replace(given, shape=tuple(size // stride for size, stride in zip(given.shape, strides, strict=True)))]


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
    "GroupNormalization": _group_normalization,
    "Subsample": _subsample,
}
