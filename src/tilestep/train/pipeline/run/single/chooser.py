"""Chooses how a pipeline's updates run: a program for each task, or one program for the whole update."""

import math
from collections.abc import Sequence
from typing import Final, Literal, final, get_args

from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.schedules.schedule import Kind

Which = Literal["auto", "stages", "single"]
PROGRAMS: Final = get_args(Which)

_MEASURED: Final = 3  # runs of each way
_HOST_BOUND_SHARE: Final = 0.5  # share of a run in which the host starts tasks, from which on one program may be faster


def why_not_single(spec: PipelineSpec, *, check_nans: bool, several_processes: bool) -> str | None:
    """Why a pipeline cannot be one program; None if it can."""
    placements: Sequence[StagePlacement] = [function.placement for function in spec.functions]
    if several_processes:
        return "its stages are in several processes"
    if any(len(placement.devices) > 1 for placement in placements):
        return "it has replicas, or a stage on several devices"
    if spec.schedule.weights != "same":
        return f"the {spec.schedule.name} schedule's weights change within a run"
    moves = bool(spec.schedule.loads_parameters) or any(task.kind in (Kind.STORE, Kind.LOAD) for task in spec.schedule.ordered())
    if moves or (spec.optimizer is not None and spec.optimizer.offload not in (None, False)):
        return "something of it is in the host's memory"
    return "check_nans looks at each stage" if check_nans else None


@final
class Chooser:
    """Chooses how the next run is done, by the time that runs before have taken.

    It measures three runs by stages, after a first one that does not count. If the host was starting tasks for half of one of them or
    longer, it measures as many runs by one program. The way of the fastest run stays. One run of each would not do, because something
    else may hold it up.

    Args:
        which: the author's choice.
        possible: whether one program can do it.
        alone: whether there is one device only.
        measured: whether wall time means anything on that platform.
    """

    def __init__(self, which: Which, *, possible: bool, alone: bool, measured: bool) -> None:
        self._decision: Literal["stages", "single"] | None = None
        if which == "single" or (which == "auto" and possible and alone and measured):
            self._decision = "single"
        elif which == "stages" or not possible or not measured:
            self._decision = "stages"
        self._runs = 0
        self._is_host_bound = False
        self._by_stages_s = self._by_single_s = math.inf

    def stop_measuring(self) -> None:
        """Decides for the stages, if nothing is decided."""
        if self._decision is None:
            self._decision = "stages"

    @property
    def now(self) -> Literal["stages", "single"]:
        """How the next run is done."""
        if self._decision is not None:
            return self._decision
        return "stages" if self._runs <= _MEASURED else "single"

    @property
    def measures(self) -> bool:
        """Whether the next run is measured: from an idle machine to its end."""
        return self._decision is None and self._runs % (1 + _MEASURED) > 0

    def took(self, host_wall_s: float, wall_s: float) -> None:
        """A run is over. Args: host_wall_s: seconds in which the host started tasks. wall_s: seconds in all."""
        if self._decision is not None:
            return
        is_measured, by_stages = self.measures, self.now == "stages"
        self._runs += 1
        if not is_measured:
            return
        if by_stages:
            self._by_stages_s = min(self._by_stages_s, wall_s)
            self._is_host_bound |= host_wall_s >= _HOST_BOUND_SHARE * wall_s
            if self._runs == 1 + _MEASURED and not self._is_host_bound:
                self._decision = "stages"
            return
        self._by_single_s = min(self._by_single_s, wall_s)
        if self._runs == 2 * (1 + _MEASURED):
            self._decision = "single" if self._by_single_s < self._by_stages_s else "stages"
