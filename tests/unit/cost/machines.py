"""Machines and short ways to say what is to be priced."""

import re
from dataclasses import replace

from tilestep.machine import load_machine
from tilestep.machine.spec import IpuSpec, TileSpec
from tilestep.program.work import ArrayShape, Work

BOW = load_machine("bow-2000").ipu
C600 = load_machine("c600").ipu
GC2 = load_machine("c2-card").ipu

# Round numbers for sums by hand: four tiles, six workers, 4 B per cycle of exchange, sync 100, superstep 1,000.
TOY = IpuSpec(
    generation="toy",
    version="toy1",
    num_tiles=4,
    clock_hz=1e6,
    tile=TileSpec(
        sram_bytes=100_000,
        executable_bytes=50_000,
        worker_contexts=6,
        load_store_bytes_per_cycle=24,
        copy_bytes_per_cycle=8,
        exchange_bytes_per_cycle=4,
    ),
    macs_per_cycle_half=64,
    macs_per_cycle_half_float=32,
    macs_per_cycle_float=16,
    macs_per_cycle_float8=0,
    sync_cycles=100,
    superstep_overhead_cycles=1_000,
)


def tiles(count: int, ipu: IpuSpec = BOW) -> IpuSpec:
    """The same IPU with another number of tiles."""
    return replace(ipu, num_tiles=count)


def array(text: str) -> ArrayShape:
    """'f32[2,3]' as a shape, row-major."""
    found = re.fullmatch(r"(\w+)\[([\d,]*)\]", text)
    assert found is not None, text
    dims = tuple(int(dim) for dim in found.group(2).split(",")) if found.group(2) else ()
    return ArrayShape(found.group(1), dims, tuple(reversed(range(len(dims)))))


def work(opcode: str, operands: str, results: str, *, body: str = "", resident: tuple[bool, ...] = (), **attributes: str) -> Work:
    """work('reduce', 'f32[8,4] f32[]', 'f32[8]', body='add', dimensions='{1}')."""
    return Work(
        opcode=opcode,
        operands=tuple(array(text) for text in operands.split()),
        results=tuple(array(text) for text in results.split()),
        attributes=attributes,
        body_opcodes=tuple(body.split()),
        resident=resident,
    )
