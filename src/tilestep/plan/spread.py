"""Which tiles hold an array, and how much of it the fullest of them holds.

An array that has too little for every tile lies on some of them, and the next one begins where it ends, so that small
arrays do not pile up on tile 0. Source: graphcore/tensorflow@c7bafc4 tensorflow/compiler/plugin/poplar/driver/tools/
mapping_helper.cc (MapTensorLinearlyImpl rotates what does not cover all tiles); graphcore/poplibs@7eac0f26
lib/poputil/TileMapping.cpp (at least 128 bytes on a tile).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilestep.units import ceil_div

LEAST_BYTES = 128  # of an array on one tile, if it has so many
# Of a region of memory: the widest access of a codelet that needs no interleaved memory is 64 bits.
ALIGNMENT = 8


@dataclass(frozen=True, kw_only=True)
class Spread:
    """`tile_bytes` on each of `tiles` tiles, from tile `start` on and around; the last may hold less."""

    tile_bytes: int
    tiles: int
    start: int = 0


NOWHERE = Spread(tile_bytes=0, tiles=0)


def aligned(size_bytes: int) -> int:
    """Bytes that a region of this size takes with the gap behind it."""
    return ceil_div(size_bytes, ALIGNMENT) * ALIGNMENT


def spread_evenly(size_bytes: int, num_tiles: int) -> Spread:
    """Over as many tiles as it has 128 bytes for."""
    if not size_bytes:
        return NOWHERE
    tile_bytes = aligned(max(ceil_div(size_bytes, num_tiles), min(LEAST_BYTES, size_bytes)))
    return Spread(tile_bytes=tile_bytes, tiles=min(num_tiles, ceil_div(size_bytes, tile_bytes)))


def spread_in_blocks(size_bytes: int, block_bytes: int, num_tiles: int) -> Spread:
    """In blocks of one tile each, as a plan laid it out; never on more tiles than that needs."""
    if not size_bytes:
        return NOWHERE
    tile_bytes = aligned(max(block_bytes, ceil_div(size_bytes, num_tiles)))
    return Spread(tile_bytes=tile_bytes, tiles=min(num_tiles, ceil_div(size_bytes, tile_bytes)))
