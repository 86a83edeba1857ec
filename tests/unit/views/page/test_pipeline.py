"""What view Pipeline reads: the schedule of a recorded order is that of the schedule, and times are the reader's."""

import itertools
from collections import Counter
from functools import cache
from typing import Any, cast

import numpy as np
import pytest

from tests.unit.figures.reader.recorded import larger, recorded, report_of, two_stages
from tests.unit.sim.toy import Host, program, superstep
from tilestep.figures.reader import Report
from tilestep.recording.capture import last_update
from tilestep.sim.calls import Dispatch
from tilestep.sim.trace import PipelineTask, RunRow
from tilestep.train.schedules import Schedule, grouped, interleaved, loading_parameters, sequential, zero_bubble
from tilestep.train.schedules.tasks import OF_PARAMETERS, SLOTS, Costs, Kind
from tilestep.views.page.sections.pipeline.flow import needs_of
from tilestep.views.page.sections.pipeline.section import pipeline
from tilestep.views.page.sections.pipeline.tasks import LETTERS, updates_of
from tilestep.views.page.sections.pipeline.timing import simulated, slots, stash

WORK = {Kind.FORWARD: 30, Kind.BACKWARD: 70, Kind.INPUT_GRADIENT: 40, Kind.WEIGHT_GRADIENT: 20, Kind.UPDATE: 10} | dict.fromkeys(
    OF_PARAMETERS, 5
)
SCHEDULES = (grouped(3, 6), interleaved(4, 8), zero_bubble(3, 6), sequential(3, 4), grouped(3, 6, training=False))


def ran(schedule: Schedule, *, updates: int = 2, runs_in_detail: int = 1000, clock_hz: float = 1e6, in_one_entry: bool = False) -> Report:
    """A recording of a schedule whose device d is IPU d, in the schedule's order. Args: in_one_entry: of the group, all updates."""
    host = Host(on=larger(4, clock_hz=clock_hz))
    programs = {
        (stage, kind): program(superstep(WORK[kind], 0, 1), name=f"stage {stage} {kind.meaning}")
        for stage in range(schedule.stages)
        for kind in WORK
    }
    used: dict[str, Any] = {}
    for update in range(updates):
        for task in schedule.ordered():
            called = programs[task.stage, task.kind]
            used[called.name] = called
            numbered = task.microbatch is not None and task.kind not in OF_PARAMETERS
            told = PipelineTask(task.stage, task.kind.meaning, task.microbatch if numbered and task.microbatch is not None else -1)
            host.system.dispatch(
                called,
                Dispatch(
                    key=host.key(called),
                    ipus=(schedule.device(task),),
                    arguments=[[]],
                    results=[[]],
                    counts=(),
                    group=("pipeline 1", 1 if in_one_entry else update + 1),
                    task=told,
                ),
            )
    return Report(recorded(host, list(used.values()), runs_in_detail=runs_in_detail))


@cache
def of_grouped() -> Report:
    return ran(grouped(3, 6), runs_in_detail=2)


def begin_of_second(report: Report) -> int:
    """The cycle at which the second update begins."""
    return min(run.cycles_from for run in report.execution.runs if run.entry == 2)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: f"{schedule.name}-{schedule.training}")
def test_the_order_of_dispatch_gives_the_schedule(schedule: Schedule) -> None:
    found = updates_of(ran(schedule))
    assert found is not None
    assert (found.total, found.in_detail, len(found.shown)) == (2, 2, 2)
    wanted = schedule.simulate(SLOTS)
    for update in found.shown:
        needs = needs_of(update.tasks, None)
        times = simulated(update.tasks, needs, [slots(task, 0) for task in update.tasks])
        assert times.bubble == pytest.approx(wanted.bubble)
        assert times.whole == wanted.makespan
        begins = {(task.stage, task.letter, task.microbatch): begin for task, begin in zip(update.tasks, times.begin, strict=True)}
        assert begins == {
            (task.stage, task.kind.value, -1 if task.microbatch is None else task.microbatch): begin for task, begin in wanted.begin.items()
        }
        if schedule.training:
            assert tuple(max(stash(update.tasks, stage)) for stage in range(schedule.stages)) == schedule.stash()


def test_measured_costs_are_those_of_the_schedule_with_them() -> None:
    schedule = grouped(3, 6)
    report = ran(schedule, runs_in_detail=2)
    block = pipeline(report)
    assert block is not None
    costs = Costs(forward=31, backward=71, update=11)
    wanted = schedule.simulate(costs)
    for update in cast("list[dict[str, Any]]", block.json["updates"]):
        assert update["measured"]["whole"] == wanted.makespan
        assert update["measured"]["bubble"] == pytest.approx(wanted.bubble)
    assert [stage["cycles"] for stage in block.json["stages"]] == [{"forward": 31, "backward": 71, "update": 11}] * 3
    assert [stage["stash"] for stage in block.json["stages"]] == [5, 3, 1]
    assert [stage["tile_bytes"] for stage in block.json["stages"]] == [
        max(each.planned.memory.peak_bytes for each in report.compilation.programs if each.name.startswith(f"stage {stage}"))
        for stage in range(3)
    ]


