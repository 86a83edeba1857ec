"""Memory of a tile over time: how many bytes the buffers of a program take on each tile, from birth to last use.

`docs/reference/memory.md` says what is counted and what is not.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilestep.cost.splits import Ints, integers
from tilestep.errors import TileMemoryError
from tilestep.machine.spec import MachineSpec, TileSpec
from tilestep.plan.memory.timeline import Buffers, Category, Extent, Occupancy
from tilestep.plan.steps import Branch, Loop, Node, Program, Series, TileMemory
from tilestep.plan.tile_layout import TileLayout

LARGEST = 8  # parts that an error names


@dataclass(frozen=True, kw_only=True)
class Life:
    """One value in the tiles, from birth to last use. Values that share memory are one."""

    name: str  # the user's operation that made it, or the argument's name
    category: Category  # how long it stays, and why
    size_bytes: int  # size bytes of the whole array
    first: int  # tick at which it takes memory for the first time
    last: int  # tick at which it takes memory for the last time
    tile_bytes: int  # on each tile that holds it
    tiles: int  # how many tiles hold it
    start_tile: int  # the first of them; they go round behind the last tile
    frame: int  # number of the line that made it in `Program.frames`; 0: an argument, or unknown


@dataclass(frozen=True, kw_only=True)
class Liveness:
    """All that the model knows of a program's memory. Ticks are its begin, each step, and its end; the body of a loop counts once."""

    num_tiles: int  # tiles that hold values
    steps: tuple[str, ...]  # name of the step, by tick. A loop and a branch have one tick in front of their steps and one behind them.
    # position of the step among the leaves of the program's tree, in the tree's order, by tick; -1 if it is no leaf
    leaves: tuple[int, ...]
    temporary_tile_bytes: tuple[int, ...]  # temporary tile bytes of the step itself, on each tile, by tick
    lives: tuple[Life, ...]  # for all values that take memory of a tile
    code: tuple[tuple[str, int], ...]  # (kind, bytes) on each tile, loaded with the program
    fixed: tuple[tuple[str, int], ...]  # (kind, bytes) on each tile that no program can use otherwise


def liveness(occupancy: Occupancy, body: Series, frame_number: Callable[[int], int]) -> Liveness:
    """The memory of a program in detail.

    Args:
        occupancy: what takes memory, and when.
        body: the program's tree, of which `occupancy` has the moments.
        frame_number: from a frame's number in the module to that in the program.
    """
    leaves = (-1, *_leaves(body.nodes, itertools.count()), -1)
    assert len(leaves) == len(occupancy.steps)  # a step's node and moment are appended together
    return Liveness(
        num_tiles=occupancy.buffers.num_tiles,
        steps=occupancy.steps,
        leaves=leaves,
        temporary_tile_bytes=occupancy.temporary,
        lives=tuple(_lives(occupancy, frame_number)),
        code=tuple(occupancy.code.items()),
        fixed=tuple(occupancy.fixed.items()),
    )


def _leaves(nodes: Sequence[Node], numbers: Iterator[int]) -> Iterator[int]:
    """The leaf of each tick of some nodes, or -1."""
    for node in nodes:
        match node:
            case Series(nodes=inner):
                yield from _leaves(inner, numbers)
            case Loop(body=body):
                yield -1
                yield from _leaves(body.nodes, numbers)
                yield -1
            case Branch(arms=arms):
                yield -1
                for arm in arms:
                    yield from _leaves(arm.nodes, numbers)
                if arms:
                    yield -1
            case _:
                yield next(numbers)


def _lives(occupancy: Occupancy, frame_number: Callable[[int], int]) -> Iterator[Life]:
    buffers = occupancy.buffers
    categories: dict[int, Category] = {}
    groups: tuple[tuple[Category, Iterable[int]], ...] = (
        ("result", occupancy.results),
        ("argument", occupancy.arguments),
        ("constant", occupancy.constants),
        ("resident", occupancy.resident),
    )
    for category, members in groups:  # the last that names a buffer says what it is
        categories.update(dict.fromkeys(map(buffers.find, members), category))
    for extent in occupancy.extents:
        layout = buffers.layouts[extent.buffer]
        if layout.tiles:
            yield Life(
                name=buffers.names[extent.buffer],
                category=categories.get(extent.buffer, "temporary"),
                size_bytes=buffers.sizes[extent.buffer],
                first=extent.first,
                last=extent.last,
                tile_bytes=layout.tile_bytes,
                tiles=layout.tiles,
                start_tile=layout.start,
                frame=frame_number(buffers.frames[extent.buffer]),
            )


