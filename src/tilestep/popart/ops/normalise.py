"""Normalisation: of groups of channels, of batches, and of images."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpret import Call
from tilestep.onnx.ops.interpolation import wide
from tilestep.onnx.registry import op
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.batch_norm import batch_norm
from tilestep.popart.ops.describing import DOMAIN
from tilestep.popart.ops.gradients import without_gradient

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
