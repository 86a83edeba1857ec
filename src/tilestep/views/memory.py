"""A program's memory as text: the peak, what it is made of, the largest values with their lines, and the steps around it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tilestep.figures.quantities import bytes_text, count_text, share_text
from tilestep.machine.spec import MachineSpec
from tilestep.messages import shortened
from tilestep.plan.frames import user_frame
from tilestep.plan.memory.liveness import Life, Liveness, fits
from tilestep.plan.memory.streaming import streaming_parts
from tilestep.plan.steps import Program
from tilestep.recording.memory import memory_of, over_time

MOST_REPORTED_VALUES: Final = 40
STEPS_AROUND: Final = 10  # before the peak, and behind it
_BAR: Final = 40  # characters of a full tile
_NAME: Final = 90  # characters


def memory_text(program: Program, detail: Liveness, machine: MachineSpec, *, lines: bool = True) -> str:
    """A program's memory, to be read.

    Args:
        program: the planned program.
        detail: its values in the tiles.
        machine: that it was planned for.
        lines: whether to name lines of the user's source.
    """
    always, others = over_time(memory_of(detail), program.memory.tile)
    held = always + others
    peak = int(held.argmax())
    parts = [
        *_head(program, machine),
        "",
        *_categories(program),
        "",
        *_values(program, detail, peak, lines=lines),
        "",
        *_around(detail, held, peak, machine.ipu.tile.sram_bytes),
    ]
    if streamed := streaming_parts(program):
        parts += ["", *_streamed(streamed, machine)]
    return "\n".join(parts) + "\n"


def variables_text(program: Program, detail: Liveness, *, lines: bool = True) -> str:
    """All values of a program with their tiles, in order of their birth."""
    rows = [("first", "last", "bytes", "on each tile", "tiles", "category", "value", *(("line",) if lines else ()))]
    for life in sorted(detail.lives, key=lambda life: (life.first, life.last, life.name)):
        cells = (str(life.first), str(life.last), f"{life.size_bytes:,}", f"{life.tile_bytes:,}", _tiles(life, detail.num_tiles))
        rows.append((*cells, life.category, _named(life.name), *((_line(program, life.frame),) if lines else ())))
    ticks = [f"  {tick:>6}  {_named(step)}" for tick, step in enumerate(detail.steps)]
    head = (
        f"values of '{_named(program.name)}'; `first` and `last` are the steps, listed below, at which a value takes memory first and last"
    )
    return "\n".join([head, "", *_columns(rows, left=(4, 5, 6, 7)), "", "Steps", *ticks]) + "\n"


def _head(program: Program, machine: MachineSpec) -> Iterator[str]:
    memory, tile = program.memory, machine.ipu.tile
    ipus = count_text(program.num_ipus, "IPU")
    yield f"memory of '{_named(program.name)}' on {ipus} of {machine.name}, {machine.ipu.num_tiles:,} tiles of {tile.sram_bytes:,} B each"
    where = f"tile {memory.tile:,}, in superstep '{_named(memory.peak_step)}'"
    free = tile.sram_bytes - memory.peak_bytes
    room = f"{free:,} B are free" if free >= 0 else f"{-free:,} B too many"
    yield f"peak: {memory.peak_bytes:,} B on {where}: {room}"
    if memory.instruction_bytes > tile.executable_bytes:
        over = memory.instruction_bytes - tile.executable_bytes
        yield f"code: {memory.instruction_bytes:,} B on each tile, which can execute {tile.executable_bytes:,} B: {over:,} B too many"
    yield "it fits" if fits(memory, tile) else "it does not fit"


def _categories(program: Program) -> Iterator[str]:
    memory = program.memory
    rows = [(f"{size:,} B", share_text(size, memory.peak_bytes), kind) for kind, size in memory.by_kind]
    yield f"By category, on tile {memory.tile:,} at the peak"
    yield from _columns(rows, left=(2,))


def _values(program: Program, detail: Liveness, peak: int, *, lines: bool) -> Iterator[str]:
    tile = program.memory.tile
    here = [life for life in detail.lives if life.first <= peak <= life.last and life.tile_bytes]
    here = [life for life in here if (tile - life.start_tile) % detail.num_tiles < life.tiles]
    here.sort(key=lambda life: (-life.tile_bytes, life.name))
    rows = [("on the tile", "whole array", "from step", "to step", "category", "value", *(("line",) if lines else ()))]
    if temporary := detail.temporary_tile_bytes[peak]:
        cells = (f"{temporary:,} B", "-", str(peak), str(peak), "temporary", f"temporaries of {_named(detail.steps[peak])}")
        rows.append((*cells, *(("",) if lines else ())))
    for life in here[:MOST_REPORTED_VALUES]:
        cells = (f"{life.tile_bytes:,} B", bytes_text(life.size_bytes), str(life.first), str(life.last), life.category, _named(life.name))
        rows.append((*cells, *((_line(program, life.frame),) if lines else ())))
    yield f"Values at the peak, the largest of {len(here):,}"
    yield from _columns(rows, left=(4, 5, 6))


def _around(detail: Liveness, held: NDArray[np.int64], peak: int, sram_bytes: int) -> Iterator[str]:
    first, last = max(peak - STEPS_AROUND, 0), min(peak + STEPS_AROUND, len(held) - 1)
    scale = max(sram_bytes, int(held[peak]))
    yield f"Steps around the peak, {peak:,} of {len(held):,}; | is where a tile is full"
    rows: list[tuple[str, ...]] = []
    for tick in range(first, last + 1):
        size = int(held[tick])
        rows.append(
            (f"{tick}", f"{size:,} B", _bar(size, sram_bytes, scale), ("> " if tick == peak else "  ") + _named(detail.steps[tick]))
        )
    yield from _columns(rows, left=(2, 3))


def _bar(size: int, full: int, scale: int) -> str:
    """A row of #, as long as `size`, with | where `full` is."""
    bar = ("#" * round(_BAR * size / scale)).ljust(_BAR)
    place = round(_BAR * full / scale)
    return f"{bar[:place]}|{bar[place:]}"


def _streamed(parts: Sequence[tuple[str, int]], machine: MachineSpec) -> Iterator[str]:
    available = machine.host.streaming_memory_bytes
    yield f"In pinned_host, of one IPU; an IPU-Machine has {available:,} B" if available else "In pinned_host, of one IPU"
    rows = [(f"{size:,} B", _named(name)) for name, size in sorted(parts, key=lambda part: (-part[1], part[0]))[:MOST_REPORTED_VALUES]]
    yield from _columns(rows, left=(1,))


def _line(program: Program, frame: int) -> str:
    """'train.py:41 in loss'; '' if the line is unknown."""
    number = user_frame(program.frames, frame)
    if not number:
        return ""
    found = program.frames[number - 1]
    return _named(f"{PurePath(found.file).name}:{found.line}" + (f" in {found.function}" if found.function else ""))


def _tiles(life: Life, num_tiles: int) -> str:
    last = life.start_tile + life.tiles - 1
    return f"{life.start_tile}..{last}" if last < num_tiles else f"{life.start_tile}..{num_tiles - 1}, 0..{last - num_tiles}"


def _named(name: str) -> str:
    return shortened(name, _NAME)


def _columns(rows: Sequence[Sequence[str]], *, left: Iterable[int]) -> Iterator[str]:
    """Rows as lines; the columns that `left` names begin at the left."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))] if rows else []
    words = set(left)
    for row in rows:
        cells = (
            cell.ljust(width) if index in words else cell.rjust(width) for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'  '.join(cells)}".rstrip()
