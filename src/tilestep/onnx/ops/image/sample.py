"""Values of images at points, and of regions of images: GridSample, AffineGrid, RoiAlign, MaxRoiPool."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, has_room, known, known_ints
from tilestep.onnx.ops.interpolation import clamped, flattened, interpolate, wide

_MOST_OVERSIZE = 4  # how many times larger than the image a region of interest may be, if its samples are counted by its size


@op("GridSample", since=16)
def grid_sample(call: Call, x: Any, grid: Any, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: int = 0) -> Any:
    """Elements of x [N, C, D1, ...] at the points of a grid [N, O1, ..., axes], whose coordinates are -1 to 1, the last axis first."""
    kind = {"nearest": "nearest", "bilinear": "linear", "linear": "linear", "bicubic": "cubic", "cubic": "cubic"}.get(mode)
    if kind is None or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"mode is {mode!r} and padding_mode {padding_mode!r}: no such way of sampling")
    x, sizes = jnp.asarray(x), x.shape[2:]
    if grid.shape[0] != x.shape[0] or grid.shape[-1] != len(sizes):
        raise ValueError(f"a grid of shape {list(grid.shape)} doesn't fit an image of shape {list(x.shape)}")
    edge = functools.partial(_reflected, align_corners=bool(align_corners)) if padding_mode == "reflection" else clamped
    points: list[Any] = []
    for axis, size in enumerate(sizes):
        point = flattened(wide(jnp.asarray(grid))[..., len(sizes) - 1 - axis], 1)
        point = (point + 1) / 2 * (size - 1) if align_corners else ((point + 1) * size - 1) / 2
        point = jnp.round(point) if kind == "nearest" else point
        if padding_mode == "reflection" or (padding_mode == "border" and kind != "cubic"):  # as PyTorch does
            low, high = _borders(size, bool(align_corners))
            point = jnp.where((point < low) | (point > high), edge(point, size), point)
        points.append(point)
    field = flattened(x, 2)
    field = field if kind == "nearest" else wide(field)

    def pick(position: Any) -> Any:
        return jnp.take_along_axis(field, position[:, None], axis=2)

    y = interpolate(pick, points, sizes, kind=kind, edge=_inside(edge), zeros=padding_mode == "zeros", channels=1)
    return y.reshape(*x.shape[:2], *grid.shape[1:-1]).astype(x.dtype)


@op("AffineGrid", since=20, needs=(1,))
def affine_grid(call: Call, theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    """The grid for GridSample of an image of `size` [N, C, D1, ...]: its own points, -1 to 1, moved by theta [N, axes, axes + 1]."""
    _, _, *sizes = known_ints(size, "the size")
    has_room((theta.shape[0], *sizes, len(sizes)), theta.dtype)
    steps = [np.linspace(-1, 1, length) if align_corners else (2 * np.arange(length) + 1) / length - 1 for length in sizes]
    if align_corners:
        steps = [np.zeros(1) if length == 1 else step for length, step in zip(sizes, steps, strict=True)]
    axes = len(sizes)
    points = [step.reshape([-1 if axis == other else 1 for other in range(axes)]) for axis, step in enumerate(steps)]
    theta = jnp.asarray(theta)
    moved = theta[:, :, axes].reshape(-1, *(1,) * axes, axes)
    for axis, point in enumerate(points):
        column = theta[:, :, axes - 1 - axis].reshape(-1, *(1,) * axes, axes)
        moved = moved + np.asarray(point, theta.dtype)[None, ..., None] * column
    return moved


@op("RoiAlign", since=10)
def roi_align(call: Call, x: Any, rois: Any, batch_indices: Any, **attributes: Any) -> Any:
    """RoiAlign of version 16 without the shift by half an element; a region has at least one element."""
    return roi_align_shifted(call, x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", **attributes)


@op("RoiAlign", since=16)
def roi_align_shifted(
    call: Call,
    x: Any,
    rois: Any,
    batch_indices: Any,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel",
) -> Any:
    """Means or maxima [R, C, output_height, output_width] of samples in each part of R regions [x1, y1, x2, y2] of images [N, C, H, W].

    A maximum is taken of an element times its weight in the linear interpolation, as ONNX's other runtimes do.
    """
    if mode not in ("avg", "max") or coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise ValueError(f"mode is {mode!r} and coordinate_transformation_mode {coordinate_transformation_mode!r}: no such way of pooling")
    x, half = jnp.asarray(x), coordinate_transformation_mode == "half_pixel"
    corners = wide(jnp.asarray(rois)) * spatial_scale - (0.5 if half else 0.0)
    sizes, outputs = x.shape[2:], (output_height, output_width)
    points: list[Any] = []
    counted: list[Any] = []
    for axis, (size, output) in enumerate(zip(sizes, outputs, strict=True)):
        start, end = corners[:, 1 - axis], corners[:, 3 - axis]
        length = end - start if half else jnp.maximum(end - start, 1)
        counts = _sample_counts(length / output, sampling_ratio, size / output)
        most = int(counts.max(initial=1))
        step = (jnp.arange(most) + 0.5) / jnp.maximum(counts, 1)[:, None]  # within a part
        points.append(start[:, None, None] + (jnp.arange(output)[:, None] + step[:, None]) * (length / output)[:, None, None])
        counted.append(np.arange(most) < counts[:, None])
    rows, columns = points[0][:, :, :, None, None], points[1][:, None, None, :, :]  # [R, output, samples] twice
    grid = (rows.shape[0], *points[0].shape[1:], *points[1].shape[1:])
    seen = (rows >= -1) & (rows <= sizes[0]) & (columns >= -1) & (columns <= sizes[1])
    taken = counted[0][:, None, :, None, None] & counted[1][:, None, None, None, :]
    images = flattened(wide(x), 2)
    batch = jnp.asarray(batch_indices).reshape(-1, 1)

    def pick(position: Any) -> Any:
        return images[batch, :, position]

    spread = [flattened(jnp.broadcast_to(clamped(point, size), grid), 1) for point, size in zip((rows, columns), sizes, strict=True)]
    combine = jnp.add if mode == "avg" else jnp.maximum
    values = interpolate(pick, spread, sizes, kind="linear", channels=2, combine=combine).reshape(*grid, x.shape[1])
    values = jnp.where(seen[..., None], values, 0)
    if mode == "avg":
        total = jnp.where(taken[..., None], values, 0).sum((2, 4))
        y = total / np.maximum(taken.sum((2, 4)), 1)[..., None]
    else:
        chosen = jnp.broadcast_to(taken[..., None], values.shape)
        samples = [flattened(jnp.moveaxis(array, 5, 1).swapaxes(3, 4), 4) for array in (values, chosen)]  # [R, C, output, output, samples]
        best = jnp.argmax(jnp.where(samples[1], samples[0], -jnp.inf), -1, keepdims=True)
        best = jnp.take_along_axis(samples[0], best, -1)[..., 0]  # its derivative does not compare numbers that may be rounded apart
        y = jnp.where(taken.any((2, 4))[..., None], jnp.moveaxis(best, 1, -1), 0)
    return jnp.moveaxis(y, -1, 1).astype(x.dtype)


@op("MaxRoiPool")
def max_roi_pool(call: Call, x: Any, rois: Any, *, pooled_shape: tuple[int, int], spatial_scale: float = 1.0) -> Any:
    """Maxima [R, C, height, width] of the parts of R regions [image, x1, y1, x2, y2] of images [N, C, H, W]; an empty part has 0.

    Corners are rounded to elements, halves away from 0, and belong to the region.
    """
    images, corners = jnp.asarray(x), wide(jnp.asarray(rois))
    lowest = jnp.asarray(-jnp.inf, images.dtype)

    def pooled(region: Any) -> Any:
        image = images[region[0].astype(np.int32)]
        scaled = region[1:] * spatial_scale
        corner = jnp.trunc(scaled + jnp.copysign(0.5, scaled))
        rows = _parts(corner[1], corner[3], pooled_shape[0], x.shape[2])
        columns = _parts(corner[0], corner[2], pooled_shape[1], x.shape[3])
        maxima = jnp.where(rows[:, :, None], image[:, None], lowest).max(2)
        maxima = jnp.where(columns, maxima[:, :, None], lowest).max(-1)
        return jnp.where(rows.any(-1)[:, None] & columns.any(-1), maxima, 0)

    return jax.lax.map(pooled, corners)


def _parts(start: Any, end: Any, parts: int, size: int) -> Any:
    """Which elements each part of start..end has, [parts, size]."""
    length = jnp.maximum(end - start + 1, 1) / parts
    part, element = jnp.arange(parts), jnp.arange(size)
    first = jnp.clip(jnp.floor(part * length) + start, 0, size)
    last = jnp.clip(jnp.ceil((part + 1) * length) + start, 0, size)
    return (element >= first[:, None]) & (element < last[:, None])


def _sample_counts(part: Any, ratio: int, image: float) -> Array:
    """Samples along one axis in each part of each region: `ratio`, or as many as the part has elements.

    Args:
        part: elements in a part of each region.
        image: elements in a part, if the region is the whole image.
    """
    if ratio > 0:
        return np.full(part.shape[0], ratio)
    counts = np.ceil(known(part, "the regions of interest, because sampling_ratio is 0")).astype(np.int64)
    most = int(np.ceil(image)) * _MOST_OVERSIZE
    if counts.max(initial=0) > most:
        raise ValueError(f"a region of interest wants {counts.max()} samples along a part, and may have {most} because of the image's size")
    return np.maximum(counts, 0)


def _inside(edge: Any) -> Any:
    """`edge`, whose result is on the axis whatever was rounded."""

    def safe(position: Any, size: int) -> Any:
        return jnp.clip(edge(position, size), 0, size - 1)

    return safe


def _borders(size: int, align_corners: bool) -> tuple[float, float]:
    return (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)


def _reflected(position: Any, size: int, *, align_corners: bool) -> Any:
    """Positions beyond a border mirrored at it, as often as it takes."""
    low, high = _borders(size, align_corners)
    length = high - low
    if not length:
        return jnp.zeros_like(position)
    beyond = jnp.abs(position - low) % (2 * length)
    return low + jnp.where(beyond > length, 2 * length - beyond, beyond)
