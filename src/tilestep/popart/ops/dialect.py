"""ONNX's operators where PopART gives them a meaning of its own. Sessions see these; the importer does not."""

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import Operator, all_operators, op
from tilestep.onnx.interpreter.values import is_known, module_of
from tilestep.onnx.ops.nn.conv import conv_transpose as onnx_conv_transpose
from tilestep.popart.ops.checks import DIALECT, require_axes, types_and_frames
from tilestep.popart.ops.gradients import extremes, magnitude, rounded
from tilestep.popart.ops.nn.normalise import batch_norm
from tilestep.popart.ops.tensor.scatter import grouped_gather

_POWER: Final = all_operators()["", "Pow"][-1]  # the importer's
_MEAN, _VARIANCE = 3, 4  # positions of a batch norm's running statistics
_OTHER_SIDE: Final = {"SAME_UPPER": "SAME_LOWER", "SAME_LOWER": "SAME_UPPER"}
_STEPS: Final = {"Ceil": "ceil", "Floor": "floor", "Round": "rint", "Sign": "sign"}  # ONNX's name -> NumPy's


def _step(name: str, function: str) -> None:
    @op(name, dialect=DIALECT)
    def handler(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
        return rounded(x, getattr(module_of(x), function)(x))

    handler.__doc__ = f"NumPy's `{function}` of each element. Its gradient is 0."


for _name, _function in _STEPS.items():
    _step(_name, _function)


@op("Abs", dialect=DIALECT)
def absolute(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
    """|x|. Its gradient at 0 is 0."""
    return abs(x) if is_known(x) else magnitude(x)


@op("BatchNormalization", dialect=DIALECT, state=(_MEAN, _VARIANCE))
def batch_norm_by_outputs(
    call: Call, *inputs: Any, epsilon: float = 1e-5, momentum: float = 0.9, spatial: int = 1, consumed_inputs: Any = None, is_test: int = 0
) -> Any:
    """Batch norm of [N, C, D1, ...], in training if the node names more outputs than the first."""
    return batch_norm(call, inputs, epsilon=epsilon, momentum=momentum, spatial=bool(spatial), unbiased=False)


@op("ConvTranspose", dialect=DIALECT)
def conv_transpose(call: Call, *inputs: Any, auto_pad: str = "NOTSET", **attributes: Any) -> Any:
    """As ONNX's, but the odd one of the padding that follows from a size stands at the beginning for SAME_UPPER, and at the end otherwise.

    ONNX's formulas of versions 1 and 11 have it so, and their words do not.
    """
    if auto_pad == "NOTSET" and attributes.get("output_shape"):
        auto_pad = "SAME_LOWER"
    return onnx_conv_transpose(call, *inputs, auto_pad=_OTHER_SIDE.get(auto_pad, auto_pad), **attributes)


@op("Pow", since=7, dialect=DIALECT)
def power(call: Call, x: Any, y: Any) -> Any:
    """x to the power of y of one type. Along the exponent the gradient is no number where x is negative, as the original's is."""
    types_and_frames(call, x, y)
    if (is_known(x) and is_known(y)) or not jnp.issubdtype(x.dtype, jnp.inexact):
        return _POWER.handler(call, x, y)
    return _power(*jnp.broadcast_arrays(x, y))


@jax.custom_jvp
def _power(x: Any, y: Any) -> Any:
    return jnp.power(x, y)


@_power.defjvp
def _power_slope(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    x, y = primals
    value = jnp.power(x, y)
    along_x = jnp.where(y == 0, 0, y * jnp.power(x, y - 1))
    along_y = jnp.where((x == 0) & (y >= 0), 0, value * jnp.log(x))
    return value, along_x * tangents[0] + along_y * tangents[1]


def _reduction(operator: Operator) -> None:
    @op(operator.name, since=operator.since, needs=operator.needs, dialect=DIALECT)
    def handler(call: Call, x: Any, *others: Any, axes: Sequence[int] = (), keepdims: int = 1, **attributes: Any) -> Any:
        require_axes(x, axes)
        if "axes" in call.node.given and not axes:
            return operator.handler(call, x[None], axes=(0,), keepdims=0)
        given: dict[str, Any] = {**attributes, **({"axes": axes} if axes else {})}
        if is_known(x) or operator.name not in _WITH_TIES or not jnp.issubdtype(x.dtype, jnp.inexact):
            return operator.handler(call, x, *others, keepdims=keepdims, **given)
        if operator.name == "ReduceL1":
            return _SUM.handler(call, magnitude(x), axes=axes, keepdims=keepdims)
        extreme = extremes(lax.stop_gradient(operator.handler(call, x, *others, keepdims=1, **given)), x)
        return extreme if keepdims else extreme.reshape(operator.handler(call, x, *others, keepdims=0, **given).shape)

    handler.__doc__ = (
        "As ONNX's, but an attribute `axes` that is empty reduces along no axis, not along all; and all elements that equal an extreme "
        "get its whole gradient."
    )


_WITH_TIES: Final = ("ReduceL1", "ReduceMax", "ReduceMin")
_SUM: Final = all_operators()["", "ReduceSum"][0]
for _reduced in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
    for _operator in all_operators()["", f"Reduce{_reduced}"]:
        _reduction(_operator)


def _extreme(name: str, function: str) -> None:
    @op(name, since=8, dialect=DIALECT)
    def handler(call: Call, *values: Any) -> Any:
        types_and_frames(call, *values)
        importers = all_operators()["", name][-1].handler
        if all(map(is_known, values)) or not jnp.issubdtype(values[0].dtype, jnp.inexact):
            return importers(call, *values)
        extreme = lax.stop_gradient(importers(call, *values))
        return extremes(extreme, *(jnp.broadcast_to(value, extreme.shape) for value in values))

    handler.__doc__ = f"The {function} of the arrays' elements. All that equal it get the whole gradient."


_extreme("Max", "largest")
_extreme("Min", "smallest")


@op("Gather", dialect=DIALECT)
def gather(call: Call, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """The slices of `x` at `indices` of an axis. None of them have a gradient of zeros, as in the original."""
    return grouped_gather(call, x, indices, axis=axis)


def _scatter(operator: Operator) -> None:
    @op(operator.name, since=operator.since, dialect=DIALECT)
    def handler(call: Call, x: Any, indices: Any, updates: Any, *, axis: int = 0) -> Any:
        part = updates[tuple(slice(0, length) for length in indices.shape)]
        return operator.handler(call, x, indices, part, axis=axis)

    handler.__doc__ = "As ONNX's, but updates that there are no indices for are left out."


for _operator in (*all_operators()["", "Scatter"], *all_operators()["", "ScatterElements"]):
    _scatter(_operator)
