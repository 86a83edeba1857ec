"""Schedules whose stages have their parameters in another memory: when these are loaded, kept and stored."""

from dataclasses import replace

import pytest

from tilestep.train import schedules
from tilestep.train.schedules import Costs, Kind, Schedule, Task, from_table, loading_parameters, phases
from tilestep.train.schedules.loading import lasts
from tilestep.train.schedules.phasing import updates_last

MOVES = (Kind.LOAD_PARAMETERS, Kind.STORE_PARAMETERS)


def every() -> list[Schedule]:
    made: list[Schedule] = []
    for name in ("sequential", "grouped", "interleaved", "zero_bubble"):
        for stages, devices in ((1, 1), (3, 1), (4, 2), (6, 2), (6, 3), (4, 4), (7, 2)):
            for count in (1, 2, 5):
                mapping = [stage % devices for stage in range(stages)]
                made.append(schedules.SCHEDULES[name](stages, count, device_mapping=mapping, strict=False))
    made += [schedules.sequential(6, 2, training=False, device_mapping=[0, 1] * 3)]
    made += [schedules.looped(devices, 4, rounds=rounds) for devices in (2, 4) for rounds in (2, 3)]
    made += [schedules.grouped([1, 2, 1], 12, device_mapping=[0, 1, 0, 1]), schedules.grouped(5, 10, device_mapping=[0, 1, 2, 3, 0])]
    return made


def residents(schedule: Schedule, tasks: tuple[Task, ...]) -> dict[int, int]:
    """For each device the most stages whose parameters are there at once, if they go after the last task that needs them."""
    freed = lasts(tasks)
    there: set[int] = set()
    most: dict[int, int] = {}
    for task in tasks:
        if task.kind is Kind.LOAD_PARAMETERS:
            assert task.stage not in there, f"{task} loads what is there"
            there.add(task.stage)
            device = schedule.device(task)
            most[device] = max(most.get(device, 0), sum(schedule.device_mapping[stage] == device for stage in there))
        assert task.stage in there, f"{task} is without parameters"
        if task in freed:
            there.discard(task.stage)
    assert not there
    return most


@pytest.mark.slow
def test_a_device_has_the_parameters_of_two_stages_at_most_and_always_those_that_it_needs() -> None:
    for plain in every():
        schedule = loading_parameters(plain)
        for order in (schedule.ordered(), tuple(task for phase in phases(schedule) for task in phase)):
            most = residents(schedule, order)
            assert set(most) == set(plain.device_mapping)
            assert max(most.values()) <= 2
        late = tuple(task for phase in updates_last(phases(schedule)) for task in phase)
        residents(schedule, late)
        assert all(task.kind in (Kind.UPDATE, *MOVES) for task in late[len(late) - sum(t.kind is Kind.UPDATE for t in late) :])


def test_nothing_but_the_place_of_updates_changes() -> None:
    for plain in every():
        schedule = loading_parameters(plain)
        for device, row in enumerate(schedule.tasks):
            kept = [task for task in row if task.kind not in (*MOVES, Kind.UPDATE)]
            assert kept == [task for task in plain.tasks[device] if task.kind is not Kind.UPDATE]
            assert sorted(task for task in row if task.kind is Kind.UPDATE) == sorted(
                t for t in plain.tasks[device] if t.kind is Kind.UPDATE
            )
            stores = [row[place - 1].kind for place, task in enumerate(row) if task.kind is Kind.STORE_PARAMETERS]
            assert stores == [Kind.UPDATE] * sum(task.kind is Kind.UPDATE for task in row)
        assert schedule.stash() == plain.stash()
        again = from_table(
            schedule.table(), device_mapping=schedule.device_mapping, levels=schedule.levels, name=schedule.name, serial=schedule.serial
        )
        assert again == schedule


