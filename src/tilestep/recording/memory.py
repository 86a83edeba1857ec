"""Memory of a program's tiles, worked out again from the lives of its values: pure functions over columns.

A cell is one tile at one tick. Lives say which cells a value takes; what lies on all tiles all the time (code, stacks) is one number. So
a picture of any part of the program is cheap, and nothing is kept but the lives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.plan.memory.liveness import Liveness
from tilestep.recording.schema import CATEGORIES
from tilestep.recording.tables import Tables

_MAX_SUM: Final = 1 << 62  # bytes of all on all tiles, up to which sums are made in 64 bits
MAX_MATRIX_CELLS: Final = 1 << 24  # 128 MiB
LIFE_COLUMNS: Final = ("category", "first", "last", "tile_bytes", "tiles", "start_tile")  # they say which cells a life takes
_SEARCHED_CELLS: Final = 1 << 18  # the search for the peak looks at matrices of so many, one after the other
_ALWAYS: Final = tuple(CATEGORIES.index(name) for name in ("resident", "constant"))

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramMemory:
    """The columns of one program's tables `lives`, `ticks` and `code`. Row k of the lives is element k of each of their columns.

    Raises:
        ValueError: if the columns do not fit together; the message names the column.
    """

    num_tiles: int  # tiles that hold values
    always_bytes: int  # always bytes of code and fixed parts, on each tile
    temporary_tile_bytes: Ints  # temporary tile bytes of the step itself on each tile, by tick
    category: Ints  # for each life, index into CATEGORIES
    first: Ints  # tick at which it is born
    last: Ints  # tick of its last use
    tile_bytes: Ints  # on each tile that holds it
    tiles: Ints  # number of tiles that hold it
    # the first of them; they go round behind the last tile.  Columns of bytes hold Python's own numbers (dtype object) if a sum of them
    # could pass 64 bits, so sums of any size are exact.
    start_tile: Ints

    def __post_init__(self) -> None:
        if not self.num_ticks:
            raise ValueError("it has no ticks, so nothing is known of its memory over time")
        if self.temporary_tile_bytes.min() < 0:
            raise ValueError("column temporary_tile_bytes of ticks must not be negative")
        bounds = {
            "category": (0, len(CATEGORIES) - 1),
            "first": (0, self.num_ticks - 1),
            "last": (0, self.num_ticks - 1),
            "tile_bytes": (0, None),
            "tiles": (1, self.num_tiles),
            "start_tile": (0, self.num_tiles - 1),
        }
        for name, (least, most) in bounds.items():
            column: Ints = getattr(self, name)
            if len(column) != len(self.first):
                raise ValueError(f"column {name} of lives has {len(column)} rows, column first {len(self.first)}")
            if (column < least).any() or (most is not None and (column > most).any()):
                bound = f"must stay within {least} to {most}" if most is not None else "must not be negative"
                raise ValueError(f"column {name} of lives goes from {column.min()} to {column.max()}: it {bound}")
        everywhere = self.num_tiles * (self.always_bytes + float(self.temporary_tile_bytes.max()))
        if everywhere + float(self.tile_bytes.astype(np.float64) @ self.tiles) > _MAX_SUM:
            for name in ("temporary_tile_bytes", "tile_bytes"):
                object.__setattr__(self, name, getattr(self, name).astype(object))
        if (self.first > self.last).any():
            raise ValueError(f"life {int((self.first > self.last).argmax())} ends before it begins")

    @property
    def num_ticks(self) -> int:
        """Ticks of the program."""
        return len(self.temporary_tile_bytes)


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The most that one tile holds at once; of several equal ones the first tick, and there the first tile."""

    total_bytes: int
    tile: int
    tick: int


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryChange:
    """What differs between two ticks: numbers of lives, those of the most bytes first."""

    born: Ints  # alive at the second tick, and not at the first
    gone: Ints  # alive at the first tick, and not at the second
    temporary_tile_bytes: int  # how much more the step itself needs on each tile


def memory_of(detail: Liveness) -> ProgramMemory:
    """The columns of a program that was just planned."""
    lives = detail.lives
    return ProgramMemory(
        num_tiles=detail.num_tiles,
        always_bytes=sum(size for _, size in (*detail.code, *detail.fixed)),
        temporary_tile_bytes=_ints(detail.temporary_tile_bytes),
        category=_ints([CATEGORIES.index(life.category) for life in lives]),
        first=_ints([life.first for life in lives]),
        last=_ints([life.last for life in lives]),
        tile_bytes=_ints([life.tile_bytes for life in lives]),
        tiles=_ints([life.tiles for life in lives]),
        start_tile=_ints([life.start_tile for life in lives]),
    )


