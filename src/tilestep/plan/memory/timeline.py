"""The steps of a program as memory sees them: which buffers each step reads and writes, and how long each buffer lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

from tilestep.cost.step import Held
from tilestep.plan.tile_layout import TileLayout, aligned, block_layout, even_layout

Category = Literal["temporary", "resident", "constant", "argument", "result"]


@dataclass(frozen=True, kw_only=True)
class MemoryMoment:
    """One step as memory sees it. Buffers are the numbers that `Buffers` gives out."""

    step: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    temporary_tile_bytes: int = 0
    in_place: bool = False  # a result may take over the memory of an operand that is read for the last time
    inner: tuple[tuple[MemoryMoment, ...], ...] = ()  # the body of a loop, the arms of a branch; they run between reads and writes


class Buffers:
    """Gives each array a number, and knows its layout and which arrays share memory."""

    def __init__(self, num_tiles: int) -> None:
        self.num_tiles = num_tiles
        self.names: list[str] = []
        self.frames: list[int] = []
        self.sizes: list[int] = []
        self.layouts: list[TileLayout] = []
        self._same: list[int] = []
        self._next_tile = 0  # at which the next array begins that does not cover all tiles

    def new(self, name: str, size_bytes: int, block_bytes: int = 0, *, frame: int = 0) -> int:
        """A buffer of its own.

        Args:
            block_bytes: on the fullest tile, if a plan laid the array out in blocks; 0: it has an even layout.
            frame: number of the line that makes the array, in the module's table; 0: unknown.
        """
        layout = block_layout(size_bytes, block_bytes, self.num_tiles) if block_bytes else even_layout(size_bytes, self.num_tiles)
        if layout.tiles < self.num_tiles:
            layout = TileLayout(tile_bytes=layout.tile_bytes, tiles=layout.tiles, start=self._next_tile)
            self._next_tile = (self._next_tile + layout.tiles) % self.num_tiles
        self.names.append(name)
        self.frames.append(frame)
        self.sizes.append(size_bytes)
        self.layouts.append(layout)
        self._same.append(len(self._same))
        return len(self._same) - 1

    def lay(self, buffer: int, held: Held) -> None:
        """Puts an array where a plan wants it."""
        layout = block_layout(self.sizes[buffer], held.tile_bytes, self.num_tiles)
        self.layouts[buffer] = replace(layout, start=(held.end - layout.tiles) % self.num_tiles if held.end else 0)

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


@dataclass(frozen=True)
class Extent:
    """The first and the last time at which a buffer takes memory."""

    buffer: int
    first: int
    last: int

    def covers(self, time: int) -> bool:
        return self.first <= time <= self.last


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """What takes memory of the tiles, and when."""

    buffers: Buffers  # buffers of the program
    steps: tuple[str, ...]  # name of the step, by tick
    temporary: tuple[int, ...]  # bytes on each tile while the step runs, by tick
    extents: Sequence[Extent]  # for all buffers that need a tile and share no other buffer's memory
    resident: AbstractSet[int]  # the buffers of `extents` that donated arguments use
    constants: AbstractSet[int]  # those that constants use, without resident ones
    arguments: Sequence[int]  # buffers of the other arguments
    results: Sequence[int]  # buffers of the results
    code: Mapping[str, int]  # bytes per tile that are loaded with the program, by kind
    fixed: Mapping[str, int]  # bytes per tile that no program can use otherwise, by kind


@dataclass(frozen=True, kw_only=True)
class EndBuffers:
    """Buffers that live before a program's first step or behind its last."""

    resident: Sequence[int] = ()  # donated arguments stay between runs
    arguments: Sequence[int] = ()  # the others live from the start to their last use
    constants: Sequence[int] = ()  # they live all the time, and are loaded with the program
    results: Sequence[int] = ()  # they live to the end


def occupancy(
    moments: Sequence[MemoryMoment],
    buffers: Buffers,
    ends: EndBuffers,
    *,
    code: Mapping[str, int],
    fixed: Mapping[str, int],
    on_host: Sequence[int] = (),
) -> Occupancy:
    """What takes memory of the tiles while a program runs.

    Args:
        moments: the steps in order.
        code: bytes per tile that are loaded with the program, by kind.
        fixed: bytes per tile that no program can use otherwise, by kind.
        on_host: buffers in the host's memory, which need no tile.
    """
    timeline = _Timeline(buffers)
    start = timeline.tick("program start", 0)
    for buffer in (*ends.arguments, *ends.constants, *ends.resident):
        timeline.touch(buffer, start)
    timeline.run(moments)
    end = timeline.tick("program end", 0)
    for buffer in (*ends.results, *ends.constants, *ends.resident):
        timeline.touch(buffer, end)
    absent = {buffers.find(buffer) for buffer in on_host}
    stays = {buffers.find(buffer) for buffer in ends.resident} - absent
    return Occupancy(
        buffers=buffers,
        steps=tuple(timeline.steps),
        temporary=tuple(timeline.temporary),
        extents=timeline.extents(absent),
        resident=stays,
        constants={buffers.find(buffer) for buffer in ends.constants} - absent - stays,
        arguments=ends.arguments,
        results=ends.results,
        code=code,
        fixed=fixed,
    )


class _Timeline:
    """Steps in the order in which they run: each body of a loop, and each arm of a branch, once."""

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.steps: list[str] = []
        self.temporary: list[int] = []
        self._in_place: list[tuple[int, MemoryMoment]] = []

    def tick(self, step: str, temporary_tile_bytes: int) -> int:
        self.steps.append(step)
        self.temporary.append(aligned(temporary_tile_bytes))
        return len(self.steps) - 1

    def touch(self, buffer: int, time: int) -> None:
        buffer = self.buffers.find(buffer)
        self.first.setdefault(buffer, time)
        self.last[buffer] = time

    def run(self, moments: Sequence[MemoryMoment]) -> None:
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

    def extents(self, absent: set[int]) -> list[Extent]:
        """The extents of all buffers that need a tile. A buffer that takes over memory counts once the operand there is gone."""
        taken_over = dict(self._taken_over(absent))
        found = [Extent(buffer, taken_over.get(buffer, first), self.last[buffer]) for buffer, first in self.first.items()]
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
