"""What view Source reads: the user's files, and what each line of them costs."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np

from tilestep.errors import RecordingError
from tilestep.figures.reader import OnTileExecute, Report
from tilestep.figures.reader.programs.totals import leaf_totals
from tilestep.figures.rows import files_of, relative_files
from tilestep.recording.schema import CALLS
from tilestep.recording.tables import Tables, json_text
from tilestep.sim.trace import EventKind
from tilestep.views.page.block import PageBlock, columns_of
from tilestep.views.page.sections.host_lines import lines_of_calls, lines_of_runs

MOST_TEXT: Final = 2_000_000  # characters of source code in a page
COLUMNS: Final = (
    "file",  # text
    "line",
    "function",  # text
    "steps",
    "executions",
    "cycles",
    "compute",
    "exchange",
    "sync",
    "collective",
    "host_call",
    "flops",
    "exchange_bytes",
    "tile_bytes",
    "dispatches",
    "waits",
    "reads",
    "moved",
)
_STEPS, _EXECUTIONS, _CYCLES = (COLUMNS.index(name) for name in ("steps", "executions", "cycles"))
_FLOPS, _EXCHANGE_BYTES, _TILE_BYTES, _CALLS = (COLUMNS.index(name) for name in ("flops", "exchange_bytes", "tile_bytes", "dispatches"))
_CALL_KINDS: Final = tuple(map(CALLS.index, ("dispatch", "wait", "read")))
_MOVED: Final = COLUMNS.index("moved")
_MOVES: Final[tuple[EventKind, ...]] = ("save", "load", "stream-in", "stream-out")  # by the run of a program, beside its steps
ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "source.cycles": "Cycles of the steps that the line became, in all runs of all programs, on the first of the IPUs of each.",
        "source.share": "Part of the cycles of all steps of all programs, on the slowest IPU of each. Loads and transfers are no steps.",
        "source.whole": "Part of the emulated cycles of the whole recording, in which all steps of all programs were, one after another.",
        "source.executions": "Executions of the steps that the line became, in all runs.",
        "source.flops": "Floating-point operations of those steps, of all tiles of one IPU, as the cost model counts them.",
        "source.exchange_bytes": "Bytes that the busiest tile receives in those steps.",
        "source.tile_bytes": "The largest value that the line made: bytes on each tile that holds it, of programs in detail.",
        "source.calls": "Calls of the host program, from the journal, which may end before the run does.",
        "source.moved": (
            "Loads of the programs that only this line calls, and transfers of their arguments and results: in all runs, on the IPU on "
            "which a program takes most. They are no steps."
        ),
    }
)


def source(report: Report) -> PageBlock | None:
    """The block `source`; None if the recording has no programs.

    Its JSON: texts, cycles (of all steps), in_turn (whether no two programs can run at once), unknown_cycles (of those without a line),
    files (file, code: text or null, why: there is none) by cost, has_lives.
    Its columns, a row for each line that has something: `COLUMNS`.

    Raises: RecordingError if a tree or a text is damaged.
    """
    if "compilation" not in report.parts:
        return None
    relative = relative_files(report)
    rows: dict[tuple[str, int], list[int]] = {}
    functions: dict[tuple[str, int], str] = {}

    def row(file: str, line: int, function: str = "") -> list[int]:
        key = (file, line)
        functions[key] = functions.get(key) or function
        return rows.setdefault(key, [0] * len(COLUMNS))

    total = unknown = 0
    ran: set[int] = set()
    for program in report.compilation.programs:
        if not program.has_tree or not program.runs:
            continue
        ran.add(program.num_ipus)
        for found in leaf_totals(program):
            cycles = found.cycles.total
            total += cycles
            if found.leaf.line is None:
                unknown += cycles
                continue
            of_line = row(relative(found.leaf.line.file), found.leaf.line.line, found.leaf.line.function)
            of_line[_STEPS] += 1
            of_line[_EXECUTIONS] += found.executions
            for place, value in enumerate((cycles, *found.cycles), _CYCLES):
                of_line[place] += value
            if isinstance(found.leaf, OnTileExecute):
                of_line[_FLOPS] += found.executions * found.leaf.superstep.flops
                of_line[_EXCHANGE_BYTES] += found.executions * found.leaf.superstep.exchange_bytes
    for frame, size in _largest_values(report.tables):
        line = report.compilation.lines[frame] if frame < len(report.compilation.lines) else None
        if line is not None:
            of_line = row(relative(line.file), line.line, line.function)
            of_line[_TILE_BYTES] = max(of_line[_TILE_BYTES], size)
    for file, line, counts in _calls(report.tables):
        of_line = row(relative(file), line)
        for place, count in enumerate(counts, _CALLS):
            of_line[place] += count
    for program, (file, line) in _callers(report.tables):
        by_kind = report.compilation.programs[program].total.by_kind
        row(relative(file), line)[_MOVED] += sum(by_kind.get(kind, 0) for kind in _MOVES)
    texts: dict[str, int] = {}
    table = [
        [texts.setdefault(file, len(texts)), line, texts.setdefault(functions[file, line], len(texts)), *values[3:]]
        for (file, line), values in sorted(rows.items())
    ]
    by_file: dict[str, int] = {}
    for (file, _), values in rows.items():
        by_file[file] = by_file.get(file, 0) + values[_CYCLES]
    code = _code(report, relative_to={relative(path): path for path in files_of(report)})
    return PageBlock(
        json={
            "texts": list(texts),
            "cycles": total,
            "in_turn": "execution" in report.parts and ran == {report.execution.num_ipus_used},
            "unknown_cycles": unknown,
            "files": list(_files(sorted(by_file, key=lambda file: (-by_file[file], file)), code)),
            "has_lives": report.tables.has("lives"),
        },
        columns=columns_of(COLUMNS, table, rounded=("flops", "exchange_bytes")),
    )


def _files(files: list[str], code: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Each file with its code while there is room, those of most cycles first."""
    room = MOST_TEXT
    for file in files:
        text = code.get(file)
        if text is None:
            why = "The recording has the code of other files only." if code else "The recording was made without the code of the program."
        elif len(text) > room:
            text, why = None, f"The page holds {MOST_TEXT:,} characters of code, and those of files that took longer fill it."
        else:
            room -= len(text)
            why = ""
        yield {"file": file, "code": text, "why": why}


