"""Schedules of pipelines: the laws that each obeys, and what is refused."""

import functools
import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tilestep.train import schedules
from tilestep.train.schedules.schedule import SLOTS, Costs, Kind, Schedule, Task, from_table

STAGES, COUNTS = range(1, 9), range(1, 33)


def order(schedule: Schedule, device: int) -> str:
    """A device's tasks without updates and stages."""
    return " ".join(f"{task.kind.value}{task.microbatch}" for task in schedule.tasks[device] if task.kind is not Kind.UPDATE)


@functools.cache
def everywhere(make: Callable[..., Schedule], **options: object) -> list[tuple[int, int, Schedule]]:
    """One schedule for each number of stages and microbatches."""
    return [(n, count, make(n, count, **options)) for n in STAGES for count in COUNTS]


@pytest.mark.parametrize(
    ("schedule", "rows"),
    [
        (schedules.grouped(2, 4), ["F0 F1 F2 B0 F3 B1 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]),
        (schedules.interleaved(2, 2), ["F0 F1 B0 B1", "F0 B0 F1 B1"]),
        (
            schedules.interleaved(3, 6),
            ["F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5", "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5", "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5"],
        ),
        (schedules.sequential(2, 2), ["F0 B0 F1 B1", "F0 B0 F1 B1"]),
        (schedules.grouped(2, 2, training=False), ["F0 F1", "F0 F1"]),
    ],
)
def test_tables_of_graphcores_schedules(schedule: Schedule, rows: list[str]) -> None:
    """Worked out from TensorFlow for the IPU 2.4 (graphcore/tensorflow on GitHub)."""
    assert [order(schedule, device) for device in range(len(schedule.tasks))] == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sequential", "grouped", "interleaved", "zero_bubble", "stale", "stashed"])
def test_every_schedule_has_each_task_once_and_can_be_followed(name: str) -> None:
    """Which `Schedule` checks when it is made: at any speed of its devices, none waits for ever."""
    rng = random.Random(name)
    for n, count, schedule in everywhere(schedules.SCHEDULES[name], strict=False):
        updates = n * count if name in ("stale", "stashed") else n
        assert sum(len(tasks) for tasks in schedule.tasks) == (3 if name == "zero_bubble" else 2) * n * count + updates
        if count not in (1, 2, 5, 16, 31):
            continue  # it could be made
        costs = Costs(forward=[rng.uniform(0.1, 9) for _ in range(n)], backward=[rng.uniform(0.1, 9) for _ in range(n)], transfer=0.5)
        timeline = schedule.simulate(costs)
        for task, begin in timeline.begin.items():
            for need in schedule.needs(task):
                assert begin >= timeline.end[need] + (0.5 if schedule.device(need) != schedule.device(task) else 0)
        for tasks in schedule.tasks:
            for before, after in itertools.pairwise(tasks):
                assert timeline.begin[after] >= timeline.end[before]


@pytest.mark.parametrize("devices", STAGES)
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_looped_schedules_can_be_followed_with_any_count(devices: int, rounds: int) -> None:
    for count in COUNTS:
        schedule = schedules.looped(devices, count, rounds=rounds, strict=False)
        stages = devices * rounds
        assert schedule.device_mapping == tuple(range(devices)) * rounds
        assert sum(map(len, schedule.tasks)) == 2 * stages * count + stages
        for device, tasks in enumerate(schedule.tasks):
            assert tasks[-rounds:] == tuple(Task(device + turn * devices, Kind.UPDATE) for turn in range(rounds))
        if count in (1, 5, 16):
            timeline = schedule.simulate(Costs(transfer=0.5))
            for task, begin in timeline.begin.items():
                for need in schedule.needs(task):
                    assert begin >= timeline.end[need] + (0.5 if schedule.device(need) != schedule.device(task) else 0)
    whole = schedules.looped(devices, 2 * devices, rounds=rounds)
    # The ramps, of N-1 forwards and backwards of whole devices' work, are shorter by the number of rounds.
    assert whole.simulate(SLOTS).makespan == 2 * (2 * devices * rounds + devices - 1)


@pytest.mark.slow
def test_slots_and_depths() -> None:
    """How long each takes if every task has a slot, and how many microbatches a stage keeps."""
    for n, count, schedule in everywhere(schedules.grouped, strict=False):
        assert schedule.stash() == tuple(min(count, 2 * (n - 1 - stage) + 1) for stage in range(n))
    for n, count, schedule in everywhere(schedules.interleaved, strict=False):
        assert schedule.stash() == tuple(min(count, n - stage) for stage in range(n))
        assert schedule.simulate(SLOTS).makespan == 2 * (count - 1) + 2 * n
    for n, count, schedule in everywhere(schedules.sequential, strict=False):
        assert schedule.stash() == (1,) * n
        assert schedule.simulate(SLOTS).makespan == count * 2 * n
    for n, count, schedule in everywhere(schedules.sequential, training=False):
        assert schedule.stash() == (0,) * n
        assert schedule.simulate(SLOTS).makespan == count * n
    for n, count, schedule in everywhere(schedules.grouped, training=False, strict=False):
        assert schedule.simulate(SLOTS).makespan == count + n - 1


@pytest.mark.parametrize(("stages", "depth"), [(1, 1), (2, 2), (4, 4), ([1, 2, 1], 3)])
def test_with_backward_in_two_a_stage_keeps_as_many_microbatches_as_there_are_levels(stages: int | list[int], depth: int) -> None:
    schedule = schedules.zero_bubble(stages, 12)
    assert schedule.stash() == (depth,) * schedule.stages


def test_there_is_one_update_for_each_stage_and_run_after_all_its_gradients() -> None:
    for make in (schedules.sequential, schedules.grouped, schedules.interleaved, schedules.zero_bubble):
        for n, _, schedule in everywhere(make, strict=False):
            assert [tasks[-1] for tasks in schedule.tasks] == [Task(stage, Kind.UPDATE) for stage in range(n)]
            assert set(schedule.versions().values()) == {0}


def test_versions_of_stale_weights() -> None:
    """With L the last stage, forward of microbatch m at stage s has m - 2(L-s) updates, backward the newest: PopART's rule."""
    for n, count, schedule in everywhere(schedules.stale, strict=False):
        versions = schedule.versions()
        for stage, m in itertools.product(range(n), range(count)):
            assert versions[Task(stage, Kind.FORWARD, m)] == max(0, m - 2 * (n - 1 - stage))
            assert versions[Task(stage, Kind.BACKWARD, m)] == m


def test_versions_of_stashed_weights() -> None:
    for n, count, schedule in everywhere(schedules.stashed, strict=False):
        versions = schedule.versions()
        for stage, m in itertools.product(range(n), range(count)):
            assert versions[Task(stage, Kind.FORWARD, m)] == max(0, m - (n - 1 - stage))
            assert versions[Task(stage, Kind.BACKWARD, m)] == versions[Task(stage, Kind.FORWARD, m)]


@pytest.mark.parametrize(
    ("make", "stages", "mapping", "training", "count", "near"),
    [
        (schedules.grouped, 3, None, True, 8, "6: 6 or 12"),
        (schedules.grouped, 3, None, True, 5, "6: 6"),
        (schedules.grouped, 3, None, False, 10, "3: 9 or 12"),
        (schedules.interleaved, 3, [2, 0, 1], False, 10, "3: 9 or 12"),
        (schedules.interleaved, 4, None, True, 9, "4: 8 or 12"),
        (schedules.interleaved, 4, [0, 1, 1, 0], False, 3, "2: 2 or 4"),
        (schedules.looped, 4, None, True, 6, "4: 4 or 8"),
    ],
)
def test_counts_that_are_refused_name_their_neighbours(
    make: Callable[..., Schedule], stages: int, mapping: list[int] | None, training: bool, count: int, near: str
) -> None:
    options = {} if make is schedules.looped else {"device_mapping": mapping, "training": training}
    with pytest.raises(ValueError, match=rf"the count of microbatches is {count}, which must be a multiple of {near}; or strict=False"):
        make(stages, count, **options)
    assert make(stages, count, strict=False, **options).microbatches == count


def test_any_count_goes_round_one_device() -> None:
    assert schedules.interleaved(3, 7, device_mapping=[0, 0, 0], training=False).microbatches == 7


def test_levels_that_share_a_device_are_not_interleaved_in_training() -> None:
    with pytest.raises(ValueError, match=r"levels \[0, 2\] are on device 0, where their tasks would meet in one slot"):
        schedules.interleaved(3, 6, device_mapping=[0, 1, 0])
    assert schedules.interleaved(3, 6, device_mapping=[0, 1, 0], strict=False).training


@pytest.mark.parametrize("name", ["sequential", "grouped", "interleaved", "zero_bubble", "stale", "stashed"])
def test_concurrent_stages_are_of_one_level(name: str) -> None:
    schedule = schedules.SCHEDULES[name]([1, 2, 1], 12)
    assert schedule.levels == ((0,), (1, 2), (3,))
    assert set(schedule.needs(Task(3, Kind.FORWARD, 5))) == {Task(1, Kind.FORWARD, 5), Task(2, Kind.FORWARD, 5)}
    assert [order(schedule, 1)] == [order(schedule, 2)]
    shared = schedules.SCHEDULES[name]([1, 2, 1], 12, device_mapping=[0, 1, 1, 0], strict=False)
    assert len(shared.tasks) == 2


def test_offloading_stores_after_forward_and_loads_before_backward() -> None:
    plain = schedules.grouped(3, 6)
    schedule = schedules.offloading(plain, [0, 2])
    assert order(schedule, 0).startswith("F0 S0 F1 S1 F2 S2 F3 S3 F4 S4 L0 B0")
    assert schedule.stash() == (1, 3, 1)
    assert schedule.simulate(Costs(store=0.5, load=0.5)).makespan > plain.simulate().makespan
    with pytest.raises(ValueError, match="there is no stage 3 to offload"):
        schedules.offloading(plain, [3])
    with pytest.raises(ValueError, match="has no backward pass"):
        schedules.offloading(schedules.grouped(2, 2, training=False), [0])


def test_times_decide_when_tasks_happen() -> None:
    timeline = schedules.interleaved(2, 2).simulate(Costs(forward=[1, 3], backward=[2, 4], update=0.5, transfer=0.25))
    begin = {str(task): time for task, time in timeline.begin.items()}
    assert begin == {
        "0F0": 0,
        "0F1": 1,
        "0B0": 8.5,
        "0B1": 15.5,
        "0U": 17.5,
        "1F0": 1.25,
        "1B0": 4.25,
        "1F1": 8.25,
        "1B1": 11.25,
        "1U": 15.25,
    }
    assert timeline.makespan == 18
    assert timeline.busy == (6.5, 14.5)
    assert timeline.bubble == 1 - 21 / 36


def test_a_schedule_is_a_table() -> None:
    for schedule in (schedules.looped(3, 6), schedules.zero_bubble(4, 8), schedules.stale(2, 4)):
        again = from_table(schedule.table(), name=schedule.name, weights=schedule.weights)
        assert again == schedule


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["0F0", "0X0"]], "'0X0' is no task"),
        ([["0F"]], "'0F' is no task"),
        ([["0F0", "0F0"]], "there is more than one of 0F0"),
        ([["0F0", "0B0"], ["1F0"]], "task 1B0 is missing"),
        ([["0F0"], ["2F0"]], r"the table has the stages \[0, 2\]: they must be numbered from 0 on"),
        ([["0F0", "0F2"]], "task 0F1 is missing"),
        ([["0F0", "0B0"], ["1B0", "1F0"]], "the devices would wait for each other for ever: .*device 1 at 1B0 for 1F0"),
        ([["0F0", "0F1"], ["1F1", "0F1"]], "device 0 has task 0F0, but stage 0 is on device 1"),
        ([["0F0", "0I0"]], "task 0W0 is missing"),
        ([["0F0", "0B0", "0U"], ["1F0", "1B0"]], "task 1U0 is missing"),
    ],
)
def test_tables_that_cannot_be_are_refused(rows: list[list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_table(rows)


def test_an_order_in_which_two_devices_wait_for_each_other_is_refused() -> None:
    rows = [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]]
    with pytest.raises(ValueError, match="wait for each other for ever: device 0 at 0B0 for 1B0; device 1 at 1F1 for 0F1"):
        from_table(rows)


def test_a_schedule_is_shown_as_text() -> None:
    assert schedules.grouped(2, 4).show() == (
        "grouped: 2 stages, 4 microbatches\n"
        "  0 | F0 F1 F2 B0 F3 B1  . B2  . B3\n"
        "  1 |  . F0 B0 F1 B1 F2 B2 F3 B3  .\n"
        "makespan 10, bubble 20.0%, microbatches kept by stage 3 1"
    )
    assert str(schedules.grouped(2, 4)) == (
        "Schedule(name='grouped', levels=((0,), (1,)), device_mapping=(0, 1), microbatches=4, weights='same', serial=False)"
    )
    assert "0F0 0F1" in schedules.looped(2, 4).show()
    assert "too long for text" in schedules.sequential(8, 64).show()


@pytest.mark.parametrize(
    ("costs", "label"),
    [
        (SLOTS, "slots"),
        (Costs(), "units of the costs"),
        (Costs(forward=2e5, unit="cycles"), "million cycles"),
        (Costs(forward=700, unit="cycles"), "thousand cycles"),
        (Costs(forward=2e-4, unit="s"), "ms"),
        (Costs(forward=3.0, unit="s"), "s"),
    ],
)
def test_the_axis_of_time_names_its_unit(costs: Costs, label: str, tmp_path: Path) -> None:
    schedules.grouped(2, 4).plot(tmp_path / "a.svg", costs)
    drawing = (tmp_path / "a.svg").read_text()
    assert f">time ({label})</text>" in drawing
    assert "1e" not in "".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawing))
