"""Operands that an elementwise expression reads through slices: a part of an array, or several shifted parts (a stencil).

A slice is no step of its own. One slice of an array has another layout than its reader and moves. Several slices of one array with
different starts are a stencil: each tile keeps its block and receives the margins around it (the halo). Before it computes, it copies
block and halo together, as measured on hardware (thorbenlouw/lbm-graphcore experiments/gaussian-blur-scaling).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilestep.machine.spec import IpuSpec
from tilestep.program.work import DTYPE_BITS, ArrayShape
from tilestep.units import ceil_div

_START = re.compile(r"\[(\d+):")


@dataclass(frozen=True, kw_only=True)
class Halo:
    """Bytes on the fullest tile."""

    received_bytes: int
    copied_bytes: int


def starts(attributes: str) -> tuple[int, ...]:
    """Where a slice starts in each dimension, of '{[0:8], [1:9:2]}'."""
    return tuple(int(start) for start in _START.findall(attributes))


def halo(shape: ArrayShape, slices: Sequence[tuple[int, ...]], ipu: IpuSpec) -> Halo:
    """The margins that a tile needs around its block of `shape`, the result of each slice, whose starts are `slices`.

    The block is taken to be as long in each shifted dimension, and whole in the others where it is large enough for that.
    """
    spans = [max(column) - min(column) for column in zip(*slices, strict=True)]
    whole = prod(size for size, span in zip(shape.dims, spans, strict=True) if not span)
    elements = ceil_div(shape.size, ipu.num_tiles)
    places = max(1, elements // max(1, whole))
    shifted = [span for span in spans if span]
    if not shifted:
        return Halo(received_bytes=0, copied_bytes=0)
    side = places ** (1 / len(shifted))
    margin = prod(side + span for span in shifted) - places
    bits = DTYPE_BITS[shape.dtype]
    margin_bytes = ceil_div(int(margin * min(whole, elements)) * bits, 8)
    return Halo(received_bytes=margin_bytes, copied_bytes=ceil_div(elements * bits, 8) + margin_bytes)