def memory_in(tables: Tables, program: int, *, num_tiles: int) -> ProgramMemory:
    """The columns of one program of a recording.

    Args:
        tables: the recording.
        program: row of table `programs`.
        num_tiles: tiles that hold values: those of an IPU without its I/O tiles.

    Raises:
        RecordingError: if its columns do not fit together, or the recording has no detail of this program.
    """
    here = {table: tables.column(table, "program") == program for table in ("lives", "ticks", "code")}
    lives = {name: tables.column("lives", name)[here["lives"]].astype(np.int64) for name in LIFE_COLUMNS}
    try:
        return ProgramMemory(
            num_tiles=num_tiles,
            always_bytes=int(tables.column("code", "tile_bytes")[here["code"]].sum()),
            temporary_tile_bytes=tables.column("ticks", "temporary_tile_bytes")[here["ticks"]],
            **lives,
        )
    except ValueError as error:
        raise RecordingError(f"program {program} of the recording: {error}") from None


def tile_bytes(memory: ProgramMemory, *, ticks: range | None = None, tiles: range | None = None) -> Ints:
    """Bytes on some tiles at some ticks, everything included.

    Args:
        memory: of the program.
        ticks: one after the other; None: all.
        tiles: one after the other; None: all.

    Returns:
        [ticks, tiles].

    Raises:
        ValueError: if a tick or tile is none of the program's, or the matrix would have more than MAX_MATRIX_CELLS cells.
    """
    ticks = _within(ticks, memory.num_ticks, "ticks")
    tiles = _within(tiles, memory.num_tiles, "tiles")
    if len(ticks) * len(tiles) > MAX_MATRIX_CELLS:
        raise ValueError(f"{len(ticks)} ticks of {len(tiles)} tiles are more than {MAX_MATRIX_CELLS} cells: ask for fewer ticks or tiles")
    everywhere = memory.always_bytes + memory.temporary_tile_bytes[ticks.start : ticks.stop, None]
    return _cells(memory, np.arange(len(memory.first)), ticks, tiles) + everywhere


