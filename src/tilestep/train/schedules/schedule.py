"""Holds a pipeline's schedule as data: which device does which task after which.

A schedule says in what order each device does its tasks, and has no times. When a task begins follows from that order, from the tasks that
it needs, and from how long tasks take. `standard.py` makes the usual ones.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

from tilestep.messages import shortened, shown
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import items_of, require_kind, require_one_of
from tilestep.train.schedules import pictures
from tilestep.train.schedules.checks import HOW_LEVELS, WAYS, checked_costs
from tilestep.train.schedules.phasing import simulated_together
from tilestep.train.schedules.task_order import TaskOrder
from tilestep.train.schedules.tasks import OF_PARAMETERS, ONE_EACH
from tilestep.train.schedules.tasks import SLOTS as SLOTS
from tilestep.train.schedules.tasks import Costs as Costs
from tilestep.train.schedules.tasks import Kind as Kind
from tilestep.train.schedules.tasks import Task as Task
from tilestep.train.schedules.tasks import Timeline as Timeline
from tilestep.train.schedules.tasks import Weights as Weights

_WIDEST: Final = 10_000  # columns of a text
_HOW_ROWS: Final = 'a list with a row of tasks for each device, such as [["0F0", "0B0", "0U"]]; csv.reader gives those of a file'
_HOW_MAPPING: Final = "a list with a device's index for each stage, such as [0, 1, 2]"


@final
@dataclass(frozen=True, kw_only=True)
class Schedule(TaskOrder):
    """The order of tasks on each device.

    Attributes:
        name: for messages and pictures.
        levels: for each level its stages, in the order in which data passes through levels. Stages of one level are concurrent: each of
            them gets all outputs of the level before. Stages are numbered from 0 on, level by level.
        device_mapping: for each stage the number of its device, from 0 on.
        microbatches: the number of microbatches in a run.
        tasks: for each device its tasks, in order.
        weights: the version that backward computes with. "same": weights do not change within a run. "stale": the newest one. "stashed":
            the one that forward had.
        serial: whether a microbatch begins only when the one before has passed through all stages.

    Raises:
        ValueError: if a task is missing, is there twice or is on another device than its stage; if the order can never be followed; for
            levels, devices or weights that are impossible.
    """

    # ------------------------------------------------------------------------------------------------------ in time

    def simulate(
        self,
        costs: Costs = ONE_EACH,
        *,
        exchanges: Literal["apart", "together"] = "apart",
        host: Literal["apart", "together"] = "apart",
    ) -> Timeline:
        """When each task happens if every device begins its next one as soon as it can.

        Args:
            costs: how long tasks and transfers take, in one unit.
            exchanges: "apart": a task's results go to another device when the task is over, and no other device waits. "together": they
                go at the end of the task's phase, when no device is within a task, and all devices wait for it, as IPUs do
                (docs/reference/schedules.md).
            host: the same for transfers between a device and the host. "together" is the sync pattern `full`, and needs such exchanges.

        Returns:
            The times of all tasks, in the unit of `costs`.

        Raises:
            TypeError: for costs that are no Costs, or a time that is no number.
            ValueError: if only `host` is "together", a cost has another number of stages, or a time is below 0 or not finite.
        """
        require_one_of("exchanges", exchanges, WAYS)
        require_one_of("host", host, WAYS)
        costs = checked_costs(costs, self.stages)
        if exchanges == "together":
            return simulated_together(self, costs, host=host)
        if host == "together":
            raise ValueError(
                'host is "together", but exchanges is "apart": devices that wait for each other\'s host do so for exchanges, too'
            )
        return self.with_free_links(costs)

    # ---------------------------------------------------------------------------------------------------------- tables

    def table(self) -> list[list[str]]:
        """A row for each device, with its tasks as text."""
        return [[str(task) for task in tasks] for tasks in self.tasks]

    def show(self, costs: Costs = SLOTS, *, timeline: Timeline | None = None, width: int = 120) -> str:
        """The schedule as text: a row for each device, time to the right, in units of the shortest task.

        Stages are left out where a device has only one.

        Args:
            costs: how long tasks take.
            timeline: times of tasks, which are drawn to scale instead of `simulate(costs)`.
            width: the number of columns for a timeline.

        Returns:
            Lines of text.

        Raises:
            ValueError: as `simulate`.
        """
        self._require_own(timeline)
        width = whole_number("width", width, least=1, most=_WIDEST)
        return pictures.as_text(self, self.simulate(costs)) if timeline is None else pictures.to_scale(self, timeline, width)

    def plot(self, path: str | Path, costs: Costs = SLOTS, *, timeline: Timeline | None = None) -> None:
        """Draws the schedule to a file: a row for each device, time to the right in the unit of `costs` or of the timeline.

        Args:
            path: of the file. Its suffix says the form: .svg, .png or .pdf.
            costs: how long tasks take.
            timeline: times of tasks, which are drawn instead of `simulate(costs)`.

        Raises:
            ImportError: if Matplotlib is not installed (`pip install 'tilestep[plots]'`).
            ValueError: for a suffix that Matplotlib does not know, and as `simulate`.
        """
        self._require_own(timeline)
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path is {shown(path)}: it must be a file's path, such as 'schedule.svg'")
        pictures.plot(self, path, self.simulate(costs) if timeline is None else timeline)

    def _require_own(self, timeline: Any) -> None:
        """Raises: TypeError for what is no timeline, ValueError for that of another schedule."""
        if timeline is None:
            return
        require_kind("timeline", timeline, Timeline, "a Timeline, such as schedule.simulate()")
        missing = next((task for task in self._ordered if task not in timeline.begin or task not in timeline.end), None)
        if missing is not None:
            raise ValueError(f"timeline has no time of task {missing}: it must be of the schedule {self.name}")


def from_table(
    rows: Iterable[Iterable[str]],
    *,
    device_mapping: Sequence[int] | None = None,
    levels: Sequence[Sequence[int]] | None = None,
    name: str = "table",
    weights: Weights = "same",
    serial: bool = False,
) -> Schedule:
    """A schedule of one's own: a row of tasks for each device, such as ["0F0", "0F1", "0B0", "0B1", "0U"]; empty cells are left out.

    Args:
        rows: for each device its tasks as text.
        device_mapping: for each stage the number of its device; None: the row of each stage.
        levels: the stages of each level, such as [[0], [1, 2], [3]], where 1 and 2 are concurrent; None: one stage each.
        name: for messages and pictures.
        weights: as `Schedule` has it.
        serial: as `Schedule` has it.

    Returns:
        The schedule.

    Raises:
        TypeError: for rows that are no lists.
        ValueError: for text that is no task, and as `Schedule` does.
    """
    tasks = tuple(_parsed(device, row) for device, row in enumerate(items_of("rows", rows, _HOW_ROWS)))
    if not any(tasks):
        raise ValueError("rows is empty, so the table has no tasks: it must have a row for each device, such as 0F0, 0B0, 0U")
    return _of_tasks(tasks, device_mapping=device_mapping, levels=levels, name=name, weights=weights, serial=serial)


def _parsed(device: int, row: Iterable[str]) -> tuple[Task, ...]:
    must = 'a list of tasks, such as ["0F0", "0B0"]'
    try:
        return tuple(Task.parse(cell) for cell in items_of(f"row {device}", row, must) if not isinstance(cell, str) or cell.strip())
    except (TypeError, ValueError) as error:
        raise type(error)(f"{'' if str(error).startswith('row ') else f'row {device}: '}{error}") from None


def _of_tasks(
    tasks: tuple[tuple[Task, ...], ...],
    *,
    device_mapping: Sequence[int] | None,
    levels: Sequence[Sequence[int]] | None,
    name: str,
    weights: Weights = "same",
    serial: bool = False,
) -> Schedule:
    where = {task.stage: device for device, row in enumerate(tasks) for task in row}
    if not where:
        raise ValueError("the table has no tasks: it must have a row for each device, such as 0F0, 0B0, 0U")
    if device_mapping is None:
        if max(where) >= len(where):
            raise ValueError(
                f"the table has the stages {shortened(str(sorted(where)))}: they must be numbered from 0 on without gaps, and stage "
                f"{next(stage for stage in range(len(where)) if stage not in where)} is missing"
            )
        device_mapping = [where[stage] for stage in range(len(where))]
    device_mapping = items_of("device_mapping", device_mapping, _HOW_MAPPING)
    levels = None if levels is None else list(items_of("levels", levels, f"a list of lists of stages; {HOW_LEVELS}"))
    if levels is not None and any(not isinstance(stages, Sequence) or isinstance(stages, str) for stages in levels):
        raise TypeError(f"levels is {shown(levels)}: it must be a list of lists of stages; {HOW_LEVELS}")
    return Schedule(
        name=name,
        levels=tuple((stage,) for stage in range(len(device_mapping))) if levels is None else tuple(map(tuple, levels)),
        device_mapping=tuple(device_mapping),
        microbatches=1
        + max((number for row in tasks for _, kind, number in row if number is not None and kind not in OF_PARAMETERS), default=0),
        tasks=tasks,
        weights=weights,
        serial=serial,
    )
