"""Dropout of slices: one draw for all elements that a shape lays over each other."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, shape_text


def require_ratio(call: Call, ratio: float) -> None:
    """Raises: popart_exception for a ratio outside of [0, 1)."""
    if not 0 <= ratio < 1:
        name = f"{call.node.domain or 'ai.onnx'}.{call.node.op_type}:{call.version}"
        raise popart_exception(f"{name} ratio value {ratio:g} is not valid. Please use a value in the interval [0,1)")


@op("ShapedDropout", domain=DOMAIN, random=True)
def shaped_dropout(call: Call, x: Any, *, shape: Sequence[int], ratio: float = 0.5) -> Any:
    """x in inference. In training slices are 0 with probability `ratio`, and others grow by 1 / (1 - ratio).

    Args: shape: of the draws; it broadcasts to that of x.
    """
    require_ratio(call, ratio)
    lengths = tuple(shape)
    try:
        fits = np.broadcast_shapes(x.shape, lengths) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise popart_exception(
            f"ShapedDropout: incompatible input tensor and dropout shape. {DOMAIN}.ShapedDropout:1 is configured with shape "
            f"{shape_text(lengths)} which is not broadcastable to the input tensor with shape {shape_text(x.shape)}."
        )
    if not call.run.training:
        return x
    stays = jax.random.bernoulli(call.key(), jnp.asarray(1 - ratio, np.float32), lengths)
    return jnp.where(stays, x * jnp.asarray(1 / (1 - ratio), x.dtype), jnp.zeros((), x.dtype))
