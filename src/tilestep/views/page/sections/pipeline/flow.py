"""Which values go from task to task: exact where the recording has its journal, else as in a chain of stages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.recording.call_tables import calls_of, has_history
from tilestep.recording.schema import CALLS
from tilestep.sim.calls import Copy, Dispatch
from tilestep.views.page.sections.pipeline.tasks import DoneTask

MOST_READ_CALLS: Final = 300_000


@dataclass(frozen=True, kw_only=True)
class RunFlow:
    """The values of a run, on the first of its IPUs.

    Attributes:
        takes: value -> bytes, of its arguments.
        gives: values of its results.
        needs: runs of stages that made its arguments.
    """

    takes: Mapping[int, int]
    gives: Collection[int]
    needs: Collection[int]


def flows_of(report: Report, wanted: Collection[int]) -> Mapping[int, RunFlow] | None:
    """The values of some runs; None if the recording has no journal, or a very long one, or one that ends before the runs do.

    Raises: RecordingError if the journal is damaged.
    """
    tables = report.tables
    dispatches = int((tables.column("calls", "call") == CALLS.index("dispatch")).sum())
    if not has_history(tables) or tables.rows("calls") > MOST_READ_CALLS or dispatches != tables.rows("runs"):
        return None
    programs = {program.key: program for program in report.compilation.programs}
    made_by: dict[int, int] = {}
    found: dict[int, RunFlow] = {}
    run = -1
    try:
        for call in calls_of(tables):
            if isinstance(call, Copy) and call.source in made_by:
                made_by[call.target] = made_by[call.source]
            if not isinstance(call, Dispatch):
                continue
            run += 1
            if call.task is None or call.task.stage < 0:
                continue
            results = call.results[0] if call.results else ()
            made_by.update(dict.fromkeys(results, run))
            if run not in wanted:
                continue
            takes = call.arguments[0] if call.arguments else ()
            program = programs[call.key]
            sizes = [each.size_bytes for each in program.planned.arguments] if program.has_tree else [0] * len(takes)
            found[run] = RunFlow(
                takes=dict(zip(takes, sizes, strict=True)),
                gives=frozenset(results),
                needs=frozenset(made_by[value] for value in takes if value in made_by),
            )
    except (ValueError, IndexError, KeyError) as error:
        raise RecordingError(f"the journal of the recording is damaged: {error}") from error
    return found


def needs_of(tasks: Sequence[DoneTask], flows: Mapping[int, RunFlow] | None) -> tuple[tuple[int, ...], ...]:
    """For each task the tasks before it, by their places, whose results it takes."""
    if flows is None:
        return _chain(tasks)
    place = {run: index for index, task in enumerate(tasks) for run in task.runs}
    found: list[tuple[int, ...]] = []
    for index, task in enumerate(tasks):
        needs = {place[need] for run in task.runs if run in flows for need in flows[run].needs if need in place}
        found.append(tuple(sorted(need for need in needs if need < index)))
    return tuple(found)


def _chain(tasks: Sequence[DoneTask]) -> tuple[tuple[int, ...], ...]:
    """As if each stage took from the one before it."""
    place: dict[tuple[str, int, int], int] = {}
    stages = sorted({task.stage for task in tasks})
    before = dict(zip(stages[1:], stages[:-1], strict=True))
    after = {stage: other for other, stage in before.items()}
    found: list[tuple[int, ...]] = []
    for index, task in enumerate(tasks):
        letter, of = task.letter, task.microbatch
        wanted: list[tuple[str, int, int]] = []
        if letter == "F" and task.stage in before:
            wanted = [("F", before[task.stage], of)]
        elif letter in ("B", "I"):
            wanted = [("F", task.stage, of), *(("B", after[task.stage], of) for _ in range(task.stage in after))]
        elif letter == "W":
            wanted = [("B", task.stage, of)]
        found.append(tuple(sorted({place[key] for key in wanted if key in place})))
        if letter in ("F", "B", "I"):
            place["F" if letter == "F" else "B", task.stage, of] = index
            if task.both:
                place["B", task.stage, of] = index
    return tuple(found)


def kept_bytes(tasks: Sequence[DoneTask], flows: Mapping[int, RunFlow] | None) -> Mapping[int, int]:
    """For each stage the bytes on one IPU that it keeps of one microbatch from forward to backward; of the largest microbatch.

    They are the arguments of its backward that its forward took or made, and that no other microbatch takes. A stage whose forward and
    backward are one program keeps nothing between them, and is not there.
    """
    if flows is None:
        return {}
    forward: dict[tuple[int, int], set[int]] = {}
    takers: dict[int, set[tuple[int, int]]] = {}
    for task in tasks:
        for run in task.runs:
            flow = flows.get(run)
            if flow is None or task.letter not in ("F", "B", "I", "W"):
                continue
            for value in flow.takes:
                takers.setdefault(value, set()).add((task.stage, task.microbatch))
            if task.letter == "F":
                forward.setdefault((task.stage, task.microbatch), set()).update(flow.takes, flow.gives)
    kept: dict[tuple[int, int], dict[int, int]] = {}
    for task in tasks:
        key = task.stage, task.microbatch
        if task.letter not in ("B", "I", "W"):
            continue
        for run in task.runs:
            flow = flows.get(run)
            if flow is not None:
                own = kept.setdefault(key, {})
                own.update({value: size for value, size in flow.takes.items() if value in forward.get(key, ()) and len(takers[value]) == 1})
    most: dict[int, int] = {}
    for (stage, _), values in kept.items():
        most[stage] = max(most.get(stage, 0), sum(values.values()))
    return most
