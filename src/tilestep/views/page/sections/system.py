"""What view System reads: all in wall time, and nothing of the emulated machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.figures.reader.sums import require_sums
from tilestep.recording.merge import MERGED
from tilestep.views.page.block import Block

Numbers = NDArray[np.int64]
MOST_SPANS: Final = 300_000  # of a page's timeline
MOST_PATHS: Final = 10_000  # of a page's call tree
MOST_LEVELS: Final = 1_000  # of a page's call tree
MOST_POINTS: Final = 20_000  # of a line
MOST_CELLS: Final = 100_000  # of a page's heat map
CLASSES: Final = ("compiles", "runs", "waits", "other", "nothing")
_COMPILES: Final = re.compile(r"compile|lower_|lowering|trace_to_jaxpr|mlir", re.I)
_WAITS: Final = re.compile(r"wait|block_until_ready|sleep|np\.asarray\(jax\.Array\)|BlockHost", re.I)
_RUNS: Final = re.compile(r"^PjitFunction|Execute|^ParallelFunction|ThunkExecutor")
_NONE: Final[Numbers] = np.zeros(0, np.int64)
_READ: Final = 2_000  # characters of a label that are searched
ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "system.span": "Wall clock of this host, from the trace's begin: what JAX's profiler and tracepoints have recorded.",
        "system.total": "Wall time from begin to end of all calls on this path, one after the other.",
        "system.self": "The total less that of the spans directly within.",
        "system.calls": "Spans of the trace.",
        "system.share": (
            "Wall time of the main thread by the innermost span whose label says that it compiles, runs or waits; of the time from "
            "the first span of the trace to the end of its last."
        ),
        "system.series": "Values that the program gave to tilestep.series, at the wall time at which it did.",
        "system.heat": "How many values fell between two edges at once; the program gave them to tilestep.heat_map.",
    }
)


def system(report: Report) -> Block | None:
    """The block `system`; None if nothing was traced in wall time.

    Times are nanoseconds since the trace's begin. Spans are by thread, depth and begin; `next` of `json["rows"]` says which.

    Raises: RecordingError if the recording is damaged.
    """
    if "system" not in report.parts:
        return None
    tables, read = report.tables, report.system
    found = {
        name: tables.column("spans", name).astype(np.int64) for name in ("thread", "channel", "label", "start_ns", "duration_ns", "parent")
    }
    if len(found["parent"]) and (found["parent"] >= np.arange(len(found["parent"]))).any():
        raise RecordingError("column 'spans/parent' has a span before the one around it")
    require_sums(found["duration_ns"], "spans of wall time")
    strings = (*tables.strings, "")
    labels, label_of = np.unique(found["label"], return_inverse=True)
    numbers: list[int] = labels.tolist()
    texts = [str(strings[index]) for index in numbers]
    depth = _depths(found["parent"])
    own = np.maximum(0, found["duration_ns"] - _within(found))
    begin = int(found["start_ns"].min()) if len(depth) else 0
    end = int((found["start_ns"] + found["duration_ns"]).max()) if len(depth) else 0
    threads = [
        {"name": thread.name, "tid": thread.tid, "process": number}
        for number, process in enumerate(read.processes)
        for thread in process.threads
    ]
    places = _thread_places(report)
    main = _main_thread(report, places, found["thread"])
    kept = np.sort(np.argsort(-found["duration_ns"], kind="stable")[:MOST_SPANS])
    thread = places[found["thread"]]
    kept = kept[np.lexsort((found["start_ns"][kept], depth[kept], thread[kept]))]
    tree, of_tree, left_out = _tree(found, label_of, thread, own, depth)
    lines, heat = _lines(report), _heat(report)
    return Block(
        json={
            "merged": _merged(report),
            "processes": [{"pid": process.pid, "name": process.name} for process in read.processes],
            "threads": threads,
            "channels": list(read.channels),
            "labels": texts,
            "begin": begin,
            "end": end,
            "spans": len(depth),
            "left_out": len(depth) - len(kept),
            "paths_left_out": left_out,
            "main": main,
            "shares": _shares(found, [_class(text) for text in texts], label_of, thread, own, main, end - begin),
            "series": lines[0],
            "heat_maps": heat[0],
            "summary": _summary(found, label_of, own),
        },
        columns={
            "thread": thread[kept],
            "depth": depth[kept],
            "channel": found["channel"][kept],
            "label": label_of[kept],
            "start": found["start_ns"][kept],
            "duration": found["duration_ns"][kept],
            **{f"tree_{name}": np.array(column, np.int64) for name, column in zip(tree, of_tree, strict=True)},
            **lines[1],
            **heat[1],
        },
    )


def _merged(report: Report) -> dict[str, int] | None:
    """Of several processes with emulated time: the pid of that whose time the recording has, and how many others have some."""
    note: object = report.tables.manifest.get(MERGED)
    found = cast("dict[str, object]", note) if isinstance(note, dict) else {}
    pid, emulated = found.get("pid"), found.get("emulated")
    return {"pid": pid, "others": emulated - 1} if type(pid) is int and type(emulated) is int and emulated > 1 else None


def _depths(parents: Numbers) -> Numbers:
    """How many spans are around each: all jump to the span around them, then to that around as many as they have passed."""
    depths, above = (parents >= 0).astype(np.int64), parents
    while (has := above >= 0).any():
        depths = depths + np.where(has, depths[above], 0)
        above = np.where(has, above[above], -1)
    return depths


def _within(found: Mapping[str, Numbers]) -> Numbers:
    """Of each span the time of those directly within it."""
    within = np.zeros(len(found["parent"]), np.int64)
    inner = found["parent"] >= 0
    np.add.at(within, found["parent"][inner], found["duration_ns"][inner])
    return within


def _thread_places(report: Report) -> Numbers:
    """Of each row of table `threads` its place among the threads of all processes."""
    owners = report.tables.column("threads", "process")
    order = np.argsort(owners, kind="stable")
    order = order[owners[order] >= 0]
    places = np.full(report.tables.rows("threads") + 1, -1, np.int64)
    places[order] = np.arange(len(order))
    return places


def _main_thread(report: Report, places: Numbers, of_spans: Numbers) -> int:
    """The place of the main thread: that of the first process that has one, or the one with the most spans; -1: there is none."""
    threads = [(process.pid, thread) for process in report.system.processes for thread in process.threads]
    for place, (pid, thread) in enumerate(threads):
        if thread.name == "MainThread" or thread.tid == pid:  # profilers name it after the command
            return place
    return int(np.bincount(places[of_spans]).argmax()) if len(of_spans) and threads else -1


def _class(label: str) -> str:
    """What a label says that a thread does; '' if it does not say."""
    label = label[:_READ]
    for name, pattern in (("waits", _WAITS), ("compiles", _COMPILES), ("runs", _RUNS)):
        if pattern.search(label):
            return name
    return ""


def _shares(
    found: Mapping[str, Numbers], of_labels: list[str], label_of: Numbers, thread: Numbers, own: Numbers, main: int, whole: int
) -> dict[str, int]:
    """Nanoseconds of the main thread by what it does: CLASSES."""
    said = np.array([CLASSES.index(name) if name else -1 for name in of_labels], np.int64)[label_of]
    telling = np.where((said >= 0) | (found["parent"] < 0), np.arange(len(said)), found["parent"])
    while (further := telling[telling]).tobytes() != telling.tobytes():
        telling = further
    classes = np.where(said[telling] >= 0, said[telling], CLASSES.index("other"))
    sums: dict[str, int] = dict.fromkeys(CLASSES, 0)
    for number, name in enumerate(CLASSES):
        sums[name] = int(own[(thread == main) & (classes == number)].sum())
    sums["nothing"] = max(0, whole - sum(sums.values()))
    return sums


def _tree(
    found: Mapping[str, Numbers], label_of: Numbers, thread: Numbers, own: Numbers, depth: Numbers
) -> tuple[tuple[str, ...], list[list[int]], int]:
    """(names, columns, paths left out) of the paths of labels: thread, parent (row; -1), label, channel, calls, total and own time.

    Spans of one depth are numbered together, those beyond MOST_LEVELS not at all.
    """
    path = np.full(len(depth), -1, np.int64)
    columns: list[list[Numbers]] = [[] for _ in range(7)]
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(MOST_LEVELS + 1))
    count = 0
    for begin, end in zip(levels[:-1].tolist(), levels[1:].tolist(), strict=True):
        if begin == end:
            break
        spans = order[begin:end]
        parents = found["parent"][spans]
        above = np.where(parents >= 0, path[parents], -1)
        by_path = np.lexsort((label_of[spans], above, thread[spans]))
        spans, above = spans[by_path], above[by_path]
        keys = (thread[spans], above, label_of[spans])
        new = np.flatnonzero(np.any([np.diff(key, prepend=-9) != 0 for key in keys], axis=0))
        calls = np.diff(new, append=len(spans))
        path[spans] = count + np.repeat(np.arange(len(new)), calls)
        count += len(new)
        sums = [np.add.reduceat(column[spans], new) for column in (found["duration_ns"], own)]
        rows = [thread[spans[new]], above[new], label_of[spans[new]], found["channel"][spans[new]], calls, *sums]
        for column, part in zip(columns, rows, strict=True):
            column.append(part)
    whole: list[list[int]] = [np.concatenate([_NONE, *column]).tolist() for column in columns]
    kept = _largest(whole[1], whole[5])
    place = {number: index for index, number in enumerate(kept)}
    shown = [[column[number] for number in kept] for column in whole]
    shown[1] = [place[number] if number >= 0 else -1 for number in shown[1]]
    return ("thread", "parent", "label", "channel", "calls", "total", "self"), shown, count - len(kept)


def _largest(parents: list[int], totals: list[int]) -> list[int]:
    """The paths of the largest totals, each with those above it, in order."""
    if len(parents) <= MOST_PATHS:
        return list(range(len(parents)))
    kept: set[int] = set()
    for number in sorted(range(len(parents)), key=lambda each: -totals[each]):
        above = [number]
        while parents[above[-1]] >= 0 and parents[above[-1]] not in kept:
            above.append(parents[above[-1]])
        if len(kept) + len(above) > MOST_PATHS:
            break
        kept.update(above)
    return sorted(kept)


def _summary(found: Mapping[str, Numbers], label_of: Numbers, own: Numbers) -> list[list[int]]:
    """[channel, label, calls, total, self, longest] of each channel and label."""
    order = np.lexsort((label_of, found["channel"]))
    keys = found["channel"][order], label_of[order]
    first = np.flatnonzero((np.diff(keys[0], prepend=-9) != 0) | (np.diff(keys[1], prepend=-9) != 0))
    if not len(first):
        return []
    durations = found["duration_ns"][order]
    figures = (
        keys[0][first],
        keys[1][first],
        np.diff(first, append=len(order)),
        np.add.reduceat(durations, first),
        np.add.reduceat(own[order], first),
        np.maximum.reduceat(durations, first),
    )
    rows = np.stack(figures, axis=1)
    return rows[np.argsort(-rows[:, 3], kind="stable")][:MOST_PATHS].tolist()


def _lines(report: Report) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    documents: list[dict[str, Any]] = []
    times: list[NDArray[Any]] = [np.zeros(0, np.int64)]
    values: list[NDArray[Any]] = [np.zeros(0, np.float64)]
    for line in report.system.series:
        finite = np.flatnonzero(np.isfinite(line.values))
        chosen = finite[:: max(1, -(-len(finite) // MOST_POINTS))]
        documents.append({"name": line.name, "graph": line.graph, "unit": line.unit, "points": len(chosen), "all": len(line.values)})
        times.append(line.times_ns[chosen])
        values.append(line.values[chosen].astype(np.float64))
    return documents, {"series_time": np.concatenate(times), "series_value": np.concatenate(values)}


def _heat(report: Report) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    documents: list[dict[str, Any]] = []
    times: list[NDArray[Any]] = [np.zeros(0, np.int64)]
    counts: list[NDArray[Any]] = [np.zeros(0, np.int64)]
    for each in report.system.heat_maps:
        rows = min(len(each.times_ns), MOST_CELLS // (len(each.edges) + 1))
        edges = [edge if np.isfinite(edge) else None for edge in each.edges]
        documents.append({"name": each.name, "unit": each.unit, "edges": edges, "times": rows, "all": len(each.times_ns)})
        times.append(each.times_ns[len(each.times_ns) - rows :])
        counts.append(each.counts[len(each.times_ns) - rows :].ravel())
    return documents, {"heat_time": np.concatenate(times), "heat_count": np.concatenate(counts)}
