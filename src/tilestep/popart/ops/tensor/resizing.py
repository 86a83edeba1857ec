"""Resize as PopART has it: its nearest element is PyTorch's unless a mode is given, and version 10 has the attributes of version 11."""

from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import known, known_ints
from tilestep.onnx.ops.image.resize import resize as onnx_resize
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.checks import DIALECT

_OF_PYTORCH: Final = "pytorch"  # the nearest mode
_BOTH: Final = (
    "Resize op has inputs for `sizes` and `scales`. Only one of these tensors should be present. If `sizes` is needed, please pass an "
    "empty string as the name of `scales` in the input list ( resize([X, roi, '', sizes]) ). If the proto is not generated from the "
    "PopART Builder, please confirm that only one of the two tensors shall have data."
)


@op("Resize", since=10, needs=(1,), dialect=DIALECT)
def resize_by_scales(
    call: Call,
    x: Any,
    scales: Any,
    *,
    mode: str = "nearest",
    nearest_mode: str = _OF_PYTORCH,
    coordinate_transformation_mode: str = "half_pixel",
) -> Any:
    """Each axis enlarged or shrunk by its factor."""
    return _resized(call, x, known(scales, "the scales").ravel(), None, mode, nearest_mode, coordinate_transformation_mode)


@op("Resize", since=11, needs=(1, 2, 3), dialect=DIALECT)
def resize(
    call: Call,
    x: Any,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
    exclude_outside: int = 0,
    cubic_coeff_a: float = -0.75,
    extrapolation_value: float = 0.0,
) -> Any:
    """Each axis resized by its factor, or to its size. What belongs to modes that the original does not have is refused."""
    has_scales, has_sizes = scales is not None and scales.size > 0, sizes is not None and sizes.size > 0
    if has_scales and has_sizes:
        raise popart_exception(_BOTH)
    if exclude_outside or coordinate_transformation_mode == "tf_crop_and_resize":
        raise popart_exception("Resize takes neither exclude_outside nor the mode tf_crop_and_resize")
    if has_sizes:
        wanted = known_ints(sizes, "the sizes")
        factors = np.array([size / length for size, length in zip(wanted, x.shape, strict=True)], np.float32)
        return _resized(call, x, factors, wanted, mode, nearest_mode, coordinate_transformation_mode)
    return _resized(call, x, known(scales, "the scales").ravel(), None, mode, nearest_mode, coordinate_transformation_mode)


def _resized(call: Call, x: Any, factors: Any, sizes: list[int] | None, mode: str, nearest: str, coordinates: str) -> Any:
    """Args: sizes: of the result; if there are none, those that follow from the factors."""
    if len(factors) != x.ndim:
        raise popart_exception(f"Resize has {len(factors)} scales, and {x.ndim} axes")
    own = [int(np.float32(factor) * np.float32(length)) for factor, length in zip(factors, x.shape, strict=True)]
    y = jnp.asarray(x)
    for axis, (factor, size) in enumerate(zip(factors, sizes or own, strict=True)):
        exact = float(np.float32(factor) * np.float32(x.shape[axis]))
        if mode == "nearest" and nearest == _OF_PYTORCH:
            places = np.floor(np.arange(size, dtype=np.float32) / np.float32(factor))
            y = jnp.take(y, np.clip(places, 0, x.shape[axis] - 1).astype(np.int32), axis=axis)
            continue
        kind = coordinates
        if coordinates == "pytorch_half_pixel" and exact > 1:
            kind = "half_pixel"  # the size before it is made whole decides
        given: dict[str, Any] = {"sizes": np.array([size])} if sizes else {"scales": np.array([factor], np.float32)}
        y = onnx_resize(call, y, None, axes=[axis], mode=mode, nearest_mode=nearest, coordinate_transformation_mode=kind, **given)
    return y