def peak(memory: ProgramMemory) -> Peak:
    """The fullest tile at the tick at which it is fullest. It looks at each tile that differs from its neighbour, and at each tick."""
    tiles, parts = _segments(memory)
    best = Peak(total_bytes=-1, tile=0, tick=0)
    rows = max(1, _SEARCHED_CELLS // len(tiles))
    for start in range(0, memory.num_ticks, rows):
        ticks = range(start, min(start + rows, memory.num_ticks))
        cells = _summed(parts, ticks, len(tiles)) + memory.temporary_tile_bytes[start : ticks.stop, None]
        tick, segment = divmod(int(cells.argmax()), len(tiles))
        if cells[tick, segment] > best.total_bytes:
            best = Peak(total_bytes=int(cells[tick, segment]), tile=int(tiles[segment]), tick=start + tick)
    return Peak(total_bytes=best.total_bytes + memory.always_bytes, tile=best.tile, tick=best.tick)


def by_category(memory: ProgramMemory, tick: int) -> Ints:
    """Bytes of values on each tile at one tick. Temporaries of the step itself count as 'temporary'; code and fixed parts are left out.

    Returns: [categories, tiles], in the order of CATEGORIES.
    """
    ticks, tiles = _within(range(tick, tick + 1), memory.num_ticks, "ticks"), range(memory.num_tiles)
    found = np.concatenate([_cells(memory, np.flatnonzero(memory.category == each), ticks, tiles) for each in range(len(CATEGORIES))])
    found[CATEGORIES.index("temporary")] += memory.temporary_tile_bytes[tick]
    return found


def over_time(memory: ProgramMemory, tile: int | None = None) -> tuple[Ints, Ints]:
    """Bytes at each tick, of all tiles together or of one tile.

    Returns: what always lives (code, fixed parts, resident values, constants), and what does not.
    """
    always = np.isin(memory.category, _ALWAYS)
    if tile is None:
        on_tiles, copies = memory.tile_bytes * memory.tiles, memory.num_tiles
    else:
        (tile,) = _within(range(tile, tile + 1), memory.num_tiles, "tiles")
        on_tiles, copies = memory.tile_bytes * ((tile - memory.start_tile) % memory.num_tiles < memory.tiles), 1

    def sums(chosen: NDArray[np.bool_]) -> Ints:
        changes = np.zeros(memory.num_ticks + 1, on_tiles.dtype)
        np.add.at(changes, memory.first[chosen], on_tiles[chosen])
        np.subtract.at(changes, memory.last[chosen] + 1, on_tiles[chosen])
        return changes.cumsum()[:-1]

    return sums(always) + memory.always_bytes * copies, sums(~always) + memory.temporary_tile_bytes * copies


def alive(memory: ProgramMemory, tick: int) -> Ints:
    """Numbers of the lives that take memory at a tick, those of the most bytes on all tiles first."""
    _within(range(tick, tick + 1), memory.num_ticks, "ticks")
    return _by_size(memory, (memory.first <= tick) & (tick <= memory.last))


def difference(memory: ProgramMemory, before: int, after: int) -> MemoryChange:
    """What was born and what is gone between two ticks, in either order of time."""
    for tick in (before, after):
        _within(range(tick, tick + 1), memory.num_ticks, "ticks")
    then, now = ((memory.first <= tick) & (tick <= memory.last) for tick in (before, after))
    return MemoryChange(
        born=_by_size(memory, now & ~then),
        gone=_by_size(memory, then & ~now),
        temporary_tile_bytes=int(memory.temporary_tile_bytes[after] - memory.temporary_tile_bytes[before]),
    )


def _by_size(memory: ProgramMemory, chosen: NDArray[np.bool_]) -> Ints:
    rows = np.flatnonzero(chosen)
    return rows[np.argsort(-(memory.tile_bytes * memory.tiles)[rows], kind="stable")]


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _within(asked: range | None, count: int, what: str) -> range:
    """The range, or all. Raises: ValueError if it is none of the program's."""
    if asked is None:
        return range(count)
    if asked.step != 1 or not 0 <= asked.start <= asked.stop <= count:
        found = f"{asked.start}:{asked.stop}" + (f":{asked.step}" if asked.step != 1 else "")
        raise ValueError(f"{what} {found} were asked for, but the program has {what} 0:{count}, and gives them one after the other")
    return asked


def _rectangles(memory: ProgramMemory, rows: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """(first tick, tick behind the last, first tile, tile behind the last, bytes) of lives; one that goes round has two rectangles."""
    start, end = memory.start_tile[rows], memory.start_tile[rows] + memory.tiles[rows]
    round_ = np.flatnonzero(end > memory.num_tiles)
    twice = np.concatenate([np.arange(len(rows)), round_])
    begins = np.concatenate([start, np.zeros_like(round_)])
    ends = np.concatenate([np.minimum(end, memory.num_tiles), end[round_] - memory.num_tiles])
    rows = rows[twice]
    return memory.first[rows], memory.last[rows] + 1, begins, ends, memory.tile_bytes[rows]


def _cells(memory: ProgramMemory, rows: Ints, ticks: range, tiles: range) -> Ints:
    """[ticks, tiles]: bytes of some lives."""
    born, gone, begins, ends, sizes = _rectangles(memory, rows)
    begins, ends = (np.clip(edge - tiles.start, 0, len(tiles)) for edge in (begins, ends))
    return _summed((born, gone, begins, ends, sizes), ticks, len(tiles))


def _segments(memory: ProgramMemory) -> tuple[Ints, tuple[Ints, Ints, Ints, Ints, Ints]]:
    """The first tile of each run of tiles that hold the same values, and the rectangles with numbers of runs in place of tiles."""
    born, gone, begins, ends, sizes = _rectangles(memory, np.arange(len(memory.first)))
    edges = np.unique(np.concatenate([np.zeros(1, np.int64), begins, ends]))
    tiles = edges[edges < memory.num_tiles]
    return tiles, (born, gone, np.searchsorted(tiles, begins), np.searchsorted(tiles, ends), sizes)


def _summed(rectangles: tuple[Ints, Ints, Ints, Ints, Ints], ticks: range, columns: int) -> Ints:
    """[ticks, columns]: sums of rectangles, from the changes at their corners."""
    born, gone, begins, ends, sizes = rectangles
    born, gone = (np.clip(edge - ticks.start, 0, len(ticks)) for edge in (born, gone))
    changes = np.zeros((len(ticks) + 1, columns + 1), sizes.dtype)
    for tick, sign in ((born, 1), (gone, -1)):
        np.add.at(changes, (tick, begins), sign * sizes)
        np.add.at(changes, (tick, ends), -sign * sizes)
    return changes.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