def tile_memory(occupancy: Occupancy) -> TileMemory:
    """Memory of the fullest tile, at the step at which it is fullest."""
    buffers, code, fixed = occupancy.buffers, occupancy.code, occupancy.fixed
    stays, loaded, lives = occupancy.resident, occupancy.constants, occupancy.extents
    peak, tile, live_bytes = _fullest(lives, occupancy.temporary, buffers)
    here = {life.buffer: _on_tile(buffers.layouts[life.buffer], tile, buffers.num_tiles) for life in lives if life.covers(peak)}
    layouts = [buffers.layouts[buffer] for buffer in here if buffer not in loaded]
    resident_bytes = sum(size for buffer, size in here.items() if buffer in stays)
    constant_bytes = sum(size for buffer, size in here.items() if buffer in loaded)
    alive: dict[str, int] = defaultdict(int)
    for buffer, size in here.items():
        if size and buffer not in loaded:
            alive[buffers.names[buffer]] += size
    if occupancy.temporary[peak]:
        alive[f"temporaries of {occupancy.steps[peak]}"] = occupancy.temporary[peak]
    kinds = {**code, **({"constants": constant_bytes} if constant_bytes else {}), **fixed}
    code_bytes, fixed_bytes = sum(code.values()) + constant_bytes, sum(fixed.values())
    return TileMemory(
        peak_bytes=code_bytes + fixed_bytes + live_bytes - constant_bytes,
        peak_step=occupancy.steps[peak],
        tile=tile,
        code_bytes=code_bytes,
        fixed_bytes=fixed_bytes,
        resident_bytes=resident_bytes,
        transient_bytes=live_bytes - constant_bytes - resident_bytes,
        values_bytes=sum(layout.tile_bytes * layout.tiles for layout in layouts) + occupancy.temporary[peak] * buffers.num_tiles,
        always=_by_size(kinds),
        alive=_by_size(alive),
    )


def fits(memory: TileMemory, tile: TileSpec) -> bool:
    """Whether a tile holds all of it, and the part of a tile that can hold code holds the code."""
    return memory.peak_bytes <= tile.sram_bytes and memory.instruction_bytes <= tile.executable_bytes


def check_fits(program: Program, machine: MachineSpec) -> None:
    """Checks that a program fits into the memory of a tile, and its code into the part of a tile that can hold code.

    Args:
        program: the planned program.
        machine: the machine that it was planned for.

    Raises:
        TileMemoryError: if it does not fit.
    """
    memory, tile = program.memory, machine.ipu.tile
    if fits(memory, tile):
        return
    in_total = memory.peak_bytes > tile.sram_bytes
    code = tuple(part for part in memory.always if part[0].endswith("code"))
    raise TileMemoryError(
        tile=memory.tile,
        superstep=memory.peak_step,
        needed_bytes=memory.peak_bytes if in_total else memory.instruction_bytes,
        available_bytes=tile.sram_bytes if in_total else tile.executable_bytes,
        largest=memory.largest[:LARGEST] if in_total else code,
        of_code=not in_total,
    )


def _by_size(parts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(((what, size) for what, size in parts.items() if size), key=lambda part: (-part[1], part[0])))


def _on_tile(layout: TileLayout, tile: int, num_tiles: int) -> int:
    return layout.tile_bytes if (tile - layout.start) % num_tiles < layout.tiles else 0


def _fullest(lives: Sequence[Extent], temporary: Sequence[int], buffers: Buffers) -> tuple[int, int, int]:
    """(time, tile, bytes) of the most that one tile holds at once; of several equal ones the first."""
    everywhere = [0] * (len(temporary) + 1)  # change of the bytes on every tile
    events: list[list[tuple[TileLayout, int]]] = [[] for _ in range(len(temporary) + 1)]  # changes of the bytes on some tiles
    for life in lives:
        layout = buffers.layouts[life.buffer]
        if layout.tiles == buffers.num_tiles:
            everywhere[life.first] += layout.tile_bytes
            everywhere[life.last + 1] -= layout.tile_bytes
        elif layout.tiles:
            events[life.first].append((layout, layout.tile_bytes))
            events[life.last + 1].append((layout, -layout.tile_bytes))
    held = np.zeros(buffers.num_tiles, dtype=integers(sum(layout.tile_bytes for at in events for layout, _ in at)))
    common = most_here = fullest_tile = 0
    best = (0, 0, -1)
    for time, extra in enumerate(temporary):
        common += everywhere[time]
        for layout, change in events[time]:
            _add(held, layout, change)
        if events[time]:
            fullest_tile = int(held.argmax())
            most_here = int(held[fullest_tile])
        if common + most_here + extra > best[2]:
            best = (time, fullest_tile, common + most_here + extra)
    return best


def _add(held: Ints, layout: TileLayout, size_bytes: int) -> None:
    end = layout.start + layout.tiles
    held[layout.start : end] += size_bytes
    if end > len(held):
        held[: end - len(held)] += size_bytes