def test_the_last_update_is_kept_whole() -> None:
    report = of_grouped()
    block = pipeline(report)
    assert block is not None
    assert (block.json["total"], block.json["in_detail"]) == (2, 1)
    assert [update["in_detail"] for update in block.json["updates"]] == [False, True]
    of_second = [run for run in report.execution.runs if run.entry == 2]
    assert all(run.in_detail for run in of_second)
    assert not all(run.in_detail for run in report.execution.runs if run.entry == 1)


def test_pieces_and_gaps_fill_the_update_and_are_the_readers() -> None:
    report = of_grouped()
    block = pipeline(report)
    assert block is not None
    columns, update, origin = block.columns, block.json["updates"][1], begin_of_second(report)
    for device, where in enumerate(block.json["devices"]):
        lane = report.execution.lane("ipu", where["ipus"][0])
        parts: list[tuple[int, int]] = []
        for name in ("piece", "gap"):
            mine = columns[f"{name}_device"] == device
            parts += zip(columns[f"{name}_begin"][mine].tolist(), columns[f"{name}_end"][mine].tolist(), strict=True)
        parts.sort()
        assert parts[0][0] == 0
        assert parts[-1][1] == update["cycles"]
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
        waits = {
            (wait.cycles_from - origin, wait.cycles_to - origin): wait.reason
            for wait in report.execution.waits(lane)
            if wait.cycles_from > origin and wait.cycles_to <= origin + update["cycles"]
        }
        mine = np.flatnonzero(columns["gap_device"] == device)
        gaps = {
            (int(columns["gap_begin"][row]), int(columns["gap_end"][row])): block.json["reasons"][int(columns["gap_reason"][row])]
            for row in mine
        }
        assert waits.items() <= gaps.items()


@pytest.mark.parametrize("in_one_entry", [True, False])
def test_each_load_of_parameters_is_a_task_of_its_own_in_the_update_that_needs_it(in_one_entry: bool) -> None:
    schedule = loading_parameters(interleaved(6, 4, device_mapping=[0, 1, 0, 1, 0, 1], strict=False))
    found = updates_of(ran(schedule, updates=3, in_one_entry=in_one_entry))
    assert found is not None
    assert (found.total, len(found.shown)) == (3, 3)
    expected = Counter((task.stage, task.kind.meaning) for task in schedule.ordered())
    assert max(count for (_, kind), count in expected.items() if kind == "load parameters") > 1
    for update in found.shown:
        assert Counter((task.stage, task.kind) for task in update.tasks) == expected
        assert [task.runs[0] for task in update.tasks] == list(
            range(len(update.tasks) * update.number, len(update.tasks) * (update.number + 1))
        )


def test_tasks_have_the_times_of_their_runs() -> None:
    report = of_grouped()
    block = pipeline(report)
    assert block is not None
    first = block.json["updates"][0]["tasks"]
    origin = begin_of_second(report)
    for row in range(first, len(block.columns["task_run"])):
        run = report.execution.runs[int(block.columns["task_run"][row])]
        assert (int(block.columns["task_stage"][row]), int(block.columns["task_microbatch"][row])) == (run.stage, run.microbatch)
        assert block.json["kinds"][int(block.columns["task_kind"][row])]["name"] == run.task
        assert int(block.columns["task_begin"][row]) + origin == run.cycles_from
        assert int(block.columns["task_end"][row]) + origin == run.cycles_to
        assert int(block.columns["task_cycles"][row]) == run.cycles


def test_a_recording_without_stages_has_no_pipeline() -> None:
    assert pipeline(report_of(two_stages())) is None


def test_kinds_of_tasks_are_those_of_schedules() -> None:
    assert dict(LETTERS) == {kind.meaning: kind.value for kind in Kind}


def row(number: int, entry: int, task: PipelineTask | None) -> RunRow:
    return RunRow(number=number, key=1, host_cycle=0, group="pipeline 1", entry=entry, task=task)


def test_the_last_update_is_the_last_entry_that_has_one_with_what_runs_beside_the_stages() -> None:
    update, forward = PipelineTask(0, "update", -1), PipelineTask(0, "forward", 0)
    runs = [row(0, 1, forward), row(1, 1, update), row(2, 2, None), row(3, 2, forward), row(4, 2, update), row(5, 3, forward)]
    assert last_update(runs) == {2, 3, 4}
    assert last_update(runs[:1]) == {0}
    assert last_update([row(0, 1, None), row(1, 0, forward)]) == set()
    assert last_update([]) == set()
