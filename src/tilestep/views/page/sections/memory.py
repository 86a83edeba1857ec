"""What views Memory and Liveness read: the lives of all values, and the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tilestep.advice.phrases import group_text
from tilestep.errors import RecordingError
from tilestep.figures.reader import CompiledProgram, Report
from tilestep.figures.reader.programs.memory import MemoryReport
from tilestep.figures.rows import relative_lines
from tilestep.plan.memory.streaming import streaming_parts
from tilestep.plan.steps import Branch, Loop, Node, Series
from tilestep.recording.memory import LIFE_COLUMNS
from tilestep.recording.tables import Tables
from tilestep.views.page.block import PageBlock
from tilestep.views.page.sections.string_table import Texts
from tilestep.views.page.untrusted import number_in, records_in, text_in, texts_in

MOST_LIVES: Final = 200_000  # values of all programs together
MOST_TICKS: Final = 200_000  # steps of all programs together
_MOST_PARTS: Final = 50  # in the host's memory
Columns = dict[str, NDArray[np.int64]]
ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "memory.peak": "Bytes of the fullest tile at the step at which it is fullest, as the program was planned.",
        "memory.group": "All programs of the group on an IPU: the code of all, each codelet once, and the most that one needs with what "
        "others keep beside it.",
        "memory.category": "Bytes of one tile at one step: code and fixed parts, and the values that lie there, from their lives.",
        "memory.step": "Bytes of all tiles of one IPU together, or of one tile, at one step, from the lives of values.",
        "memory.value": "From the plan: a value takes the same bytes on the same tiles from its birth to its last use.",
        "memory.without": "The fullest tile worked out again without this value; what the program would do instead is not planned.",
        "memory.sram": "SRAM of a tile of the emulated machine.",
        "memory.host": "Bytes of one IPU that the program keeps in pinned_host, which need no tile.",
    }
)


def memory(report: Report) -> PageBlock | None:
    """The block `memory`; None without programs.

    Its JSON: names (of values and steps), lines ('train.py:41'; row 0 is ''), and programs, the
    fullest first: row, label, num_ipus, sram_bytes, peak_bytes (None: its tree was not kept), peak_step, kinds
    ([kind, bytes] on the fullest tile), group ({label, ipu, bytes} of the program group whose fullest IPU it is on; None), host ([name,
    bytes] in pinned_host), and why ('' if it is in detail). Programs in detail have
    num_tiles, code ([kind, bytes, 1 if it is fixed]), peak (bytes, tile, tick), loops ([name, first tick, last tick, trips or None,
    depth, 'loop' or 'branch']), and lives and ticks: [first, number] of their rows.

    Its columns: life_* as table `lives` has them, life_name and life_line being indices, and tick_step, tick_leaf and tick_temporary.
    """
    if "compilation" not in report.parts:
        return None
    found = report.compilation
    tile = found.target.machine.ipu.tile
    tables = report.tables
    strings, known_lines, relative = (*tables.strings, ""), found.lines, relative_lines(report)  # string -1 is none

    def words(frame: int) -> str:
        line = known_lines[max(frame, 0)]
        return "" if line is None else str(relative(line))

    texts, lines = _Renumbered(strings.__getitem__), _Renumbered(words)
    lines.number("")
    groups = records_in(_profile(report), "groups")
    lives: list[Columns] = []
    ticks: list[Columns] = []
    counts = [0, 0]
    programs: list[dict[str, Any]] = []
    for program in sorted(found.programs, key=_fullest_first):
        row = {**_row(program), "group": _group(program, groups), "sram_bytes": tile.sram_bytes}
        detail, row["why"] = _detail(program, counts)
        if detail is not None:
            life, tick = _lives(program, detail, tables, texts, lines), _ticks(program, tables, texts)
            row |= _described(program, detail, tick, tables)
            row |= {"lives": [counts[0], len(life["category"])], "ticks": [counts[1], len(tick["step"])]}
            counts = [counts[0] + len(life["category"]), counts[1] + len(tick["step"])]
            lives.append(life)
            ticks.append(tick)
        programs.append(row)
    return PageBlock(
        json={
            "names": texts.all,
            "lines": lines.all,
            "programs": programs,
        },
        columns={
            **{f"life_{name}": _joined(lives, name) for name in (*LIFE_COLUMNS, "size_bytes", "name", "line")},
            **{f"tick_{name}": _joined(ticks, name) for name in ("step", "leaf", "temporary")},
        },
    )


def _fullest_first(program: CompiledProgram) -> tuple[int, int]:
    return (-program.planned.memory.peak_bytes if program.has_tree else 1, program.row)


def _row(program: CompiledProgram) -> dict[str, Any]:
    """What is known of any program."""
    planned = program.planned if program.has_tree else None
    host = sorted(streaming_parts(planned), key=lambda part: (-part[1], part[0])) if planned else []
    return {
        "row": program.row,
        "label": program.label,
        "num_ipus": program.num_ipus,
        "peak_bytes": planned.memory.peak_bytes if planned else None,
        "peak_step": planned.memory.peak_step if planned else "",
        "kinds": [list(part) for part in planned.memory.by_kind] if planned else [],
        "host": [list(part) for part in host[:_MOST_PARTS]],
        "host_left_out": max(0, len(host) - _MOST_PARTS),
    }


def _profile(report: Report) -> Mapping[str, Any]:
    """The profile; empty if it is damaged, because memory can be shown without it."""
    try:
        return report.profile
    except RecordingError:
        return {}


def _group(program: CompiledProgram, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The figures of the program group that a program is in, if it is on the group's fullest IPU. Args: groups: of the profile."""
    for group in groups:
        ipu, size = number_in(group, "ipu"), number_in(group, "peak_tile_bytes")
        members = texts_in(group, "programs")
        if program.group and program.group == text_in(group, "name") and program.name in members and None not in (ipu, size):
            return {"label": group_text(program.group), "ipu": ipu, "bytes": size}
    return None


