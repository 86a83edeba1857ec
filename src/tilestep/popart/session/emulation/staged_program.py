"""A session of several stages as a pipeline on its own machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
import optax

from tilestep.pjrt.programs.beside import MachineBeside
from tilestep.popart.session.emulation.anchors_advice import Returned
from tilestep.popart.session.emulation.stage_functions import StageFunctions
from tilestep.popart.session.staging import Kind
from tilestep.train import Pipeline
from tilestep.train.pipeline.state import PipelineState
from tilestep.train.schedules import Schedule
from tilestep.train.untyped import jax as _jax


@dataclass(frozen=True, kw_only=True)
class StagedProgram:
    """What a session of several stages runs.

    Attributes:
        stages: functions, and what they have.
        schedule: of one update, or one round of inference. Its devices are `ipus`.
        optimizer: None in inference.
        updates: of a call of the session.
        replicas: copies.
        num_ipus: of one replica.
        ipus: those of a replica that have a stage.
        kind: of the session's stages.
        accumulates: whether an update has several microbatches.
        draws: whether stages draw random numbers.
        arguments: further ones of `Pipeline`.
        forward: the forward part alone, if the session may run that too. It has the same state.
        returned: the anchors of which each microbatch's value leaves.
        is_loaded: whether nothing comes from the host or goes there: inputs are in the tiles, and anchors stay there.
        recomputed: gives the same session with RecomputationType.Pipeline; None where it has that, or may not have it.
    """

    stages: StageFunctions
    schedule: Schedule
    optimizer: optax.GradientTransformation | None
    updates: int
    replicas: int
    num_ipus: int
    ipus: tuple[int, ...]
    kind: Kind
    accumulates: bool
    draws: bool
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    forward: StagedProgram | None = None
    returned: tuple[Returned, ...] = ()
    is_loaded: bool = False
    recomputed: Callable[[], StagedProgram] | None = None

    def pipeline(self, machine: MachineBeside) -> Pipeline:
        """The pipeline on a machine's devices."""
        devices = [machine.devices[replica * self.num_ipus + ipu] for replica in range(self.replicas) for ipu in self.ipus]
        return Pipeline(
            list(self.stages.functions),
            self.optimizer,
            self.schedule.microbatches,
            pipeline_schedule=self.schedule,
            devices=devices,
            device_mapping=self.schedule.device_mapping,
            replicas=self.replicas,
            program="stages",
            strict=False,
            watch=self.stages.watch or None,
            outfeed_mask=(True,) if self.optimizer is not None else None,  # the loss leaves if it is watched
            **self.arguments,
        )

    def first_state(self, pipeline: Pipeline) -> PipelineState:
        """The state when the session's weights have been sent."""
        aux = [dict(_zeros(specs)) if specs else None for specs in self.stages.aux]
        return pipeline.init([_zeros(specs) for specs in self.stages.params], aux if any(aux) else None)

    def run(self, pipeline: Pipeline, state: PipelineState) -> tuple[PipelineState, Sequence[Any]]:
        """One call of the session. Returns: the new state, and all arrays that leave the devices. Args: state: of any of its programs."""
        results: list[Any] = []
        now = state if self.optimizer is not None else replace(state, optimizer_state=None)
        for _ in range(self.updates):
            now, outputs = self.step(pipeline, now)
            results += outputs
        return (now if self.optimizer is not None else replace(now, optimizer_state=state.optimizer_state)), results

    def step(self, pipeline: Pipeline, state: PipelineState) -> tuple[PipelineState, Sequence[Any]]:
        """One update, or one round. Returns: the new state, and all arrays that leave the devices."""
        leading = (self.schedule.microbatches, self.replicas) if self.replicas > 1 else (self.schedule.microbatches,)
        microbatches = tuple(np.zeros((*leading, *spec.shape), spec.dtype) for spec in self.stages.elements)
        key = _jax.random.key(0) if self.draws else None
        state, outputs = pipeline.step(state, microbatches, key=key)
        return state, _jax.tree.leaves(outputs)


def _zeros(specs: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
