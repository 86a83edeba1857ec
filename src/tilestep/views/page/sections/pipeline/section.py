"""The block `pipeline`."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tilestep.figures.reader import Report
from tilestep.views.page.block import PageBlock, columns_of
from tilestep.views.page.sections.pipeline.flow import RunFlow, flows_of, kept_bytes, needs_of
from tilestep.views.page.sections.pipeline.tasks import DispatchedUpdate, DoneTask, Updates, updates_of
from tilestep.views.page.sections.pipeline.timing import Times, is_serial, simulated, slots, stash
from tilestep.views.page.sections.pipeline.update_timeline import GROUPS, WAITS, Happened, happened

ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pipeline.schedule": (
            "Order of dispatch, with what each task takes from others, if each forward and each backward took one slot and updates none."
        ),
        "pipeline.simulated": (
            "The same order with each task's own cycles: those of its events, or the mean of its program's runs with events. "
            "Transfers take no time."
        ),
        "pipeline.slot": "Slots of one task each, from 0, in the order of dispatch.",
        "pipeline.happened": "Events of the stage's first IPU from the begin of the update's first task to the end of its last.",
        "pipeline.cycle": "Cycles of emulated time since the begin of the update's first task.",
        "pipeline.task": "Mean over all runs with events: compute, exchange, sync and host calls of the task's programs on one IPU.",
        "pipeline.own": "Compute, exchange, sync and host calls of the task's programs on their first IPU.",
        "pipeline.stash": "Microbatches whose forward is done and whose backward is not.",
        "pipeline.kept": (
            "Arguments of the stage's backward that its forward took or made and no other microbatch takes, on one IPU; "
            "of its largest microbatch."
        ),
        "pipeline.tile": "Bytes on the fullest tile of the stage's programs, as they were planned.",
        "pipeline.count": "Runs of the recording: each says its stage, its kind of task and its microbatch.",
    }
)


def pipeline(report: Report) -> PageBlock | None:
    """The block `pipeline`; None if no run of the recording is of a pipeline's stage.

    Its columns have a row for each task, piece and gap, all of update after update: `json["updates"]` says how many.

    Raises: RecordingError if the recording is damaged.
    """
    if "execution" not in report.parts or (updates := updates_of(report)) is None:
        return None
    tasks = [task for update in updates.shown for task in update.tasks]
    flows = flows_of(report, {run for task in tasks for run in task.runs})
    devices = _devices(tasks)
    kinds = list(dict.fromkeys(task.kind for task in tasks))
    rows: dict[str, list[tuple[int, ...]]] = {name: [] for name in _COLUMNS_OF_KIND}
    texts: dict[str, int] = {}
    documents = [_update(report, updates, update, flows, devices, kinds, rows, texts) for update in updates.shown]
    return PageBlock(
        json={
            "total": updates.total,
            "in_detail": updates.in_detail,
            "journal": flows is not None,
            "devices": [{"ipus": list(ipus), "stages": list(stages)} for ipus, stages in devices.items()],
            "kinds": [{"name": kind, "letter": next(task.letter for task in tasks if task.kind == kind)} for kind in kinds],
            "groups": list(GROUPS),
            "waits": list(WAITS),
            "reasons": list(texts),
            "updates": documents,
            "stages": _stages(report, updates, tasks, flows),
        },
        columns={f"{of}_{name}": column for of, names in _COLUMNS_OF_KIND.items() for name, column in columns_of(names, rows[of]).items()},
    )


_COLUMNS_OF_KIND: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "task": ("stage", "kind", "microbatch", "device", "both", "run", "slot", "slots", "cycles", "begin", "end"),
        "piece": ("device", "task", "group", "begin", "end"),
        "gap": ("device", "why", "reason", "begin", "end"),
    }
)


def _devices(tasks: Sequence[DoneTask]) -> dict[tuple[int, ...], list[int]]:
    """The devices with their stages, those of the first stages first."""
    stages: dict[tuple[int, ...], set[int]] = {}
    for task in tasks:
        if task.letter in ("F", "B", "I", "W", ""):
            stages.setdefault(task.ipus, set()).add(task.stage)
    for task in tasks:
        stages.setdefault(task.ipus, {task.stage})
    return {ipus: sorted(stages[ipus]) for ipus in sorted(stages, key=lambda ipus: (min(stages[ipus]), ipus))}


def _update(
    report: Report,
    updates: Updates,
    update: DispatchedUpdate,
    flows: Mapping[int, RunFlow] | None,
    devices: Mapping[tuple[int, ...], Sequence[int]],
    kinds: Sequence[str],
    rows: Mapping[str, list[tuple[int, ...]]],
    texts: dict[str, int],
) -> dict[str, Any]:
    """Adds an update to the rows. Returns what of it has few numbers."""
    place = {ipus: index for index, ipus in enumerate(devices)}
    needs = needs_of(update.tasks, flows)
    drawn = simulated(update.tasks, needs, [slots(task, 1) for task in update.tasks])
    even = simulated(update.tasks, needs, [slots(task, 0) for task in update.tasks])
    measured = simulated(update.tasks, needs, [_cycles(updates, task) for task in update.tasks])
    found = happened(report, update) if update.in_detail else None
    begins, ends = _bounds(update, found)
    for index, task in enumerate(update.tasks):
        of_task = (task.stage, kinds.index(task.kind), task.microbatch, place[task.ipus], int(task.both), task.runs[0])
        of_slots = (int(drawn.begin[index]), int(drawn.end[index] - drawn.begin[index]))
        rows["task"].append((*of_task, *of_slots, _measured(updates, task), begins[index], ends[index]))
    before = {kind: len(rows[kind]) for kind in ("piece", "gap")}
    if found is not None:
        for ipus in devices:
            for piece in found.pieces.get(ipus, ()):
                span = (piece.begin - found.begin, piece.end - found.begin)
                rows["piece"].append((place[ipus], piece.place, piece.group, *span))
            for gap in found.gaps.get(ipus, ()):
                span = (gap.begin - found.begin, gap.end - found.begin)
                rows["gap"].append((place[ipus], gap.why, texts.setdefault(gap.reason, len(texts)), *span))
    return {
        "number": update.number,
        "in_detail": update.in_detail,
        "trains": update.trains,
        "serial": is_serial(update.tasks),
        "tasks": len(update.tasks),
        **{f"{kind}s": len(rows[kind]) - count for kind, count in before.items()},
        "slots": int(drawn.whole),
        "cycles": None if found is None else found.end - found.begin,
        "even": _waiting(even, update, devices),
        "measured": _waiting(measured, update, devices),
    }


def _bounds(update: DispatchedUpdate, found: Happened | None) -> tuple[list[int], list[int]]:
    """(begin, end) of each task in cycles since the update's begin; -1: unknown."""
    begins, ends = [-1] * len(update.tasks), [-1] * len(update.tasks)
    for piece in [] if found is None else [piece for pieces in found.pieces.values() for piece in pieces]:
        if piece.place >= 0 and found is not None:
            if begins[piece.place] < 0:
                begins[piece.place] = piece.begin - found.begin
            ends[piece.place] = max(ends[piece.place], piece.end - found.begin)
    return begins, ends


