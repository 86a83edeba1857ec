"""Phases of schedules, and what they take where devices exchange together."""

import pytest

from tilestep.train import schedules
from tilestep.train.schedules.phasing import phases
from tilestep.train.schedules.schedule import Costs, Kind, Schedule, Task, from_table

NAMES = ("sequential", "grouped", "interleaved", "zero_bubble", "stale", "stashed")


def every() -> list[Schedule]:
    made = [schedules.SCHEDULES[name](n, count, strict=False) for name in NAMES for n in (1, 2, 3, 4, 8) for count in (1, 2, 7, 16)]
    made += [schedules.looped(devices, count, strict=False) for devices in (2, 4) for count in (3, 8)]
    made += [schedules.SCHEDULES[name]([1, 2, 1], 12) for name in NAMES]
    made += [schedules.SCHEDULES[name](5, 7, device_mapping=[0, 1, 2, 3, 0], strict=False) for name in NAMES]
    return [*made, schedules.offloading(schedules.grouped(3, 6), [0])]


@pytest.mark.slow
def test_what_a_task_needs_is_of_an_earlier_phase_or_of_its_own_device() -> None:
    for schedule in every():
        found = phases(schedule)
        assert [task for phase in found for task in phase if schedule.device(task) == 0] == list(schedule.tasks[0])
        assert sum(map(len, found)) == sum(map(len, schedule.tasks))
        done: set[Task] = set()
        for phase in found:
            mine: set[Task] = set()
            for task in phase:
                for need in schedule.needs(task):
                    assert need in done or (need in mine and schedule.device(need) == schedule.device(task))
                mine.add(task)
            done |= mine


def test_stages_that_share_a_device_work_in_one_phase() -> None:
    """An embedding and its head on one device, beside three stages of layers that take ten times as long."""
    schedule = schedules.grouped(5, 14, device_mapping=[0, 1, 2, 3, 0], strict=False)
    costs = Costs(forward=[0.1, 1, 1, 1, 0.1], backward=[0.2, 2, 2, 2, 0.2])
    assert len(phases(schedule)) == 14 + 2 * 4 + 1  # the last update
    full = phases(schedule)[9:13]
    assert all(len({task.stage for task in phase if task.kind is Kind.FORWARD}) == 5 for phase in full)
    apart, together = schedule.simulate(costs), schedule.simulate(costs, exchanges="together")
    assert together.makespan <= 1.01 * apart.makespan


@pytest.mark.parametrize("name", ["grouped", "stale", "looped"])
@pytest.mark.parametrize("count", [16, 32])
def test_where_stages_are_alike_full_schedules_lose_nothing(name: str, count: int) -> None:
    """Each phase is one forward and one backward on every device: all of them pass on at the same time."""
    schedule = schedules.SCHEDULES[name](4, count)
    costs = Costs(forward=1, backward=2)
    assert schedule.simulate(costs, exchanges="together").makespan == schedule.simulate(costs).makespan
    # With transfers, all pay for each of them.
    exchanges = len(phases(schedule)) - 2  # none after the last backward, and none after the last update
    transfers = Costs(forward=1, backward=2, transfer=0.125)
    assert schedule.simulate(transfers, exchanges="together").makespan == schedule.simulate(costs).makespan + 0.125 * exchanges


def test_an_exchange_by_hand() -> None:
    """Two stages, two microbatches; element 1, forward 2 and 3, backward 4 and 5, exchanges 0.5."""
    schedule = from_table([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    assert [[str(task) for task in phase] for phase in phases(schedule)] == [
        ["0F0"],
        ["0F1", "1F0", "1B0"],
        ["0B0", "1F1", "1B1"],
        ["0B1"],
    ]
    costs = Costs(forward=[2, 3], backward=[4, 5], element=1, transfer=0.5)
    begin = {str(task): time for task, time in schedule.simulate(costs, exchanges="together").begin.items()}
    assert begin == {
        "0F0": 1,  # when its element has come
        "1F0": 3.5,  # device 0 gets the second element meanwhile
        "0F1": 4.5,
        "1B0": 6.5,
        "0B0": 12,  # both pass on when device 1 is through, at 11.5
        "1F1": 12,
        "1B1": 15,
        "0B1": 20.5,
    }
    assert schedule.simulate(costs, exchanges="together").makespan == 23.5


def test_elements_come_while_others_ask_for_an_exchange() -> None:
    """Accesses to the host are of each device alone: only an exchange that goes on holds them up."""
    schedule = schedules.grouped(2, 4, training=False)
    begin = schedule.simulate(Costs(forward=[1, 4], element=2, transfer=0.5), exchanges="together").begin
    assert begin[Task(0, Kind.FORWARD, 1)] == 3.5 + 2


def test_all_wait_while_one_talks_to_the_host_if_they_are_told_to() -> None:
    schedule = schedules.grouped(2, 4, training=False)
    costs = Costs(forward=[1, 4], element=2, transfer=0.5)
    begin = schedule.simulate(costs, exchanges="together", host="together").begin
    assert begin[Task(0, Kind.FORWARD, 0)] == 2
    assert begin[Task(0, Kind.FORWARD, 1)] == begin[Task(1, Kind.FORWARD, 0)] == 3.5 + 2  # an exchange, then an element
    with pytest.raises(ValueError, match='host is "together", but exchanges is "apart"'):
        schedule.simulate(costs, host="together")


def test_transfers_are_of_stages_and_directions() -> None:
    schedule = schedules.sequential(3, 1)
    costs = Costs(transfer=[0.5, 0.25, 0], gradient_transfer=[1, 2, 0])
    begin = {str(task): time for task, time in schedule.simulate(costs).begin.items()}
    assert (begin["1F0"], begin["2F0"], begin["1B0"], begin["0B0"]) == (1.5, 2.75, 3.75 + 2 + 2, 3.75 + 2 + 2 + 2 + 1)
    with pytest.raises(ValueError, match=r"costs\.gradient_transfer has 2 times, but there are 3 stages"):
        schedule.simulate(Costs(gradient_transfer=[1, 2]), exchanges="together")
