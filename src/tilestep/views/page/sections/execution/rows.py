"""The events of a recording in the page's order, and those of them that a page keeps."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tilestep.figures.reader.runs.events import Events, Lane

Numbers = NDArray[np.int64]
_ORDER: Final = ("host", "to-ipus", "to-host", "ipu", "io", "link", "gateway", "memory")  # as a program's data flow


@dataclass(frozen=True, kw_only=True)
class EventRows:
    """Events by lane, in the order of `lanes`, then by time, as `Events.of_lane` gives them.

    Attributes:
        lanes: those that have events.
        begins: [len(lanes) + 1] first row of each lane, and the number of rows.
        original: row of table `events`.
        place: of each row of table `events`, the row here.
        lane, kind, start, end, run, program: as in table `events`, but `lane` is an index into `lanes`.
        cause: row here; -1: none.
    """

    lanes: tuple[Lane, ...]
    begins: Numbers
    original: Numbers
    place: Numbers
    lane: Numbers
    kind: Numbers
    start: Numbers
    end: Numbers
    run: Numbers
    program: Numbers
    cause: Numbers

    def __len__(self) -> int:
        return len(self.original)


def rows_of(events: Events) -> EventRows:
    """All events."""
    columns = {name: events.column(name).astype(np.int64) for name in ("lane", "kind", "start", "end", "run", "program", "cause")}
    counts = np.bincount(columns["lane"], minlength=len(events.lanes))
    lanes = tuple(sorted((lane for lane in events.lanes if counts[lane.index]), key=_place))
    rank = np.zeros(len(events.lanes), np.int64)
    rank[[lane.index for lane in lanes]] = np.arange(len(lanes))
    columns["lane"] = rank[columns["lane"]]
    original = np.lexsort((columns["start"], columns["lane"]))
    place = np.empty_like(original)
    place[original] = np.arange(len(original))
    ordered = {name: column[original] for name, column in columns.items()}
    ordered["cause"] = np.where(ordered["cause"] >= 0, place[ordered["cause"]], -1)
    begins = np.searchsorted(ordered["lane"], np.arange(len(lanes) + 1))
    return EventRows(lanes=lanes, begins=begins, original=original, place=place, **ordered)


def kept_rows(rows: EventRows, path: Numbers, most: int) -> NDArray[np.bool_]:
    """Which events a page keeps: all, or the earliest and the latest, and those of the critical path.

    Args: path: rows. most: at most so many are kept, and the latest of the path if it alone has more.
    """
    if len(rows) <= most:
        return np.ones(len(rows), np.bool_)
    kept = np.zeros(len(rows), np.bool_)
    kept[path[-most:]] = True
    others = np.flatnonzero(~kept)
    others = others[np.argsort(rows.start[others], kind="stable")]
    half = (most - int(kept.sum())) // 2
    kept[others[:half]] = True
    kept[others[len(others) - half :]] = True
    return kept


def _place(lane: Lane) -> tuple[int, int, int, int]:
    """Where a lane stands: the I/O tiles of an IPU below it."""
    kind = "ipu" if lane.kind == "io" else lane.kind
    return _ORDER.index(kind), lane.number, _ORDER.index(lane.kind), lane.target