def _measured(updates: Updates, task: DoneTask) -> int:
    """A task's own cycles; -1 if one of its runs has no events."""
    cycles = [int(updates.cycles[run]) for run in task.runs]
    return -1 if min(cycles) < 0 else sum(cycles)


def _cycles(updates: Updates, task: DoneTask) -> float:
    """A task's own cycles, or the mean of its programs' runs."""

    def of(run: int) -> float:
        own = int(updates.cycles[run])
        return own if own >= 0 else updates.mean_cycles.get((int(updates.programs[run]), task.stage), 0.0)

    return sum(map(of, task.runs))


def _waiting(times: Times, update: DispatchedUpdate, devices: Mapping[tuple[int, ...], Sequence[int]]) -> dict[str, Any]:
    """whole: its time; bubble; busy: of each device."""
    order = list(dict.fromkeys(task.ipus for task in update.tasks))
    busy = dict(zip(order, times.busy, strict=True))
    return {"whole": times.whole, "bubble": times.bubble, "busy": [busy.get(ipus) for ipus in devices]}


def _stages(report: Report, updates: Updates, tasks: Sequence[DoneTask], flows: Mapping[int, RunFlow] | None) -> list[dict[str, Any]]:
    """Of each stage: ipus, cycles of one task by kind, forward and backward of one microbatch together, bytes, and programs."""
    last = next((update for update in reversed(updates.shown) if update.trains), updates.shown[-1])
    kept = kept_bytes(last.tasks, flows)
    found: list[dict[str, Any]] = []
    for stage in sorted({task.stage for task in tasks}):
        own = [task for task in last.tasks if task.stage == stage] or [task for task in tasks if task.stage == stage]
        cycles: dict[str, float] = {}
        for kind in dict.fromkeys(task.kind for task in own):
            of_kind = [_cycles(updates, task) for task in own if task.kind == kind]
            cycles[kind] = sum(of_kind) / len(of_kind)
        rows = sorted({int(updates.programs[run]) for task in own for run in task.runs})
        peaks = {row: of.planned.memory.peak_bytes for row in rows if (of := report.compilation.programs[row]).has_tree}
        fullest = max(peaks, key=lambda row: peaks[row], default=None)
        found.append(
            {
                "stage": stage,
                "ipus": list(dict.fromkeys(ipu for task in own for ipu in task.ipus)),
                "cycles": cycles,
                "microbatch": sum(of for kind, of in cycles.items() if any(task.kind == kind and task.microbatch >= 0 for task in own)),
                "both": any(task.both for task in own),
                "stash": max(stash(own, stage)) if last.trains else None,
                "kept_bytes": kept.get(stage) if all(report.compilation.programs[row].has_tree for row in rows) else None,
                "tile_bytes": None if fullest is None else peaks[fullest],
                "fullest": fullest,
            }
        )
    return found
