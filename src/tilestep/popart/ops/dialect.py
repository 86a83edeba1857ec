"""ONNX's operators where PopART gives them a meaning of its own. Sessions see these; the importer does not."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.conv import conv_transpose as onnx_conv_transpose
from tilestep.onnx.registry import all_operators, op
from tilestep.onnx.values import is_known, module_of
from tilestep.popart.ops.batch_norm import batch_norm
from tilestep.popart.ops.checks import DIALECT, types_and_frames
from tilestep.popart.ops.gradients import magnitude, rounded

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
    call: Call,
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    consumed_inputs: Any = None,
    is_test: int = 0,
) -> Any:
    """Batch norm of [N, C, D1, ...], in training if the node names more outputs than the first."""
    return batch_norm(call, (x, scale, bias, mean, variance), epsilon=epsilon, momentum=momentum, spatial=bool(spatial), unbiased=False)


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
