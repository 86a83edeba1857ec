"""The block `execution`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tilestep.figures.paths import relative_paths
from tilestep.figures.reader import Report
from tilestep.figures.reader.runs.causes import path_rows
from tilestep.figures.rows import relative_lines
from tilestep.recording.schema import EVENT_KINDS
from tilestep.views.page.block import PageBlock
from tilestep.views.page.sections.execution.rows import EventRows, Numbers, kept_rows, rows_of
from tilestep.views.page.sections.execution.run_spans import MOST_UNROLLED, Inside, inside
from tilestep.views.page.sections.execution.waits import waits
from tilestep.views.page.sections.host_lines import lines_of_runs

MOST_PAGE_EVENTS: Final = 2_000_000
ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "execution.cycle": "Cycles of emulated time since the recording began.",
        "execution.duration": "From the event's first cycle to the cycle behind its last.",
        "execution.path": (
            "Critical path: from the last event back, each time to the event whose end decided the start. "
            "Nothing else can shorten the whole."
        ),
        "execution.waits": (
            "Gaps between the events of a lane, by the event whose end decided when the next began; without gaps that lack events."
        ),
        "execution.unkept": "Gaps between the events of a lane in which runs took place whose events were not kept.",
        "execution.window": "Sum over the parts of the events that lie in the shown stretch of time.",
        "execution.sums": "All runs of the recording on the IPU with the most cycles, also runs whose events were not kept.",
        "execution.spans": (
            "The simulation adds up a run's work; its steps are laid into that sum in the program's order, each with its own cycles."
        ),
        "execution.runs": "Runs of the recording, counted at dispatch.",
    }
)


def execution(report: Report, *, most_events: int = MOST_PAGE_EVENTS) -> PageBlock | None:
    """The block `execution`; None if nothing ran.

    Its columns are in the page's order of events: by lane, then by time. `gap` is a start less the end before it in the lane, and `cycles`
    how long it took; the first gap of a lane is in the lane's `first`. `back` is a row less that of its cause: 0 for none, `cut` for one
    that is not on the page. `run` holds differences. `hole` says of the gap before an event whether it lacks events: 1 for those that were
    not recorded, 2 for those that are not on the page.

    Args: most_events: of more, the earliest and latest are kept, with the critical path.
    Raises: RecordingError if the recording is damaged.
    """
    if "execution" not in report.parts:
        return None
    tables, events = report.tables, report.execution.events
    rows = rows_of(events)
    path = rows.place[path_rows(events)] if len(rows) else np.zeros(0, np.int64)
    timed = path[_takes_time(rows, path)]
    of_runs = inside(report, rows)
    kept = kept_rows(rows, timed, most_events)
    all_waits = waits(rows, report.execution.unrecorded)
    strings, texts = _texts(report)
    runs = {
        name: tables.column("runs", name).astype(np.int64) for name in ("program", "host_cycle", "stage", "task", "microbatch", "group")
    }
    for name in ("task", "group"):
        runs[name] = texts[runs[name]]
    lines, of_dispatches = _dispatch_lines(report)
    new = np.cumsum(kept) - 1
    shown_path = new[timed[kept[timed]]]
    first = int(rows.start[timed[0]]) if len(timed) else 0
    in_detail = np.unique(rows.run[(rows.run >= 0) & _on_ipus(rows)])
    columns, firsts, counts = _columns(rows, kept, new, of_runs)
    machine = report.compilation.target.machine
    left = machine.num_ipus - machine.num_simulated
    columns["hole"] = _holes(rows, kept, all_waits.unkept)
    return PageBlock(
        json={
            "kinds": list(EVENT_KINDS),
            "lanes": [
                {
                    "name": lane.name,
                    "kind": lane.kind,
                    "number": lane.number,
                    "events": count,
                    "first": at,
                    "unkept": unkept,
                    "span": span,
                }
                for lane, count, at, unkept, span in zip(rows.lanes, counts, firsts, all_waits.unkept_cycles, all_waits.spans, strict=True)
            ],
            "idle_lanes": len(events.lanes) - len(rows.lanes) - left,
            "not_simulated": left,
            "events": len(rows),
            "left_out": int(len(rows) - kept.sum()),
            "cut": int(kept.sum()),
            "runs_in_detail": len(in_detail),
            "path": {
                "complete": bool(len(timed)) and first == int(rows.start.min()),
                "pieces": len(timed),
                "cycles": int(rows.end[timed[-1]]) - first if len(timed) else 0,
                "begin": int(rows.end[timed[-len(shown_path) - 1]]) if len(shown_path) < len(timed) else first,
            },
            "waits_left_out": all_waits.left_out,
            "layouts": {"program": list(of_runs.programs), "unrolled": list(of_runs.unrolled), "left_out": of_runs.left_out},
            "most_unrolled": MOST_UNROLLED,
            "leaves": _leaves(report, of_runs),
            "strings": strings,
            "lines": lines,
        },
        columns={
            **columns,
            **{f"runs_{name}": column for name, column in runs.items()},
            "runs_line": of_dispatches,
            "path": shown_path,
            **of_runs.columns,
            **all_waits.columns,
        },
    )


def _holes(rows: EventRows, kept: NDArray[np.bool_], unkept: NDArray[np.bool_]) -> Numbers:
    """What the gap before each kept event is: 0, a wait or no time; 1: runs without events took place; 2: the page leaves events out."""
    places = np.flatnonzero(kept)
    follows = np.diff(rows.lane[places], prepend=-1) == 0
    gone = np.diff(places, prepend=-1) > 1
    return np.where(follows, np.where(gone, 2, unkept[places]), 0).astype(np.int64)


def _takes_time(rows: EventRows, path: Numbers) -> Numbers:
    """Indices of the pieces of the path that take time; the last if none does."""
    ends = rows.end[path]
    begins = np.r_[rows.start[path[:1]], ends[:-1]]
    timed = np.flatnonzero(ends != begins)
    return timed if len(timed) or not len(path) else np.array([len(path) - 1])


def _on_ipus(rows: EventRows) -> NDArray[np.bool_]:
    return np.array([lane.kind == "ipu" for lane in rows.lanes], np.bool_)[rows.lane]


def _columns(rows: EventRows, kept: NDArray[np.bool_], new: Numbers, of_runs: Inside) -> tuple[dict[str, Numbers], list[int], list[int]]:
    """(columns of the kept events, start of the first of each lane, how many each lane has)."""
    lane, start, end = rows.lane[kept], rows.start[kept], rows.end[kept]
    gap = start - np.r_[np.zeros(1, np.int64), end[:-1]][: len(start)]
    opens = np.diff(lane, prepend=-1) != 0
    gap[opens] = 0
    cause = rows.cause[kept]
    place = np.arange(len(lane))
    back = np.where(cause >= 0, np.where(kept[cause], place - new[cause], len(lane)), 0)
    firsts = np.zeros(len(rows.lanes), np.int64)
    firsts[lane[opens]] = start[opens]
    columns = {
        "kind": rows.kind[kept],
        "gap": gap,
        "cycles": end - start,
        "run": np.diff(rows.run[kept], prepend=0),
        "program": rows.program[kept],
        "back": back,
        "layout": of_runs.layout[kept],
    }
    return columns, firsts.tolist(), np.bincount(lane, minlength=len(rows.lanes)).tolist()


def _texts(report: Report) -> tuple[list[str], Numbers]:
    """(texts of the runs, where in them each of the recording's is; -1: none)."""
    used = np.unique(np.concatenate([report.tables.column("runs", name) for name in ("task", "group")]))
    used = used[used >= 0]
    known = report.tables.strings
    places = np.full(len(known) + 1, -1, np.int64)  # -1 finds the last
    places[used] = np.arange(len(used))
    return [str(known[index]) for index in used.tolist()], places


def _leaves(report: Report, of_runs: Inside) -> list[list[str | int]]:
    """[row of the program, leaf, name, scope, family, line] of each."""
    relative = relative_lines(report)
    return [
        [program, leaf.leaf, leaf.name, leaf.scope, leaf.family, "" if leaf.line is None else str(relative(leaf.line))]
        for program, leaf in of_runs.leaves
    ]


def _dispatch_lines(report: Report) -> tuple[list[str], Numbers]:
    """(lines of the host program, of each run the one that dispatched it; -1: unknown)."""
    lines, of_runs = lines_of_runs(report.tables)
    strings = report.tables.strings
    files: list[int] = np.unique(report.tables.column("frames", "file")).tolist()
    relative = relative_paths([*(strings[file] for file in files if file >= 0), *(path for path, _ in lines)])
    return [f"{relative(path)}:{number}" for path, number in lines], of_runs
