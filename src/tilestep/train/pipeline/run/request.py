"""The description of one run of a schedule, and the ways in which it copies arrays."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

import jax

from tilestep.train.jax_private.device_put import copied, whole_copied
from tilestep.train.pipeline.compile.programs import CompiledPipeline
from tilestep.train.pipeline.compile.tracing import Element
from tilestep.train.pipeline.run.processes import Processes
from tilestep.train.pipeline.run.state import Ready, RunState
from tilestep.train.pipeline.run.watch import Watch
from tilestep.train.processes.remote import Put
from tilestep.train.schedules.loading import lasts
from tilestep.train.schedules.phasing import Phases
from tilestep.train.schedules.schedule import Schedule, Task
from tilestep.train.schedules.tasks import OF_PARAMETERS
from tilestep.train.simulated import put_shards


class PreparedTask(NamedTuple):
    """A task, with all that a run would find out about it again each time.

    Attributes:
        task: what is done.
        told: what `tilestep.hints.pipeline_task` is told of it.
        frees: whether its stage's loaded parameters are not needed for a while after it.
    """

    task: Task
    told: tuple[int, str, int]
    frees: bool


@final
@dataclass(frozen=True, kw_only=True)
class PreparedOrder:
    """The order in which the host starts tasks."""

    phases: tuple[tuple[PreparedTask, ...], ...]  # phases of tasks. Copies between devices start at the end of each phase.
    early: tuple[int, ...]  # for each phase how many elements are taken by its end, so that they travel with its copies

    @classmethod
    def of(cls, schedule: Schedule, phases: Phases) -> PreparedOrder:
        """Each phase takes the elements that the next one's tasks need."""
        first = schedule.levels[0]
        needs = [
            max(
                (number + 1 for stage, kind, number in phase if stage in first and number is not None and kind not in OF_PARAMETERS),
                default=0,
            )
            for phase in phases
        ]
        frees = lasts([task for phase in phases for task in phase])
        return cls(
            phases=tuple(tuple(PreparedTask(task, _hint_of(task), task in frees) for task in phase) for phase in phases),
            early=(*needs[1:], 0),
        )

    def without_early_elements(self) -> PreparedOrder:
        """The same order, for elements that may have to be waited for."""
        return replace(self, early=(0,) * len(self.phases))


def _hint_of(task: Task) -> tuple[int, str, int]:
    """The arguments of `pipeline_task`."""
    stage, kind, number = task
    return stage, kind.meaning, -1 if number is None or kind in OF_PARAMETERS else number


class Transport(NamedTuple):
    """The ways in which a run copies arrays."""

    put: Put  # the result may be the same array
    put_copies: Put  # the result is always a new array, because the value may be donated
    put_joint: Put  # as `put`, for the parts of a joint update
    put_moves: Put  # as `put`, for values between stages

    @classmethod
    def of(cls, processes: Processes | None, *, direct: bool) -> Transport:
        """Args: direct: whether all values between stages are whole on one device."""
        if processes is not None:
            return cls(processes.put, processes.put_copies, processes.put_copies, processes.put)
        return cls(copied, _put_copies, put_shards, whole_copied if direct else copied)


_put_copies: Final = functools.partial(put_shards, may_alias=False)


@final
@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One run of a schedule: one update, or in inference one round."""

    schedule: Schedule
    order: PreparedOrder  # order of its tasks
    compiled: CompiledPipeline  # its programs
    state: RunState  # at the beginning. Updates donate its arrays.
    first: Element  # first, elements: the first element, and an iterator over the others
    elements: Iterator[Element]
    key: jax.Array | None  # the random key of the run, or None
    watch: Watch  # looks at results before an update uses them
    ready: Sequence[Ready | None]  # for each stage what the run before has prepared. Its accumulators are donated.
    transport: Transport  # how it copies arrays
