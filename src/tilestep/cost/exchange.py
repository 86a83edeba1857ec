"""On-chip exchange: all tiles send and receive at once, so a phase lasts as long as the busiest receiver needs."""

from tilestep.machine.spec import IpuSpec
from tilestep.units import Bytes, Cycles, ceil_div

# Tiles that share an exchange bus: where both receive the same bytes, these come at so many times the rate.
# poplibs@7eac0f26 lib/poplin/ExchangeEstimator.hpp, lib/popops/ExchangeEstimator.cpp.
TILES_PER_BUS = 2


def exchange_cycles(tile_bytes: int, ipu: IpuSpec, *, shared_bytes: int = 0) -> Cycles:
    """Cycles until the busiest tile has received `tile_bytes`; 0 if nothing moves. Excludes sync.

    Args:
        tile_bytes: received by the busiest tile.
        ipu: the IPU.
        shared_bytes: the part of them that the other tile of the same bus receives too.

    Source:
        poplibs@7eac0f26 lib/poplin/ExchangeEstimator.hpp: bytes received / bytes per cycle, without latency.
    """
    rate = ipu.tile.exchange_bytes_per_cycle
    return Cycles(ceil_div((tile_bytes - shared_bytes) * TILES_PER_BUS + shared_bytes, rate * TILES_PER_BUS))


def share(count: int, ipu: IpuSpec) -> int:
    """The fullest tile's part of `count` elements or bytes in an even layout over all tiles."""
    return ceil_div(count, ipu.num_tiles)


def broadcast_bytes(source_bytes: int, result_bytes: int, ipu: IpuSpec) -> Bytes:
    """Bytes that the busiest tile receives when a small array is broadcast over the tiles of a large one.

    No tile needs more than the whole source, nor more than its part of the result.
    """
    return Bytes(min(source_bytes, share(result_bytes, ipu)))
