"""Which tiles hold an array, and how many bytes of it each of them holds.

An array that is too small for every tile takes some of them. The next such array begins where it ends, so that small arrays
do not pile up on tile 0. Source: graphcore/tensorflow@c7bafc4 tensorflow/compiler/plugin/poplar/driver/tools/
mapping_helper.cc (MapTensorLinearlyImpl rotates what does not cover all tiles); graphcore/poplibs@7eac0f26
lib/poputil/TileMapping.cpp (at least 128 bytes on a tile).
"""

from dataclasses import dataclass

from tilestep.units import ceil_div

LEAST_TILE_BYTES = 128  # unless the array is smaller
ALIGNMENT = 8  # bytes, of a region of memory: the widest access of a codelet outside of interleaved memory is 64 bits


@dataclass(frozen=True, kw_only=True)
class TileLayout:
    """`tile_bytes` on each of `tiles` tiles, from tile `start` on and around; the last may hold less."""

    tile_bytes: int
    tiles: int
    start: int = 0


NOWHERE = TileLayout(tile_bytes=0, tiles=0)


def aligned(size_bytes: int) -> int:
    """Bytes that a region of this size takes, with the gap behind it."""
    return ceil_div(size_bytes, ALIGNMENT) * ALIGNMENT


def even_layout(size_bytes: int, num_tiles: int) -> TileLayout:
    """The layout over as many tiles as get 128 bytes each."""
    if not size_bytes:
        return NOWHERE
    tile_bytes = aligned(max(ceil_div(size_bytes, num_tiles), min(LEAST_TILE_BYTES, size_bytes)))
    return TileLayout(tile_bytes=tile_bytes, tiles=min(num_tiles, ceil_div(size_bytes, tile_bytes)))


def block_layout(size_bytes: int, block_bytes: int, num_tiles: int) -> TileLayout:
    """The layout of a plan: one block a tile, on no more tiles than the array fills."""
    if not size_bytes:
        return NOWHERE
    tile_bytes = aligned(max(block_bytes, ceil_div(size_bytes, num_tiles)))
    return TileLayout(tile_bytes=tile_bytes, tiles=min(num_tiles, ceil_div(size_bytes, tile_bytes)))
