"""Windows that slide over an array's spatial axes: the arithmetic that convolutions and pools share."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Where windows are on a field. Each attribute has an entry for each spatial axis.

    Attributes:
        sizes: of the field.
        kernel: elements of a window.
        strides: from one window to the next.
        dilations: from one element of a window to the next.
        pads: elements before and behind the field that the operator asks for.
        outputs: how many windows there are.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """From the first element of a window to its last one, both counted."""
        return tuple(map(extent, self.kernel, self.dilations))

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """`pads`, and what the last windows reach beyond it, because ceil_mode starts them early."""
        over = [
            (output - 1) * stride + reach - size - low - high
            for output, stride, reach, size, (low, high) in zip(
                self.outputs, self.strides, self.extents, self.sizes, self.pads, strict=True
            )
        ]
        return tuple((low, high + max(more, 0)) for (low, high), more in zip(self.pads, over, strict=True))


def extent(kernel: int, dilation: int) -> int:
    """From the first element of a window to its last one, both counted."""
    return (kernel - 1) * dilation + 1


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Windows:
    """Windows by ONNX's attributes; those that are None are 1 for each axis, and 0 for pads.

    Args:
        pads: all that are before the field, then all that are behind it. `auto_pad` takes their place if it is set.
        ceil_mode: whether a last window counts that starts on the field or before it and ends behind the pads.

    Raises: ValueError if an attribute has the wrong length or range, or a window is larger than the padded field.
    """
    axes = len(sizes)
    kernel = checked(kernel, "kernel_shape", axes, least=1)
    strides = checked(strides or (1,) * axes, "strides", axes, least=1)
    dilations = checked(dilations or (1,) * axes, "dilations", axes, least=1)
    edges = checked(pads or (0,) * 2 * axes, "pads", 2 * axes, least=0)
    around: list[tuple[int, int]] = []
    outputs: list[int] = []
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        reach = extent(kernel[axis], dilations[axis])
        low, high = _edges(auto_pad, size, reach, stride, (edges[axis], edges[axes + axis]))
        room = size + low + high - reach
        if room < 0:
            raise ValueError(f"a window of {reach} is larger than the padded field of {size + low + high}")
        output = -(-room // stride) + 1 if ceil_mode else room // stride + 1
        if ceil_mode and (output - 1) * stride >= size + low:
            output -= 1  # it would start behind the field
        around.append((low, high))
        outputs.append(output)
    return Windows(sizes=tuple(sizes), kernel=kernel, strides=strides, dilations=dilations, pads=tuple(around), outputs=tuple(outputs))


def split_evenly(total: int, auto_pad: str) -> tuple[int, int]:
    """Padding before and behind the field, of `total` elements; an odd one stands behind for SAME_UPPER, else before."""
    less, more = total // 2, total - total // 2
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def check_auto_pad(auto_pad: str) -> None:
    """Raises: ValueError if it is no value that ONNX knows."""
    if auto_pad not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise ValueError(f"auto_pad is {auto_pad!r}, and may be NOTSET, SAME_UPPER, SAME_LOWER or VALID")


def checked(values: Sequence[int], name: str, length: int, *, least: int) -> tuple[int, ...]:
    """`values` as a tuple. Raises: ValueError if there are not `length`, or one is below `least`."""
    if len(values) != length:
        raise ValueError(f"{name} has {len(values)} values, and the input wants {length}")
    if any(value < least for value in values):
        raise ValueError(f"{name} is {list(values)}, and each must be at least {least}")
    return tuple(values)


def _edges(auto_pad: str, size: int, reach: int, stride: int, asked: tuple[int, int]) -> tuple[int, int]:
    check_auto_pad(auto_pad)
    if auto_pad == "NOTSET":
        return asked
    if auto_pad == "VALID":
        return 0, 0
    return split_evenly(max(0, (-(-size // stride) - 1) * stride + reach - size), auto_pad)
