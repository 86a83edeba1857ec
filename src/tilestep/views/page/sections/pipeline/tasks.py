"""The tasks of a pipeline's updates, from the runs of a recording: all runs say what they belong to, also those without events."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tilestep.figures.reader import Report
from tilestep.figures.reader.sums import require_sums
from tilestep.recording.schema import EVENT_KINDS

Numbers = NDArray[np.int64]
LETTERS: Final[Mapping[str, str]] = MappingProxyType(
    {  # as pictures of schedules write them; another name of a task has none
        "forward": "F",
        "backward": "B",
        "input gradient": "I",
        "weight gradient": "W",
        "update": "U",
        "store": "S",
        "load": "L",
        "load parameters": "P",
        "store parameters": "Q",
    }
)
OF_PARAMETERS: Final = ("P", "Q")  # letters of tasks for all microbatches that come several times
OWN: Final = ("compute", "exchange", "sync", "collective", "host-call")  # kinds of events that are a task's own work
MOST_PAGE_UPDATES: Final = 16
MOST_PAGE_TASKS: Final = 40_000


@dataclass(frozen=True, kw_only=True)
class DoneTask:
    """One thing that one device did for an update.

    Attributes:
        stage: its number.
        kind: name of the task's kind, as the recording has it.
        microbatch: its number; -1: it is for all.
        ipus: that did it together; (): unknown.
        runs: of programs, in order of dispatch.
        both: whether its programs are forward and backward in one.
    """

    stage: int
    kind: str
    microbatch: int
    ipus: tuple[int, ...]
    runs: tuple[int, ...]
    both: bool

    @property
    def letter(self) -> str:
        """Of its kind; '' for a kind that has none."""
        return LETTERS.get(self.kind, "")


@dataclass(frozen=True, kw_only=True)
class DispatchedUpdate:
    """What was dispatched together for one update of the parameters, or for one pass without one.

    Attributes:
        number: among all of the recording, from 0.
        tasks: in order of dispatch.
        in_detail: whether all runs of all tasks have events.
    """

    number: int
    tasks: tuple[DoneTask, ...]
    in_detail: bool

    @property
    def trains(self) -> bool:
        """Whether it changes parameters."""
        return any(task.letter in ("B", "I", "W", "U") for task in self.tasks)


@dataclass(frozen=True, kw_only=True)
class Updates:
    """The updates of a recording.

    Attributes:
        total: how many there are.
        in_detail: how many of them have events of all their tasks.
        shown: those of the page, in order.
        cycles: of each run its own work, in cycles; -1: it has no events.
        mean_cycles: (program, stage) -> mean of these.
        programs: row of the program of each run.
    """

    total: int
    in_detail: int
    shown: tuple[DispatchedUpdate, ...]
    cycles: Numbers
    mean_cycles: Mapping[tuple[int, int], float]
    programs: Numbers


def updates_of(report: Report) -> Updates | None:
    """The updates of a recording; None if it has no pipeline."""
    columns = {name: report.tables.column("runs", name).astype(np.int64) for name in _COLUMNS}
    rows = np.flatnonzero(columns["stage"] >= 0)
    if not len(rows):
        return None
    kinds = {int(text): str(report.tables.strings[text]) for text in np.unique(columns["task"][rows]).tolist() if text >= 0}
    of_update = _update_of(columns, rows, kinds)
    total = int(of_update.max()) + 1
    first_ipu, ipus = _ipus_of(report)
    detailed = first_ipu[rows] >= 0
    whole = np.bincount(of_update, weights=~detailed, minlength=total) == 0
    places = _Places(columns, first_ipu, ipus)
    cycles = _own_cycles(report, first_ipu)
    by_update = np.argsort(of_update, kind="stable")
    begins = np.searchsorted(of_update[by_update], np.arange(total + 1))
    sizes = np.diff(begins)
    shown = tuple(
        DispatchedUpdate(
            number=number,
            tasks=_tasks(columns, rows[by_update[begins[number] : begins[number + 1]]], places, kinds),
            in_detail=bool(whole[number]),
        )
        for number in _chosen(whole, sizes)
    )
    return Updates(
        total=total,
        in_detail=int(whole.sum()),
        shown=shown,
        cycles=cycles,
        mean_cycles=_means(columns, rows, cycles),
        programs=columns["program"],
    )


_COLUMNS: Final = ("program", "group", "entry", "stage", "task", "microbatch")


def _update_of(columns: Mapping[str, Numbers], rows: Numbers, kinds: Mapping[int, str]) -> Numbers:
    """The number of the update of each of the rows: the entry into a group, and how often the entry has had the same task before.

    An update has several loads of parameters: each is of the update of its stage's next other task, and a store of that of the one before.
    """
    entry = _numbered([columns["group"][rows], columns["entry"][rows]])
    keys = [entry, *(columns[name][rows] for name in ("program", "stage", "task", "microbatch"))]
    order = np.lexsort(keys[::-1])
    new = np.any([np.diff(key[order], prepend=-9) != 0 for key in keys], axis=0)
    begins = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    times = np.empty_like(order)
    times[order] = np.arange(len(order)) - begins
    stages = _numbered([entry, columns["stage"][rows]])
    by_stage = np.argsort(stages, kind="stable")
    tasks = columns["task"][rows][by_stage]
    loads, stores = (np.isin(tasks, [text for text, kind in kinds.items() if LETTERS.get(kind) == letter]) for letter in OF_PARAMETERS)
    others = np.flatnonzero(~(loads | stores))
    if len(others):
        beside = others[np.clip(np.searchsorted(others, np.arange(len(tasks))) - stores, 0, len(others) - 1)]  # itself if it is neither
        times[by_stage] = np.where(stages[by_stage[beside]] == stages[by_stage], times[by_stage[beside]], 0)
    return _numbered([entry, times])


def _numbered(keys: Sequence[Numbers]) -> Numbers:
    """A number for each row: equal for rows with equal keys, in the order in which they come."""
    order = np.lexsort(keys[::-1])
    group = np.cumsum(np.any([np.diff(key[order], prepend=-9) != 0 for key in keys], axis=0)) - 1
    groups = np.empty_like(order)
    groups[order] = group
    firsts = np.full(int(group[-1]) + 1 if len(group) else 0, len(order), np.int64)
    np.minimum.at(firsts, groups, np.arange(len(order)))
    rank = np.empty_like(firsts)
    rank[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
    return rank[groups]


def _ipus_of(report: Report) -> tuple[Numbers, Mapping[int, tuple[int, ...]]]:
    """(of each run its first IPU, -1: it has no events; of the runs with several IPUs all of them)."""
    events = report.execution.events
    numbers = np.array([lane.number if lane.kind == "ipu" else -1 for lane in events.lanes], np.int64)
    runs, ipus = events.column("run").astype(np.int64), numbers[events.column("lane")]
    known = (runs >= 0) & (ipus >= 0)
    pairs = np.unique(np.stack([runs[known], ipus[known]]), axis=1)
    first = np.full(report.tables.rows("runs"), -1, np.int64)
    begins = np.flatnonzero(np.diff(pairs[0], prepend=-1))
    first[pairs[0][begins]] = pairs[1][begins]
    ends = np.append(begins[1:], pairs.shape[1])
    several = np.flatnonzero(ends - begins > 1).tolist()
    return first, {int(pairs[0][begins[each]]): tuple(pairs[1][begins[each] : ends[each]].tolist()) for each in several}


def _own_cycles(report: Report, first_ipu: Numbers) -> Numbers:
    """The cycles of each run's own work on its first IPU; -1: it has no events."""
    events = report.execution.events
    numbers = np.array([lane.number if lane.kind == "ipu" else -2 for lane in events.lanes], np.int64)
    runs = events.column("run").astype(np.int64)
    own = np.array([kind in OWN for kind in EVENT_KINDS], np.bool_)[events.column("kind")]
    counted = own & (runs >= 0) & (numbers[events.column("lane")] == first_ipu[runs])
    lengths = (events.column("end") - events.column("start")).astype(np.int64)
    require_sums(lengths[counted], "cycles of events")
    cycles = np.zeros(len(first_ipu), np.int64)
    np.add.at(cycles, runs[counted], lengths[counted])
    cycles[first_ipu < 0] = -1
    return cycles


