"""Memory of a tile over time: how many bytes the buffers of a program take on each tile, from birth to last use.

`docs/reference/memory.md` says what is counted and what is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import TileMemoryError
from tilestep.machine.spec import MachineSpec, TileSpec
from tilestep.plan.steps import Program, TileMemory
from tilestep.plan.tile_layout import TileLayout, aligned, block_layout, even_layout

LARGEST = 8  # parts that an error names


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One step as memory sees it. Buffers are the numbers that `Buffers` gives out."""

    step: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    temporary_tile_bytes: int = 0
    in_place: bool = False  # a result may take over the memory of an operand that is read for the last time
    inner: tuple[tuple[Moment, ...], ...] = ()  # the body of a loop, the arms of a branch; they run between reads and writes


class Buffers:
    """Gives each array a number, and knows its layout and which arrays share memory."""

    def __init__(self, num_tiles: int) -> None:
        self.num_tiles = num_tiles
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.layouts: list[TileLayout] = []
        self._same: list[int] = []
        self._next_tile = 0  # at which the next array begins that does not cover all tiles

    def new(self, name: str, size_bytes: int, block_bytes: int = 0) -> int:
        """A buffer of its own.

        Args: block_bytes: on the fullest tile, if a plan laid the array out in blocks; 0: it has an even layout.
        """
        layout = block_layout(size_bytes, block_bytes, self.num_tiles) if block_bytes else even_layout(size_bytes, self.num_tiles)
        if layout.tiles < self.num_tiles:
            layout = replace(layout, start=self._next_tile)
            self._next_tile = (self._next_tile + layout.tiles) % self.num_tiles
        self.names.append(name)
        self.sizes.append(size_bytes)
        self.layouts.append(layout)
        self._same.append(len(self._same))
        return len(self._same) - 1

    def find(self, buffer: int) -> int:
        """The buffer whose memory `buffer` uses."""
        while self._same[buffer] != buffer:
            self._same[buffer] = self._same[self._same[buffer]]
            buffer = self._same[buffer]
        return buffer

    def share(self, buffer: int, owner: int) -> None:
        """From now on `buffer` lives in the memory of `owner`."""
        buffer, owner = self.find(buffer), self.find(owner)
        if buffer != owner:
            self._same[buffer] = owner

    def __len__(self) -> int:
        return len(self._same)


