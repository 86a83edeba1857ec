"""Normalisation: of groups of channels, of batches (as PopART has it, in training and not), and of images."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.interpolation import wide
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.describing import DOMAIN, op_text, shape_text
from tilestep.popart.ops.gradients import refusing_gradient, without_gradient

_LEAST_RANK = 3
_MEAN, _VARIANCE = 3, 4  # positions of the inputs that are the running statistics
_NAMES = ("scale", "B", "mean", "var")


def batch_norm(call: Call, inputs: tuple[Any, ...], *, epsilon: float, momentum: float, spatial: bool, unbiased: bool) -> Any:
    """The norm; in training also the next running mean and variance, and the batch's.

    Args:
        inputs: x [N, C, D1, ...], then scale, bias, running mean and variance, each [C], or [C, D1, ...] if not `spatial`.
        unbiased: whether the batch's variance divides by one less than its elements, in all but the norm itself.
    """
    _check(call, inputs, spatial)
    x, scale, bias, mean, variance = map(jnp.asarray, inputs)
    along = (1, -1, *(1,) * (x.ndim - 2)) if spatial else (1, *x.shape[1:])
    if not any(map(call.wants, range(1, 5))):
        return refusing_gradient(
            _normed(x, scale, bias, mean, variance, epsilon, along),
            f'BatchNorm Op "{op_text(call.node)}" has {len(call.node.outputs)} output(s) which means it is in inference mode, but its '
            "gradient Op is being created. To use the BatchNorm Op in inference mode during training, it has to be detached first.",
        )
    axes = (0, *range(2, x.ndim)) if spatial else (0,)
    count = math.prod(x.shape[axis] for axis in axes)
    if not x.size:
        nothing = jnp.full((1,), jnp.nan)
        return jnp.zeros_like(x), nothing.astype(mean.dtype), nothing.astype(variance.dtype), mean, variance
    batch = wide(x)
    batch_mean = batch.mean(axes)
    batch_variance = jnp.square(batch - batch.mean(axes, keepdims=True)).mean(axes)
    y = _normed(x, scale, bias, batch_mean, batch_variance, epsilon, along)
    kept = batch_variance * (count / max(count - 1, 1)) if unbiased else batch_variance
    next_mean = (wide(mean) * momentum + batch_mean * (1 - momentum)).astype(mean.dtype)
    next_variance = (wide(variance) * momentum + kept * (1 - momentum)).astype(variance.dtype)
    if not call.run.inside:
        call.set_state(_MEAN, next_mean)
        call.set_state(_VARIANCE, next_variance)
    return y, next_mean, next_variance, batch_mean.astype(mean.dtype), kept.astype(variance.dtype)


def _normed(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, epsilon: float, along: tuple[int, ...]) -> Any:
    inverse = 1 / jnp.sqrt(wide(variance) + epsilon)
    centred = (wide(x) - wide(mean).reshape(along)) * inverse.reshape(along)
    return (centred * wide(scale).reshape(along) + wide(bias).reshape(along)).astype(x.dtype)


def _check(call: Call, inputs: tuple[Any, ...], spatial: bool) -> None:
    x = inputs[0]
    if x.ndim < _LEAST_RANK:
        raise popart_exception(f"batch norm requires X to have a rank >= 3.  x has rank {x.ndim}")
    wanted, what = ((x.shape[1],), "dimension 1") if spatial else (x.shape[1:], "dimensions [1..]")
    for name, value in zip(_NAMES, inputs[1:], strict=True):
        if value.shape != wanted:
            raise popart_exception(
                f"expected shape of batch norm input tensor {name} ({shape_text(value.shape)}) to be {shape_text(wanted)} to match {what} "
                f"of X ({shape_text(x.shape)})"
            )


_COLOURS, _PADDED = 3, 4  # channels of an image, and of the result
_MEAN, _VARIANCE = 3, 4  # positions of a batch norm's running statistics


@op("GroupNormalization", domain=DOMAIN)
def group_norm(call: Call, x: Any, scale: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-5) -> tuple[Any, Any, Any]:
    """Each group of neighbouring channels of each item with mean 0 and variance 1, then times scale [C] plus bias [C].

    Returns: the result, the means and the inverse deviations [N * groups].
    """
    x = jnp.asarray(x)
    items, channels = x.shape[:2]
    if num_groups < 1 or channels % num_groups:
        raise popart_exception(f"num_groups is {num_groups}, and must divide the {channels} channels")
    groups = wide(x).reshape(items, num_groups, math.prod(x.shape[1:]) // num_groups)
    mean = groups.mean(-1, keepdims=True)
    centred = groups - mean
    inverse = lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + epsilon)
    along = (1, channels, *(1,) * (x.ndim - 2))
    y = (centred * inverse).astype(x.dtype).reshape(x.shape) * scale.reshape(along) + bias.reshape(along)
    return y, mean.astype(x.dtype).reshape(-1), inverse.astype(x.dtype).reshape(-1)


@op("BatchNormalization", domain=DOMAIN, state=(_MEAN, _VARIANCE))
def batch_norm_unbiased(
    call: Call, *inputs: Any, epsilon: float = 1e-5, momentum: float = 0.9, spatial: int = 1, unbiased_variance: int = 0
) -> Any:
    """Batch norm of [N, C, D1, ...] whose running variance takes the unbiased one of the batch, as PyTorch's does.

    Args: unbiased_variance: the original's builder writes 0, and its operator does not read it.
    """
    return batch_norm(call, inputs, epsilon=epsilon, momentum=momentum, spatial=bool(spatial), unbiased=True)


@op("NormalizeImage", domain=DOMAIN)
def normalize_image(call: Call, image: Any, offsets: Any, scales: Any, *, scale: float = 1.0) -> Any:
    """(image * scale - offsets) * scales of [..., 3], with a fourth channel of zeros. Bytes become float16. It has no gradient."""
    if abs(scale) < np.finfo(np.float32).eps:
        raise popart_exception("[normalizeImageOpCreator] scale should be greater than 0.")
    if image.ndim < 2 or image.shape[-1] != _COLOURS:
        raise popart_exception("requires the inner dimension to be 3.")
    dtype = np.dtype(np.float16) if image.dtype == np.uint8 else np.dtype(image.dtype)
    image, offsets, scales = (without_gradient(jnp.asarray(value).astype(dtype)) for value in (image, offsets, scales))
    colours = (image * jnp.asarray(scale, dtype) - offsets) * scales
    return jnp.pad(colours, [(0, 0)] * (image.ndim - 1) + [(0, _PADDED - _COLOURS)])
