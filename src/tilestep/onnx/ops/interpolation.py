"""Values between the elements of an array: at points that need not be whole numbers, and may be outside."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

CUBIC: Final = -0.75  # the coefficient of cubic convolution in PyTorch and in GridSample

Edge = Callable[[Any, int], Any]
"""(positions, size of the axis) -> positions on the axis, by a rule for what is outside."""


def wide(x: Any) -> Any:
    """`x` in a type that sums may be taken in: 16-bit floats and integers become float32."""
    return x.astype(jnp.promote_types(x.dtype, np.float32))


def flattened(x: Any, axis: int) -> Any:
    """`x` with all axes from `axis` on as one; it may be empty, which -1 in a shape may not."""
    return x.reshape(*x.shape[:axis], math.prod(x.shape[axis:]))


def cubic_weights(fraction: Any, coefficient: float = CUBIC) -> list[Any]:
    """Weights of the four elements around a point.

    Args: fraction: from the second element to the point, 0 to 1; NumPy or JAX.
    """
    a, back = coefficient, 1 - fraction
    outer = [((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a for t in (fraction, back)]
    inner = [((a + 2) * t - (a + 3)) * t * t + 1 for t in (fraction, back)]
    return [outer[0], *inner, outer[1]]


def clamped(position: Any, size: int) -> Any:
    """The nearest position on an axis of this size."""
    return jnp.clip(position, 0, size - 1)


def interpolate(
    pick: Callable[[Any], Any],
    points: Sequence[Any],
    sizes: Sequence[int],
    *,
    kind: str,
    edge: Edge = clamped,
    zeros: bool = False,
    channels: int,
    combine: Callable[[Any, Any], Any] = jnp.add,
) -> Any:
    """Values at points of a field.

    Args:
        pick: gives the elements at positions in the flattened field; it adds an axis of channels.
        points: coordinates in elements along each axis of the field, arrays of one shape.
        sizes: of the field.
        kind: "nearest" (points are whole numbers), "linear" or "cubic".
        edge: where elements outside of the field are taken from.
        zeros: whether elements outside are 0 instead.
        channels: the position of the axis that `pick` adds.
        combine: of the weighted elements.
    """
    value = None
    for taps in itertools.product(*(_taps(point, kind) for point in points)):
        positions = [edge(position, size).astype(np.int32) for (position, _), size in zip(taps, sizes, strict=True)]
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        element = pick(sum(position * stride for position, stride in zip(positions, strides, strict=True)))
        if zeros:
            inside = [(position >= 0) & (position <= size - 1) for (position, _), size in zip(taps, sizes, strict=True)]
            element = jnp.where(jnp.expand_dims(math.prod(inside[1:], start=inside[0]), channels), element, 0)
        weights = [weight for _, weight in taps if weight is not None]
        if weights:
            element = element * jnp.expand_dims(math.prod(weights[1:], start=weights[0]), channels)
        value = element if value is None else combine(value, element)
    return value


def _taps(point: Any, kind: str) -> list[tuple[Any, Any]]:
    """(position, weight) of the elements around a point, on one axis; no weight is 1."""
    if kind == "nearest":
        return [(point, None)]
    base = jnp.floor(point)
    fraction = point - base
    if kind == "linear":
        return [(base, 1 - fraction), (base + 1, fraction)]
    return [(base + step - 1, weight) for step, weight in enumerate(cubic_weights(fraction))]
