"""Schedules where devices pass on together: in phases, at whose ends all that has been made goes where it is needed.

On IPUs an exchange between two of them makes all wait: none computes while others pass on. So it matters which tasks lie between two
exchanges. A host that starts the tasks phase by phase, and copies after each phase, says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilestep.train.schedule import SLOTS, Costs, Kind, Schedule, Task

Phases = tuple[tuple[Task, ...], ...]


def phases(schedule: Schedule) -> Phases:
    """All tasks, in an order that agrees with every device's, in phases.

    What a task needs has been done in an earlier phase, or before it in its own on its own device. Of two ways to cut it is the one that
    takes less time if backward takes twice as long as forward and each phase as long as its busiest device: a task of each device,
    or one forward and one backward. The latter keeps all devices busy alike wherever the schedule is full.
    """
    return min((_by_slots(schedule), _in_pairs(schedule)), key=lambda found: _length(schedule, found))


def _by_slots(schedule: Schedule) -> Phases:
    begin = schedule.simulate(SLOTS).begin
    found: dict[float, list[Task]] = {}
    for task in schedule.ordered():
        found.setdefault(begin[task], []).append(task)
    return tuple(tuple(found[slot]) for slot in sorted(found))


def _in_pairs(schedule: Schedule) -> Phases:
    position = [0] * len(schedule.tasks)
    done: set[Task] = set()
    found: list[tuple[Task, ...]] = []
    while any(place < len(own) for place, own in zip(position, schedule.tasks, strict=True)):
        now: list[Task] = []
        for device in range(len(position)):
            mine = list(_pair(schedule, device, position[device], done))
            position[device] += len(mine)
            now += mine
        done.update(now)
        found.append(tuple(now))
    return tuple(found)


def _pair(schedule: Schedule, device: int, position: int, done: set[Task]) -> Iterator[Task]:
    """A device's next tasks, up to one forward and one backward."""
    mine: set[Task] = set()
    passes: set[bool] = set()
    for task in schedule.tasks[device][position:]:
        forward = task.kind is Kind.FORWARD
        if forward or task.kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT):
            if forward in passes:
                return
            passes.add(forward)
        if not all(need in done or need in mine for need in schedule.needs(task)):
            return
        mine.add(task)
        yield task


def _length(schedule: Schedule, found: Phases) -> float:
    costs, total = Costs(), 0.0
    for phase in found:
        busy = [0.0] * len(schedule.tasks)
        for task in phase:
            busy[schedule.device(task)] += costs.of(task.kind, task.stage)
        total += max(busy)
    return total