def _detail(program: CompiledProgram, counts: list[int]) -> tuple[MemoryReport | None, str]:
    """The memory of a program in detail; or None, and why not.

    Args: counts: lives and ticks of the programs before.
    """
    if not program.detailed:
        return None, "The recording has only its peak: its memory was not recorded in detail."
    if not program.has_tree:
        return None, "The recording has no tree of this program, so its steps are not known."
    detail = program.memory
    if counts[0] + len(detail.columns.first) > MOST_LIVES or counts[1] + detail.columns.num_ticks > MOST_TICKS:
        return None, (
            f"This page has only its peak: it holds at most {MOST_LIVES:,} values and {MOST_TICKS:,} steps, those of the fullest programs. "
            "The recording has the others."
        )
    try:
        _ = detail.peak
    except RecordingError as error:  # too many cells
        return None, f"This page has only its peak: {error}"
    return detail, ""


def _described(program: CompiledProgram, detail: MemoryReport, ticks: Columns, tables: Tables) -> dict[str, Any]:
    peak = detail.peak
    code = _rows_of(tables, "code", program, ("kind", "fixed"))
    kinds: list[int] = code["kind"][code["fixed"] != 0].tolist()
    fixed = {tables.strings[kind] if kind >= 0 else "" for kind in kinds}
    return {
        "num_tiles": detail.columns.num_tiles,
        "peak_bytes": peak.total_bytes,
        "code": [[kind, size, int(kind in fixed)] for kind, size in detail.code.items()],
        "peak": {"bytes": peak.total_bytes, "tile": peak.tile, "tick": peak.tick},
        "loops": loops(program.planned.body, ticks["leaf"].tolist()),
    }


def loops(body: Node, leaves: list[int]) -> list[list[Any]]:
    """[name, first tick, last tick, trips or None, depth, 'loop' or 'branch'] of each loop and branch, which have a tick before and behind.

    Args:
        body: of the program.
        leaves: of each tick the leaf, -1 for none. If they are not those of the body, nothing is known, and nothing is given.
    """
    spans: list[list[Any]] = []
    expected = [-1]
    number = 0

    def visit(node: Node, depth: int) -> None:
        nonlocal number
        inner: tuple[Node, ...]
        match node:
            case Series(nodes=nodes):
                for child in nodes:
                    visit(child, depth)
                return
            case Loop(body=child):
                inner = (child,)
            case Branch(arms=arms):
                inner = arms
            case _:
                expected.append(number)
                number += 1
                return
        first = len(expected)
        place = len(spans)
        expected.append(-1)
        for child in inner:
            visit(child, depth + 1)
        if inner:
            expected.append(-1)
        kind, trips = ("loop", node.trips) if isinstance(node, Loop) else ("branch", None)
        spans.insert(place, [node.name, first, len(expected) - 1, trips, depth, kind])

    visit(body, 0)
    expected.append(-1)
    return spans if expected == leaves else []


def _lives(program: CompiledProgram, detail: MemoryReport, tables: Tables, texts: _Renumbered, lines: _Renumbered) -> Columns:
    rows = _rows_of(tables, "lives", program, ("name", "size_bytes", "frame"))
    cells = {name: getattr(detail.columns, name) for name in LIFE_COLUMNS}
    return {**cells, "size_bytes": rows["size_bytes"], "name": texts.numbers(rows["name"]), "line": lines.numbers(rows["frame"])}


def _ticks(program: CompiledProgram, tables: Tables, texts: _Renumbered) -> Columns:
    rows = _rows_of(tables, "ticks", program, ("step", "leaf", "temporary_tile_bytes"))
    return {"step": texts.numbers(rows["step"]), "leaf": rows["leaf"], "temporary": rows["temporary_tile_bytes"]}


def _rows_of(tables: Tables, table: str, program: CompiledProgram, names: Iterable[str]) -> Columns:
    rows = program.grouped.rows(table, "program", program.row)
    return {name: tables.column(table, name)[rows].astype(np.int64) for name in names}


def _joined(parts: list[Columns], name: str) -> NDArray[np.int64]:
    return np.concatenate([part[name] for part in parts]) if parts else np.zeros(0, np.int64)


class _Renumbered(Texts):
    """Numbers of the recording's texts in the page. Args: words: the text of a number of the recording."""

    def __init__(self, words: Callable[[int], str]) -> None:
        super().__init__()
        self._words = words

    def numbers(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the texts that a column of the recording numbers."""
        kinds, inverse = np.unique(column, return_inverse=True)
        here = np.array([self.number(self._words(int(kind))) for kind in kinds.tolist()], np.int64)
        return here[inverse] if len(here) else np.zeros(0, np.int64)