def tile_memory(
    moments: Sequence[Moment],
    buffers: Buffers,
    *,
    code: Mapping[str, int],
    fixed: Mapping[str, int],
    resident: Sequence[int],
    arguments: Sequence[int],
    constants: Sequence[int],
    results: Sequence[int],
    on_host: Sequence[int],
) -> TileMemory:
    """Memory of the fullest tile, at the step at which it is fullest.

    Args:
        moments: the steps in order.
        code: bytes per tile that are loaded with the program, by kind.
        fixed: bytes per tile that no program can use otherwise, by kind.
        resident: buffers of donated arguments; they stay between runs.
        arguments: buffers of the other arguments; they live from the start to their last use.
        constants: buffers that live all the time; they are loaded with the program.
        results: buffers of the results; they live to the end.
        on_host: buffers in the host's memory, which need no tile.
    """
    timeline = _Timeline(buffers)
    start = timeline.tick("program start", 0)
    for buffer in (*arguments, *constants, *resident):
        timeline.touch(buffer, start)
    timeline.run(moments)
    end = timeline.tick("program end", 0)
    for buffer in (*results, *constants, *resident):
        timeline.touch(buffer, end)
    absent = {buffers.find(buffer) for buffer in on_host}
    stays = {buffers.find(buffer) for buffer in resident} - absent
    loaded = {buffers.find(buffer) for buffer in constants} - absent - stays
    lives = timeline.lives(absent)
    peak, tile, live_bytes = _fullest(lives, timeline.temporary, buffers)
    here = {life.buffer: _on_tile(buffers.layouts[life.buffer], tile, buffers.num_tiles) for life in lives if life.covers(peak)}
    layouts = [buffers.layouts[buffer] for buffer in here if buffer not in loaded]
    resident_bytes = sum(size for buffer, size in here.items() if buffer in stays)
    constant_bytes = sum(size for buffer, size in here.items() if buffer in loaded)
    alive: dict[str, int] = defaultdict(int)
    for buffer, size in here.items():
        if size and buffer not in loaded:
            alive[buffers.names[buffer]] += size
    if timeline.temporary[peak]:
        alive[f"temporaries of {timeline.steps[peak]}"] = timeline.temporary[peak]
    kinds = {**code, **({"constants": constant_bytes} if constant_bytes else {}), **fixed}
    code_bytes, fixed_bytes = sum(code.values()) + constant_bytes, sum(fixed.values())
    return TileMemory(
        peak_bytes=code_bytes + fixed_bytes + live_bytes - constant_bytes,
        peak_step=timeline.steps[peak],
        tile=tile,
        code_bytes=code_bytes,
        fixed_bytes=fixed_bytes,
        resident_bytes=resident_bytes,
        transient_bytes=live_bytes - constant_bytes - resident_bytes,
        values_bytes=sum(layout.tile_bytes * layout.tiles for layout in layouts) + timeline.temporary[peak] * buffers.num_tiles,
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


@dataclass(frozen=True)
class _Life:
    """The first and the last time at which a buffer takes memory."""

    buffer: int
    first: int
    last: int

    def covers(self, time: int) -> bool:
        return self.first <= time <= self.last


def _by_size(parts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(((what, size) for what, size in parts.items() if size), key=lambda part: (-part[1], part[0])))


def _on_tile(layout: TileLayout, tile: int, num_tiles: int) -> int:
    return layout.tile_bytes if (tile - layout.start) % num_tiles < layout.tiles else 0


def _fullest(lives: Sequence[_Life], temporary: Sequence[int], buffers: Buffers) -> tuple[int, int, int]:
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
    held = np.zeros(buffers.num_tiles, dtype=np.int64)
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


def _add(held: NDArray[np.int64], layout: TileLayout, size_bytes: int) -> None:
    end = layout.start + layout.tiles
    held[layout.start : end] += size_bytes
    if end > len(held):
        held[: end - len(held)] += size_bytes


class _Timeline:
    """Steps in the order in which they run: each body of a loop, and each arm of a branch, once."""

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.steps: list[str] = []
        self.temporary: list[int] = []
        self._in_place: list[tuple[int, Moment]] = []

    def tick(self, step: str, temporary_tile_bytes: int) -> int:
        self.steps.append(step)
        self.temporary.append(aligned(temporary_tile_bytes))
        return len(self.steps) - 1

    def touch(self, buffer: int, time: int) -> None:
        buffer = self.buffers.find(buffer)
        self.first.setdefault(buffer, time)
        self.last[buffer] = time

    def run(self, moments: Sequence[Moment]) -> None:
        for moment in moments:
            time = self.tick(moment.step, moment.temporary_tile_bytes)
            for buffer in moment.reads:
                self.touch(buffer, time)
            if moment.inner:
                for block in moment.inner:
                    self.run(block)
                time = self.tick(moment.step, 0)
                for buffer in moment.reads:
                    self.touch(buffer, time)
            for buffer in moment.writes:
                self.touch(buffer, time)
            if moment.in_place:
                self._in_place.append((time, moment))

    def lives(self, absent: set[int]) -> list[_Life]:
        """The lives of all buffers that need a tile. A buffer that takes over memory counts once the operand there is gone."""
        taken_over = dict(self._taken_over(absent))
        found = [_Life(buffer, taken_over.get(buffer, first), self.last[buffer]) for buffer, first in self.first.items()]
        return [life for life in found if life.buffer not in absent and life.first <= life.last]

    def _taken_over(self, absent: set[int]) -> Iterator[tuple[int, int]]:
        """(buffer, time) of results that take over the memory of an operand, which the step reads for the last time."""
        layouts = self.buffers.layouts
        for time, moment in self._in_place:
            reads = {self.buffers.find(buffer) for buffer in moment.reads} - absent
            writes = {self.buffers.find(buffer) for buffer in moment.writes} - absent
            dying = sorted((layouts[b] for b in reads - writes if self.last[b] == time), key=_room, reverse=True)
            born = sorted((b for b in writes - reads if self.first[b] == time), key=lambda b: (_room(layouts[b]), b), reverse=True)
            for buffer in born:
                room = next((layout for layout in dying if _fits(layouts[buffer], layout)), None)
                if room is not None:
                    dying.remove(room)
                    yield buffer, time + 1


def _room(layout: TileLayout) -> tuple[int, int, int]:
    return layout.tile_bytes, layout.tiles, layout.start


def _fits(layout: TileLayout, room: TileLayout) -> bool:
    """Whether an array fits into the memory of another."""
    return layout.tile_bytes <= room.tile_bytes and layout.tiles <= room.tiles
