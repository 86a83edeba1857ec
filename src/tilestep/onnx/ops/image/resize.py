"""Resize and Upsample: interpolation along one axis after the other, with positions and weights known when the program is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, has_room, known, known_ints, module_of
from tilestep.onnx.ops.interpolation import CUBIC, cubic_weights, wide

_KINDS: Final = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
_REACH: Final = {"linear": 1, "cubic": 2}  # elements on each side of a point that count, unless a filter is stretched
_COORDINATES: Final = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


@dataclass(frozen=True, kw_only=True)
class ResizeMethod:
    """How values between elements are made: the attributes of Resize.

    Attributes:
        kind: "nearest", "linear" or "cubic".
        nearest: which element is the nearest one; "simple" is before version 11.
        outside: whether elements beyond the border have no weight; else they are those at the border.
        extrapolation: what stands outside of the image for "tf_crop_and_resize".
    """

    kind: str
    coordinates: str = "asymmetric"
    nearest: str = "simple"
    cubic: float = CUBIC
    outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0

    def __post_init__(self) -> None:
        if self.coordinates not in _COORDINATES:
            raise ValueError(f"coordinate_transformation_mode is {self.coordinates!r}, and may be one of {', '.join(_COORDINATES)}")
        if self.nearest not in ("simple", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            raise ValueError(f"nearest_mode is {self.nearest!r}, and may be round_prefer_floor, round_prefer_ceil, floor or ceil")


@op("Upsample")
def upsample_image(call: Call, x: Any, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Any:
    """An image [N, C, H, W] enlarged by two factors."""
    return _resized(x, range(4), [1.0, 1.0, height_scale, width_scale], None, None, ResizeMethod(kind=_kind(mode)))


@op("Upsample", since=7)
def upsample_by_attribute(call: Call, x: Any, *, scales: Sequence[float], mode: str = "nearest") -> Any:
    """Each axis enlarged by its factor."""
    return _resized(x, range(x.ndim), scales, None, None, ResizeMethod(kind=_kind(mode)))


@op("Upsample", since=9, needs=(1,))
@op("Resize", since=10, needs=(1,))
def resize_by_scales(call: Call, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    """Each axis enlarged or shrunk by its factor; the first element stays where it is."""
    return _resized(x, range(x.ndim), known(scales, "the scales").tolist(), None, None, ResizeMethod(kind=_kind(mode)))


@op("Resize", since=11, needs=(1, 2, 3))
def resize(
    call: Call,
    x: Any,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = CUBIC,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    """Each of the `axes` resized by its factor, or to its size.

    Args: roi: for "tf_crop_and_resize" which part of x is resized: all starts, then all ends, 0 to 1.
    """
    method = ResizeMethod(
        kind=_kind(mode),
        coordinates=coordinate_transformation_mode,
        nearest=nearest_mode,
        cubic=cubic_coeff_a,
        outside=bool(exclude_outside),
        antialias=bool(antialias) and mode != "nearest",
        extrapolation=extrapolation_value,
    )
    chosen = [normalize_axis_index(axis, x.ndim) for axis in (range(x.ndim) if axes is None else axes)]
    factors = known(scales, "the scales").tolist() if scales is not None and scales.size else None
    wanted = known_ints(sizes, "the sizes") if sizes is not None and sizes.size else None
    if (factors is None) == (wanted is None):
        raise ValueError("give either scales or sizes")
    if wanted is not None and len(wanted) == len(chosen):
        factors, wanted = _by_sizes([x.shape[axis] for axis in chosen], wanted, keep_aspect_ratio_policy)
    parts = None
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None or roi.size != 2 * len(chosen):
            raise ValueError(f"tf_crop_and_resize wants a roi of {2 * len(chosen)} values")
        parts = known(roi, "the region of interest").astype(np.float64).reshape(2, -1).T.tolist()
    return _resized(x, chosen, factors or [], wanted, parts, method)


def _kind(mode: str) -> str:
    if mode not in _KINDS:
        raise ValueError(f"mode is {mode!r}, and may be nearest, linear or cubic")
    return _KINDS[mode]


def _by_sizes(old: Sequence[int], sizes: Sequence[int], policy: str) -> tuple[list[float], list[int]]:
    """Factors and sizes of the axes. Args: policy: whether all have one factor, the smallest or largest."""
    factors = [size / length if length else 1.0 for size, length in zip(sizes, old, strict=True)]
    if policy == "stretch":
        return factors, list(sizes)
    if policy not in ("not_larger", "not_smaller"):
        raise ValueError(f"keep_aspect_ratio_policy is {policy!r}, and may be stretch, not_larger or not_smaller")
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(old), [int(factor * length + 0.5) for length in old]


def _resized(
    x: Any,
    axes: Sequence[int],
    factors: Sequence[float],
    sizes: Sequence[int] | None,
    parts: Sequence[Sequence[float]] | None,
    method: ResizeMethod,
) -> Any:
    if len(factors) != len(axes):
        raise ValueError(f"there are {len(factors)} scales or sizes, and {len(axes)} axes")
    if not all(factor > 0 for factor in factors):
        raise ValueError(f"scales are {list(factors)}, and each must be above 0")
    old = [x.shape[axis] for axis in axes]
    if sizes is None:  # float32 products, as ONNX's shape inference has them
        sizes = [int(np.floor(np.float32(factor) * np.float32(size))) for factor, size in zip(factors, old, strict=True)]
    shape = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    if not has_room(shape, x.dtype):
        x = jnp.asarray(x)
    y = x if method.kind == "nearest" else wide(x)
    for number, axis in enumerate(axes):
        part = (0.0, 1.0) if parts is None else (parts[number][0], parts[number][1])
        if factors[number] != 1 or sizes[number] != old[number] or part != (0, 1):
            y = _resized_axis(y, axis, factors[number], sizes[number], part, method)
    if method.kind == "nearest" or not np.issubdtype(x.dtype, np.integer):
        return y.astype(x.dtype)
    limits = jnp.iinfo(x.dtype)
    return jnp.clip(jnp.round(y), limits.min, limits.max).astype(x.dtype)


def _resized_axis(x: Any, axis: int, factor: float, size: int, part: tuple[float, float], method: ResizeMethod) -> Any:
    length = x.shape[axis]
    points = _points(length, size, factor, part, method.coordinates)
    if method.kind == "nearest":
        y = _taken(x, _nearest(points, method.nearest, factor, length), axis)
    else:
        positions, weights = _taps(points, factor, method)
        if method.outside:
            weights = np.where((positions < 0) | (positions >= length), 0, weights)
            weights = weights / np.where(weights.sum(1, keepdims=True) == 0, 1, weights.sum(1, keepdims=True))
        near = jnp.take(jnp.asarray(x), np.clip(positions, 0, length - 1), axis=axis, mode="clip")
        y = (near * np.expand_dims(weights.astype(x.dtype), list(range(2, x.ndim + 1 - axis)))).sum(axis + 1)
    if method.coordinates == "tf_crop_and_resize":
        beyond = (points < 0) | (points > length - 1)
        y = jnp.where(np.expand_dims(beyond, list(range(1, x.ndim - axis))), np.asarray(method.extrapolation, y.dtype), y)
    return y


def _points(length: int, size: int, factor: float, part: tuple[float, float], coordinates: str) -> Array:
    """Where each element of the result is in the original, in elements."""
    place = np.arange(size, dtype=np.float64)
    exact = factor * length  # the size before it was made whole
    match coordinates:
        case "align_corners":
            return np.zeros(size) if exact == 1 else place * (length - 1) / (exact - 1)
        case "asymmetric":
            return place / factor
        case "tf_half_pixel_for_nn":
            return (place + 0.5) / factor
        case "tf_crop_and_resize":
            start, end = part
            if exact == 1:
                return np.full(size, 0.5 * (start + end) * (length - 1))
            return start * (length - 1) + place * (end - start) * (length - 1) / (exact - 1)
        case "pytorch_half_pixel" if size == 1:
            return np.zeros(size)
        case "half_pixel_symmetric":
            return length / 2 * (1 - size / exact) + (place + 0.5) / factor - 0.5
        case _:
            return (place + 0.5) / factor - 0.5


def _nearest(points: Array, mode: str, factor: float, length: int) -> Array:
    """The position of the element nearest to each point."""
    if mode == "simple":
        mode = "ceil" if factor < 1 else "floor"
    match mode:
        case "round_prefer_floor":
            positions = np.ceil(points - 0.5)
        case "round_prefer_ceil":
            positions = np.floor(points + 0.5)
        case "floor":
            positions = np.floor(points)
        case _:
            positions = np.ceil(points)
    return np.clip(positions, 0, length - 1).astype(np.int32)


def _taps(points: Array, factor: float, method: ResizeMethod) -> tuple[Array, Array]:
    """Positions and weights [points, taps] of the elements that each point is made of."""
    base = np.floor(points)
    fraction = points - base
    if not method.antialias or factor >= 1:
        weights = cubic_weights(fraction, method.cubic) if method.kind == "cubic" else [1 - fraction, fraction]
        taps = np.arange(len(weights)) - (len(weights) // 2 - 1)
        return (base[:, None] + taps).astype(np.int32), np.stack(weights, 1)
    reach = _REACH[method.kind]
    first = int(np.floor(-reach / factor)) + 1
    taps = np.arange(first, 2 - first)
    distance = np.abs((taps - fraction[:, None]) * factor)
    weights = np.clip(1 - distance, 0, 1) if method.kind == "linear" else _cubic_filter(distance, method.cubic)
    return (base[:, None] + taps).astype(np.int32), weights / weights.sum(1, keepdims=True)


def _cubic_filter(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _taken(x: Any, positions: Array, axis: int) -> Any:
    """Elements of an axis; a repetition of each, where it is one."""
    repeats = len(positions) // x.shape[axis] if x.shape[axis] else 1
    xp = module_of(x)
    if len(positions) == repeats * x.shape[axis] and np.array_equal(positions, np.arange(len(positions)) // max(repeats, 1)):
        return xp.repeat(x, repeats, axis)
    return np.take(x, positions, axis) if xp is np else jnp.take(x, positions, axis=axis, mode="clip")
