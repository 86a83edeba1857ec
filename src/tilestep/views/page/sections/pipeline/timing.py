"""When tasks would happen if each device began its next one as soon as it could, and what each stage keeps meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilestep.views.page.sections.pipeline.tasks import DoneTask


@dataclass(frozen=True, kw_only=True)
class Times:
    """Times of tasks in one unit.

    Attributes:
        begin: of each task.
        end: of each task.
        busy: for each device, in the order in which they first do something, how long it does something.
    """

    begin: tuple[float, ...]
    end: tuple[float, ...]
    busy: tuple[float, ...]

    @property
    def whole(self) -> float:
        """From the first begin to the last end."""
        return max(self.end, default=0.0) - min(self.begin, default=0.0)

    @property
    def bubble(self) -> float:
        """The part of all devices' time in which they wait."""
        time = self.whole * len(self.busy)
        return 1 - sum(self.busy) / time if time else 0.0


def simulated(tasks: Sequence[DoneTask], needs: Sequence[Sequence[int]], costs: Sequence[float]) -> Times:
    """The times of tasks that devices begin in the order of dispatch, each when its device is free and its needs have ended.

    Transfers take no time. A schedule that takes one microbatch after the other waits for the microbatch before.
    """
    free: dict[tuple[int, ...], float] = {}
    busy: dict[tuple[int, ...], float] = {}
    begin: list[float] = []
    end: list[float] = []
    one_by_one = is_serial(tasks)
    passed, latest, current = 0.0, 0.0, -1
    for task, own, cost in zip(tasks, needs, costs, strict=True):
        start = max([free.get(task.ipus, 0.0), *(end[need] for need in own)])
        if one_by_one and task.microbatch >= 0:
            if task.microbatch != current:
                passed, current = latest, task.microbatch
            start = max(start, passed)
        begin.append(start)
        end.append(start + cost)
        latest = max(latest, start + cost)
        free[task.ipus] = start + cost
        busy[task.ipus] = busy.get(task.ipus, 0.0) + cost
    return Times(begin=tuple(begin), end=tuple(end), busy=tuple(busy.values()))


def is_serial(tasks: Sequence[DoneTask]) -> bool:
    """Whether each microbatch has passed all stages before the next one begins, in the order of dispatch."""
    numbers = [task.microbatch for task in tasks if task.letter in ("F", "B", "I", "W")]
    if len(set(numbers)) < 2 or len({task.ipus for task in tasks}) < 2:
        return False
    return all(a <= b for a, b in pairwise(numbers))


def slots(task: DoneTask, update: float) -> float:
    """The slots of a task in a picture of a schedule. Args: update: slots of an update."""
    return update if task.letter == "U" else 2.0 if task.both else 1.0


def stash(tasks: Sequence[DoneTask], stage: int) -> list[int]:
    """How many microbatches a stage keeps, after each change of that.

    Forward and a load keep one more, backward and a store one less; of backward in two parts the weights' part.
    """
    own = [task for task in tasks if task.stage == stage]
    frees = "B" if any(task.letter == "B" for task in own) else "W"
    counts = [0]
    for task in own:
        if task.both:  # it keeps its microbatch while it runs
            counts += [counts[-1] + 1, counts[-1]]
        elif task.letter in ("F", "L"):
            counts.append(counts[-1] + 1)
        elif task.letter in (frees, "S"):
            counts.append(counts[-1] - 1)
    return counts