def _code(report: Report, relative_to: Mapping[str, str]) -> dict[str, str]:
    """The code of the files that frames name, by their relative paths. Raises: RecordingError if the text is damaged."""
    sources: Any = json_text(report.tables, "sources")
    if sources is None:
        return {}
    if not isinstance(sources, dict):
        raise RecordingError("text 'sources' of the recording is no object: it must have the text of each file")
    known = cast("dict[str, Any]", sources)
    return {file: known[path] for file, path in relative_to.items() if isinstance(known.get(path), str)}


def _largest_values(tables: Tables) -> Iterator[tuple[int, int]]:
    """(row of `frames`, bytes on a tile of the largest value that it made)."""
    if not tables.has("lives"):
        return
    frames, sizes = tables.column("lives", "frame").astype(np.int64), tables.column("lives", "tile_bytes").astype(np.int64)
    frames = np.maximum(frames, 0)
    largest = np.zeros(int(frames.max(initial=0)) + 1, np.int64)
    np.maximum.at(largest, frames, sizes)
    for frame in np.flatnonzero(largest).tolist():
        yield frame, int(largest[frame])


def _calls(tables: Tables) -> Iterator[tuple[str, int, list[int]]]:
    """(file, line, how often it dispatched, waited and read) of each line of the host program that did."""
    lines, places = lines_of_calls(tables)
    kinds = tables.column("calls", "call")
    counts = [np.bincount(places[(kinds == kind) & (places >= 0)], minlength=len(lines)).tolist() for kind in _CALL_KINDS]
    for (file, number), *of_line in zip(lines, *counts, strict=True):
        if any(of_line):
            yield file, number, of_line


def _callers(tables: Tables) -> Iterator[tuple[int, tuple[str, int]]]:
    """(row of a program, the line of the host program that called it) of each that one line alone called."""
    lines, places = lines_of_runs(tables)
    programs, callers = np.unique(np.stack([tables.column("runs", "program").astype(np.int64), places]), axis=1)
    called, first, count = np.unique(programs, return_index=True, return_counts=True)
    alone = (called >= 0) & (count == 1)
    for program, caller in zip(called[alone].tolist(), callers[first[alone]].tolist(), strict=True):
        if caller >= 0:
            yield program, lines[caller]