class _Places:
    """Where runs ran: known of those with events, and of others by their program."""

    def __init__(self, columns: Mapping[str, Numbers], first_ipu: Numbers, ipus: Mapping[int, tuple[int, ...]]) -> None:
        self._columns, self._first, self._ipus = columns, first_ipu, ipus
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}
        for run in np.flatnonzero((first_ipu >= 0) & (columns["stage"] >= 0)).tolist():
            self._known.setdefault(self._key(run), self._own(run))

    def _key(self, run: int) -> tuple[int, int]:
        return int(self._columns["program"][run]), int(self._columns["stage"][run])

    def _own(self, run: int) -> tuple[int, ...]:
        return self._ipus.get(run, (int(self._first[run]),))

    def of(self, run: int) -> tuple[int, ...]:
        return self._own(run) if self._first[run] >= 0 else self._known.get(self._key(run), ())


def _tasks(columns: Mapping[str, Numbers], rows: Numbers, places: _Places, kinds: Mapping[int, str]) -> tuple[DoneTask, ...]:
    # Loads and stores of parameters have no number: those between which the stage did something else are several tasks.
    runs: dict[tuple[int, str, int, tuple[int, ...], int], list[int]] = {}
    latest: dict[int, str] = {}
    visits: Counter[tuple[int, str]] = Counter()
    for row in rows.tolist():
        stage, task, microbatch = (int(columns[name][row]) for name in ("stage", "task", "microbatch"))
        kind = kinds.get(task, "")
        if LETTERS.get(kind) in OF_PARAMETERS and latest.get(stage) != kind:
            visits[stage, kind] += 1
        latest[stage] = kind
        runs.setdefault((stage, kind, microbatch, places.of(row), visits[stage, kind]), []).append(row)
    backward = {stage for stage, kind, *_ in runs if LETTERS.get(kind) in ("B", "I", "W")}
    forward = {stage for stage, kind, *_ in runs if LETTERS.get(kind) == "F"}
    fused = forward - backward if backward or any(LETTERS.get(kind) == "U" for _, kind, *_ in runs) else set[int]()
    return tuple(
        DoneTask(
            stage=stage,
            kind=kind,
            microbatch=microbatch,
            ipus=ipus,
            runs=tuple(own),
            both=stage in fused and LETTERS.get(kind) == "F",
        )
        for (stage, kind, microbatch, ipus, _), own in runs.items()
    )


def _chosen(whole: NDArray[np.bool_], sizes: Numbers) -> list[int]:
    """Those that a page shows: the last ones in detail, the first and the last; fewer if they have very many tasks."""
    wanted = [*np.flatnonzero(whole)[: -MOST_PAGE_UPDATES + 1 : -1].tolist(), len(sizes) - 1, 0]
    chosen: list[int] = []
    left = MOST_PAGE_TASKS
    for number in dict.fromkeys(wanted):
        if sizes[number] <= left:
            chosen.append(number)
            left -= int(sizes[number])
    return sorted(chosen)


def _means(columns: Mapping[str, Numbers], rows: Numbers, cycles: Numbers) -> dict[tuple[int, int], float]:
    known = rows[cycles[rows] >= 0]
    sums: dict[tuple[int, int], list[int]] = {}
    for program, stage, own in zip(
        columns["program"][known].tolist(), columns["stage"][known].tolist(), cycles[known].tolist(), strict=True
    ):
        sums.setdefault((program, stage), []).append(own)
    return {key: sum(all_cycles) / len(all_cycles) for key, all_cycles in sums.items()}
