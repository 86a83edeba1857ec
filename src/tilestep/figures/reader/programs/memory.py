"""The memory of one program: per tile, by category, by variable and over time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.figures.reader.grouped import Grouped
from tilestep.figures.reader.lazy_sequence import LazySequence
from tilestep.figures.reader.programs.lines import SourceLine
from tilestep.figures.reader.programs.nodes import ProgramLeaf
from tilestep.messages import plain
from tilestep.recording.memory import Peak, ProgramMemory, alive, by_category, over_time, peak, tile_bytes
from tilestep.recording.schema import CATEGORIES, TABLES

MOST_CELLS: Final = 2**27  # the search for the fullest tile looks at no more


@dataclass(frozen=True, kw_only=True)
class Bytes:
    """Bytes on a tile. The model packs values without gaps between them, so both are equal.

    Attributes:
        including_gaps: with the bytes between values.
        excluding_gaps: without them.
    """

    including_gaps: int
    excluding_gaps: int


@dataclass(frozen=True, kw_only=True)
class MemoryOfTile:
    """One tile at the step at which the fullest tile is fullest.

    Attributes:
        total: all bytes.
        by_category: kind of code, or category of values -> bytes; they add up to the total.
    """

    total: Bytes
    by_category: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One tile of each IPU that runs the program.

    Attributes:
        index: of the tile.
        memory: what it holds.
    """

    index: int
    memory: MemoryOfTile


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A value in the tiles.

    Attributes:
        index: among the variables of its program.
        name: the user's name or operation.
        category: one of CATEGORIES: 'temporary', 'resident', 'constant', 'argument', 'result'.
        size_bytes: of the whole array.
        first: tick at which it is born.
        last: tick of its last use.
        tile_bytes: on each tile that holds it.
        tiles: number of tiles that hold it.
        start_tile: the first of them; they go round behind the last tile.
        line: that made it; None: unknown.
    """

    index: int
    name: str
    category: str
    size_bytes: int
    first: int
    last: int
    tile_bytes: int
    tiles: int
    start_tile: int
    line: SourceLine | None

    @property
    def always_live(self) -> bool:
        """Whether it stays between runs."""
        return self.category in ("resident", "constant")


@dataclass(frozen=True, kw_only=True)
class LivenessStep:
    """One moment of a program's memory.

    Attributes:
        tick: its number.
        name: of the superstep.
        program: its leaf in the tree; None: the begin or end of the program, a loop or a branch.
        always_live_bytes: code, fixed parts, resident values and constants, on all tiles of an IPU together.
        not_always_live_bytes: other values, and what the step itself needs, likewise.
        temporary_tile_bytes: that the step itself needs on each tile.
        variables: that take memory then, those of the most bytes first.
    """

    tick: int
    name: str
    program: ProgramLeaf | None = field(repr=False)
    always_live_bytes: int
    not_always_live_bytes: int
    temporary_tile_bytes: int
    _alive: Callable[[int], tuple[Variable, ...]] = field(repr=False)

    @property
    def variables(self) -> tuple[Variable, ...]:
        return self._alive(self.tick)


@final
class MemoryReport:
    """The memory of one program on each IPU that runs it.

    Args:
        grouped: rows of the recording's tables, by program.
        row: of the program.
        strings: texts that columns number, '' the last.
        name: of the program.
        num_tiles: tiles of an IPU that hold values.
        sram_bytes: of a tile.
        leaves: of its tree, in order.
        lines: of table `frames`.
    Attributes:
        max_line_bytes: that a tile has.
        columns: the lives as `tilestep.recording.memory` takes them.
    Raises: RecordingError if the tables do not fit together.
    """

    def __init__(
        self,
        grouped: Grouped,
        row: int,
        *,
        strings: tuple[str, ...],
        name: str,
        num_tiles: int,
        sram_bytes: int,
        leaves: Sequence[ProgramLeaf],
        lines: Callable[[], Sequence[SourceLine | None]],
    ) -> None:
        self._where = f"the memory of program '{plain(name)}'"
        self._strings = strings
        self.max_line_bytes = sram_bytes
        self._leaves, self._lines = leaves, lines
        self._lives, self._ticks, code = (_rows_of(grouped, table, row) for table in ("lives", "ticks", "code"))
        sizes: list[int] = code["tile_bytes"].tolist()
        if any(size < 0 for size in sizes):
            raise RecordingError(f"{self._where} has code of {min(sizes):,} B on a tile: it must be 0 or more")
        self.code: Mapping[str, int] = {self._strings[kind]: size for kind, size in zip(code["kind"].tolist(), sizes, strict=True)}
        temporary = self._ticks["temporary_tile_bytes"]
        if not len(temporary) or int(temporary.min()) < 0:
            raise RecordingError(f"{self._where} has no steps, or steps that need less than 0 B on a tile")
        if int(self._ticks["leaf"].min()) < -1 or int(self._ticks["leaf"].max()) >= len(leaves):
            raise RecordingError(f"{self._where} has steps of leaves outside of the tree, which has {len(leaves):,}")
        try:
            self.columns = ProgramMemory(
                num_tiles=num_tiles,
                always_bytes=sum(self.code.values()),
                temporary_tile_bytes=temporary,
                **{
                    column: self._lives[column].astype(np.int64)
                    for column in ("category", "first", "last", "tile_bytes", "tiles", "start_tile")
                },
            )
        except ValueError as error:
            raise RecordingError(f"{self._where} is damaged: {error}") from None

    @cached_property
    def peak(self) -> Peak:
        """The fullest tile, at the step at which it is fullest: total_bytes, tile, tick. Raises: RecordingError if that takes too long."""
        segments = min(2 * len(self.columns.first) + 1, self.columns.num_tiles)
        if segments * self.columns.num_ticks > MOST_CELLS:
            raise RecordingError(
                f"{self._where} has {self.columns.num_ticks:,} steps of {segments:,} different tiles: {MOST_CELLS:,} cells are the most"
            )
        return peak(self.columns)

    def per_tile(self, tick: int | None = None) -> NDArray[np.int64]:
        """Bytes on each tile at one step; None: that of the peak."""
        tick = self.peak.tick if tick is None else tick
        return tile_bytes(self.columns, ticks=range(tick, tick + 1))[0]

    def by_category(self, tile: int | None = None, tick: int | None = None) -> dict[str, int]:
        """Kinds of code and categories of values -> bytes, on one tile at one step; None: those of the peak."""
        tile = self.peak.tile if tile is None else tile
        tick = self.peak.tick if tick is None else tick
        values: list[int] = self._categories(tick)[:, tile].tolist()
        return {**self.code, **{name: size for name, size in zip(CATEGORIES, values, strict=True) if size}}

    @property
    def tiles(self) -> Sequence[Tile]:
        """All tiles that hold values, at the step at which the fullest is fullest."""
        return LazySequence(self.columns.num_tiles, self._tile)

    @property
    def variables(self) -> Sequence[Variable]:
        """All values in the tiles."""
        return LazySequence(len(self.columns.first), self._variable)

    @property
    def liveness(self) -> Sequence[LivenessStep]:
        """Every step of the program, its begin and its end. The body of a loop is there once."""
        return LazySequence(self.columns.num_ticks, self._step)

    def over_time(self, tile: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(always live, not always live) bytes at each step, of all tiles of an IPU together or of one tile."""
        return over_time(self.columns, tile)

    def _tile(self, index: int) -> Tile:
        parts = self.by_category(index)
        total = sum(parts.values())
        return Tile(index=index, memory=MemoryOfTile(total=Bytes(including_gaps=total, excluding_gaps=total), by_category=parts))

    def _categories(self, tick: int) -> NDArray[np.int64]:
        if tick not in self._by_tick:
            self._by_tick.clear()
            self._by_tick[tick] = by_category(self.columns, tick)
        return self._by_tick[tick]

    @cached_property
    def _by_tick(self) -> dict[int, NDArray[np.int64]]:
        return {}

    @cached_property
    def _over_time(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return over_time(self.columns)

    def _variable(self, index: int) -> Variable:
        lives = self._lives
        return Variable(
            index=index,
            name=self._strings[int(lives["name"][index])],
            category=CATEGORIES[int(lives["category"][index])],
            size_bytes=int(lives["size_bytes"][index]),
            first=int(lives["first"][index]),
            last=int(lives["last"][index]),
            tile_bytes=int(lives["tile_bytes"][index]),
            tiles=int(lives["tiles"][index]),
            start_tile=int(lives["start_tile"][index]),
            line=self._lines()[max(0, int(lives["frame"][index]))],
        )

    def _step(self, tick: int) -> LivenessStep:
        leaf = int(self._ticks["leaf"][tick])
        always, others = self._over_time
        return LivenessStep(
            tick=tick,
            name=self._strings[int(self._ticks["step"][tick])],
            program=None if leaf < 0 else self._leaves[leaf],
            always_live_bytes=int(always[tick]),
            not_always_live_bytes=int(others[tick]),
            temporary_tile_bytes=int(self._ticks["temporary_tile_bytes"][tick]),
            _alive=lambda tick: tuple(self._variable(index) for index in alive(self.columns, tick).tolist()),
        )


def _rows_of(grouped: Grouped, table: str, program: int) -> dict[str, NDArray[Any]]:
    """The columns of one program's rows."""
    rows = grouped.rows(table, "program", program)
    return {name: grouped.tables.column(table, name)[rows] for name in TABLES[table]}
