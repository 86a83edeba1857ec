"""How many bytes the fullest tile holds, and when: buffers from birth to last use over the whole program.

Every array is spread evenly over all tiles, rounded up. `docs/memory.md` says what is counted and what is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tilestep.errors import TileMemoryError
from tilestep.machine.spec import IpuSpec, MachineSpec
from tilestep.plan.steps import Program, TileMemory
from tilestep.units import ceil_div

LARGEST = 8  # parts that a report names


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One step as memory sees it. Buffers are numbers given out by `Buffers`."""

    step: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    temporary_tile_bytes: int = 0
    in_place: bool = False  # what it writes may take the place of what it reads for the last time
    inner: tuple[tuple[Moment, ...], ...] = ()  # of a loop its body, of a branch its arms; run between reads and writes


class Buffers:
    """Gives out numbers for arrays, and knows which of them share memory."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sizes: list[int] = []
        self._same: list[int] = []

    def new(self, name: str, size_bytes: int) -> int:
        """A buffer of its own."""
        self.names.append(name)
        self.sizes.append(size_bytes)
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
    resident: Sequence[int],
    arguments: Sequence[int],
    constants: Sequence[int],
    results: Sequence[int],
    on_host: Sequence[int],
    ipu: IpuSpec,
) -> TileMemory:
    """The peak over all steps.

    Args:
        moments: the steps in order.
        resident: buffers of donated arguments; they stay between runs.
        arguments: buffers of the other arguments; they live from the start to their last use.
        constants: buffers that live all the time.
        results: buffers of the results; they live to the end.
        on_host: buffers that lie in the host's memory and need no tile.
    """
    timeline = _Timeline(buffers)
    start = timeline.tick("program start", 0)
    for buffer in (*arguments, *constants, *resident):
        timeline.touch(buffer, start)
    timeline.run(moments)
    end = timeline.tick("program end", 0)
    for buffer in (*results, *constants):
        timeline.touch(buffer, end)
    stays = {buffers.find(buffer) for buffer in resident}
    absent = {buffers.find(buffer) for buffer in on_host}
    tile_bytes = {
        buffer: ceil_div(buffers.sizes[buffer], ipu.num_tiles) for buffer in timeline.first if buffer not in absent and buffer not in stays
    }
    total = timeline.totals(tile_bytes)
    peak = max(range(len(total)), key=total.__getitem__)  # the first of equal ones
    resident_bytes = sum(ceil_div(buffers.sizes[buffer], ipu.num_tiles) for buffer in stays - absent)
    parts: dict[str, int] = defaultdict(int)
    parts["code and stacks"] = ipu.code_allowance_bytes
    for buffer in stays - absent:
        parts[buffers.names[buffer]] += ceil_div(buffers.sizes[buffer], ipu.num_tiles)
    for buffer, size in tile_bytes.items():
        if timeline.first[buffer] <= peak <= timeline.last[buffer]:
            parts[buffers.names[buffer]] += size
    parts[f"temporaries of {timeline.steps[peak]}"] = timeline.temporary[peak]
    largest = sorted(((what, size) for what, size in parts.items() if size), key=lambda part: (-part[1], part[0]))
    return TileMemory(
        peak_bytes=ipu.code_allowance_bytes + resident_bytes + total[peak],
        peak_step=timeline.steps[peak],
        code_bytes=ipu.code_allowance_bytes,
        resident_bytes=resident_bytes,
        transient_bytes=total[peak],
        largest=tuple(largest[:LARGEST]),
    )


def check_fits(program: Program, machine: MachineSpec) -> None:
    """Raises TileMemoryError if the program needs more bytes on a tile than the tile has."""
    memory = program.memory
    available = machine.ipu.tile.sram_bytes
    if memory.peak_bytes > available:
        raise TileMemoryError(
            tile=memory.tile,
            superstep=memory.peak_step,
            needed_bytes=memory.peak_bytes,
            available_bytes=available,
            largest=memory.largest,
        )


class _Timeline:
    """Steps in the order in which they run, bodies of loops and all arms of branches once each."""

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.steps: list[str] = []
        self.temporary: list[int] = []
        self._in_place: list[tuple[int, Moment]] = []

    def tick(self, step: str, temporary_tile_bytes: int) -> int:
        self.steps.append(step)
        self.temporary.append(temporary_tile_bytes)
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

    def totals(self, tile_bytes: dict[int, int]) -> list[int]:
        """Bytes on a tile at each time: what lives, and the step's own temporaries."""
        change = [0] * (len(self.steps) + 1)
        for buffer, size in tile_bytes.items():
            change[self.first[buffer]] += size
            change[self.last[buffer] + 1] -= size
        live = list(accumulate(change))[:-1]
        for time, saved in self._reused(tile_bytes):
            live[time] -= saved
        return [size + temporary for size, temporary in zip(live, self.temporary, strict=True)]

    def _reused(self, tile_bytes: dict[int, int]) -> Iterator[tuple[int, int]]:
        """For each step in place: bytes of results that take over an operand read there for the last time."""
        for time, moment in self._in_place:
            reads = {self.buffers.find(buffer) for buffer in moment.reads}
            writes = {self.buffers.find(buffer) for buffer in moment.writes}
            dying = sorted((tile_bytes[b] for b in reads - writes if b in tile_bytes and self.last[b] == time), reverse=True)
            born = sorted((tile_bytes[b] for b in writes - reads if b in tile_bytes and self.first[b] == time), reverse=True)
            saved = 0
            for size in born:
                if dying and dying[0] >= size:
                    saved += size
                    dying.pop(0)
            yield time, saved
