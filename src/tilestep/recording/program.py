"""The compilation part of a recording: each program's tree, and the memory that its values take over time."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeVar, final

import numpy as np

from tilestep.options import PlanOptions
from tilestep.plan.memory.liveness import Liveness
from tilestep.plan.serialized import dump_program
from tilestep.plan.steps import Branch, Frame, Loop, Node, Program, Series
from tilestep.recording.schema import CATEGORIES
from tilestep.recording.storage.container import Builder

_UNKNOWN: Final = Frame(file="", function="", line=0, column=0, parent=0)
_CATEGORY: Final = {category: number for number, category in enumerate(CATEGORIES)}
N = TypeVar("N", bound=Node)


@dataclass(frozen=True, kw_only=True)
class RecordedCompilation:
    """A program as it was planned, and what is known of its compilation."""

    program: Program
    detail: Liveness | None = None  # memory of its values in the tiles; None: it is not recorded
    fingerprint: str = ""  # hexadecimal; '' if unknown
    hlo: str | None = None  # text; None: it is not kept
    options: PlanOptions | None = None  # options of its plan; None: unknown
    origin: str = "user"  # 'user', 'jax' or 'group'
    group: str = ""  # group of programs that it is a member of


@final
class ProgramTables:
    """Adds programs to a recording: tables `programs`, `frames`, `lives`, `ticks` and `code`, texts `trees`, `hlo` and `options`.

    Lines that several programs have are one row of `frames`. The texts are complete after `finish`.

    Args:
        builder: of the recording.
        lines: whether lines of the user's source are recorded.
    """

    def __init__(self, builder: Builder, *, lines: bool = True) -> None:
        self._builder, self._lines = builder, lines
        self._frames: dict[Frame, int] = {}
        self._programs: list[Program] = []
        self._hlo: list[str | None] = []
        self._options: list[dict[str, Any] | None] = []
        self._frame(_UNKNOWN)

    def add(self, of: RecordedCompilation, *, key: int, runs: int = 0, loads: int = 0) -> int:
        """Adds a program, and returns its row in `programs`.

        Args:
            key: number of the program in its process.
            runs: how often it ran.
            loads: runs before which another program was loaded; members of a group bring their code without a load.
        """
        row = self._builder.append(
            "programs",
            key=key,
            name=of.program.name,
            fingerprint=of.fingerprint,
            num_ipus=of.program.num_ipus,
            origin=of.origin,
            group=of.group,
            detailed=int(of.detail is not None),
            runs=runs,
            loads=loads,
        )
        self._programs.append(of.program)
        self._hlo.append(of.hlo)
        self._options.append(None if of.options is None else asdict(of.options))
        rows = self._frame_rows(of.program)
        if of.detail is not None:
            self._add_lives(row, of.detail, rows)
            self._add_ticks(row, of.detail)
            self._add_code(row, of.detail)
        return row

    def finish(self) -> None:
        """Puts the texts."""
        trees = (dump_program(program if self._lines else without_lines(program)) for program in self._programs)
        self._builder.put_text("trees", f"[{','.join(trees)}]")
        if any(text is not None for text in self._hlo):
            self._builder.put_json("hlo", self._hlo)
        if any(options is not None for options in self._options):
            self._builder.put_json("options", self._options)

    def _frame_rows(self, program: Program) -> list[int]:
        """The row of each of the program's frames, by its number in the program; row 0 for all if lines are not recorded."""
        rows = [0]
        for frame in program.frames:
            rows.append(self._frame(replace(frame, parent=rows[frame.parent])) if self._lines else 0)
        return rows

    def _frame(self, frame: Frame) -> int:
        """The row of a frame whose parent is a row."""
        if frame not in self._frames:
            self._frames[frame] = self._builder.append(
                "frames", file=frame.file, function=frame.function, line=frame.line, column=frame.column, parent=frame.parent
            )
        return self._frames[frame]

    def _add_lives(self, row: int, detail: Liveness, frames: list[int]) -> None:
        lives = detail.lives
        self._builder.extend(
            "lives",
            program=np.full(len(lives), row),
            name=[self._builder.string(life.name) for life in lives],
            category=[_CATEGORY[life.category] for life in lives],
            size_bytes=[life.size_bytes for life in lives],
            first=[life.first for life in lives],
            last=[life.last for life in lives],
            tile_bytes=[life.tile_bytes for life in lives],
            tiles=[life.tiles for life in lives],
            start_tile=[life.start_tile for life in lives],
            frame=[frames[life.frame] for life in lives],
        )

    def _add_ticks(self, row: int, detail: Liveness) -> None:
        self._builder.extend(
            "ticks",
            program=np.full(len(detail.steps), row),
            step=[self._builder.string(step) for step in detail.steps],
            leaf=detail.leaves,
            temporary_tile_bytes=detail.temporary_tile_bytes,
        )

    def _add_code(self, row: int, detail: Liveness) -> None:
        for fixed, parts in enumerate((detail.code, detail.fixed)):
            for kind, size in parts:
                self._builder.append("code", program=row, kind=kind, tile_bytes=size, fixed=fixed)


def without_lines(program: Program) -> Program:
    """The program without lines of the user's source."""
    return replace(program, body=_bare(program.body), frames=())


def _bare(node: N) -> N:
    match node:
        case Series(nodes=nodes):
            return replace(node, nodes=tuple(map(_bare, nodes)))
        case Loop(body=body):
            return replace(node, body=_bare(body), frame=0)
        case Branch(arms=arms):
            return replace(node, arms=tuple(map(_bare, arms)), frame=0)
        case leaf:
            return replace(leaf, frame=0)