def test_ping_pong_loads_what_comes_next_while_the_other_device_computes() -> None:
    """In the middle stage 2 comes again so soon that it stays on its device."""
    schedule = loading_parameters(schedules.sequential(6, 1, device_mapping=[0, 1] * 3))
    assert schedule.table() == [
        ["0P0", "0F0", "2P0", "2F0", "4P0", "4F0", "4B0", "4U", "4Q0", "2B0", "2U", "2Q0", "0P1", "0B0", "0U", "0Q0"],
        ["1P0", "1F0", "3P0", "3F0", "5P0", "5F0", "5B0", "5U", "5Q0", "3B0", "3U", "3Q0", "1P1", "1B0", "1U", "1Q0"],
    ]
    assert [" ".join(map(str, phase)) for phase in phases(schedule)] == [
        "0P0 0F0 1P0",
        "2P0 1F0",
        "2F0 3P0",
        "4P0 3F0",
        "4F0 5P0",
        "5F0 5B0",
        "4B0 5U 5Q0",
        "4U 4Q0 3B0",
        "2B0 3U 3Q0 1P1",
        "2U 2Q0 0P1 1B0",
        "0B0 1U 1Q0",
        "0U 0Q0",
    ]


def test_one_device_loads_a_stage_ahead() -> None:
    schedule = loading_parameters(schedules.sequential(4, 1, training=False, device_mapping=[0] * 4))
    assert schedule.table() == [["0P0", "1P0", "0F0", "2P0", "1F0", "3P0", "2F0", "3F0"]]


def test_stages_that_take_turns_stay() -> None:
    schedule = loading_parameters(schedules.grouped(2, 4, device_mapping=[0, 0]))
    assert [str(task) for task in schedule.tasks[0] if task.kind in MOVES] == ["0P0", "1P0", "1Q0", "0Q0"]


@pytest.mark.parametrize("stages", [2, 4, 6, 8])
@pytest.mark.parametrize(("forward", "load", "transfer"), [(10, 10, 1), (10, 4, 0), (10, 25, 3)])
def test_loads_hide_behind_compute_unless_all_wait_for_them(stages: int, forward: int, load: int, transfer: int) -> None:
    schedule = loading_parameters(schedules.sequential(stages, 1, training=False, device_mapping=[0, 1] * (stages // 2)))
    costs = Costs(forward=forward, load_parameters=load, transfer=transfer)
    apart, together = (schedule.simulate(costs, exchanges="together", host=host).makespan for host in ("apart", "together"))
    passes, later = (stages - 1) * transfer, stages - 2
    assert apart == load + forward + passes + later * max(forward, load) + forward
    assert together == load + load + stages * forward + passes + later * load  # both devices' first loads come one after the other


def test_what_cannot_be_is_refused() -> None:
    grouped = schedules.grouped(2, 4)
    with pytest.raises(ValueError, match="the stale schedule updates weights within a run"):
        loading_parameters(schedules.stale(2, 4))
    with pytest.raises(ValueError, match="loads parameters already"):
        loading_parameters(loading_parameters(grouped))
    with pytest.raises(ValueError, match=r"stages\[0\] is 2"):
        loading_parameters(grouped, [2])
    assert loading_parameters(grouped, [1]).loads_parameters == {1}
    for row, message in (
        ("0F0 0P0 0B0 0U 0Q0", "task 0F0 is before the first load of its parameters, 0P0"),
        ("0P1 0F0 0B0 0U 0Q0", "there is task 0P1 where 0P0 is next"),
        ("0P0 0F0 0Q0 0B0 0U 0Q1", "task 0Q0 has nothing of an update of stage 0"),
        ("0P0 0F0 0B0 0U 0P1", "task 0P1 would lose an update of stage 0"),
        ("0P0 0F0 0B0 0U", "the update of stage 0 is not stored: 0Q0 is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            from_table([row.split()])
    with pytest.raises(ValueError, match="weights 'stale' change within a run"):
        replace(schedules.stale(1, 1), tasks=(tuple(map(Task.parse, ["0P0", "0F0", "0B0", "0U0", "0Q0"])),))
