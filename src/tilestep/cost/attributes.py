"""Reads the attributes that HLO prints: lists of numbers, windows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilestep.errors import HloError

_NUMBER = re.compile(r"-?\d+")


def ints(attributes: Mapping[str, str], key: str) -> tuple[int, ...]:
    """The numbers under `key`, for example of 'dimensions={0,2}'; () if it is not there."""
    return tuple(int(number) for number in _NUMBER.findall(attributes.get(key, "")))


@dataclass(frozen=True, kw_only=True)
class WindowDimension:
    """One dimension of a window that slides over an array. `dilation` is the window's, `base_dilation` the array's."""

    size: int = 1
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    dilation: int = 1
    base_dilation: int = 1


def window(attributes: Mapping[str, str], rank: int) -> tuple[WindowDimension, ...]:
    """The window of a reduce-window, select-and-scatter or convolution; all ones where none is printed.

    Raises: HloError if the printed window has another number of dimensions.
    """
    text = attributes.get("window", "").strip("{} ")
    if not text:
        return (WindowDimension(),) * rank
    parts = dict(part.split("=", 1) for part in text.split())

    def numbers(key: str, default: int) -> list[int]:
        found = [int(number) for number in parts[key].split("x")] if key in parts else [default] * rank
        if len(found) != rank:
            raise HloError(f"window={{{text}}} has {len(found)} dimensions under '{key}', expected {rank}")
        return found

    pads = [tuple(map(int, pad.split("_"))) for pad in parts["pad"].split("x")] if "pad" in parts else [(0, 0)] * rank
    if len(pads) != rank or any(len(pad) != 2 for pad in pads):
        raise HloError(f"window={{{text}}}: 'pad' needs {rank} pairs")
    columns = zip(numbers("size", 1), numbers("stride", 1), pads, numbers("rhs_dilate", 1), numbers("lhs_dilate", 1), strict=True)
    return tuple(
        WindowDimension(size=size, stride=stride, pad_low=pad[0], pad_high=pad[1], dilation=dilation, base_dilation=base)
        for size, stride, pad, dilation, base in columns
    )


def taps(dimensions: tuple[WindowDimension, ...]) -> int:
    """Elements of a window."""
    return prod(dimension.size for dimension in dimensions)
