"""What an emulated session runs: a pipeline on its own machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
import optax

from tilestep.pjrt.programs.other_machines import MachineBeside
from tilestep.popart.session.emulation.advice_words import Returned
from tilestep.popart.session.emulation.stage_functions import StageFunctions
from tilestep.popart.session.staging import Kind
from tilestep.train import Pipeline
from tilestep.train.pipeline.state import PipelineState
from tilestep.train.schedules import Schedule
from tilestep.train.untyped import jax as _jax


@dataclass(frozen=True, kw_only=True)
class EmulatedProgram:
    """What a session runs. A session without stages has one.

    Attributes:
        stages: functions, and what they have.
        schedule: of one run of the pipeline: an update, or a round of inference. Its devices are `ipus`.
        optimizer: None in inference.
        runs: of the pipeline, in a call of the session.
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
    runs: int
    replicas: int
    num_ipus: int
    ipus: tuple[int, ...]
    kind: Kind
    accumulates: bool
    draws: bool
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    forward: EmulatedProgram | None = None
    returned: tuple[Returned, ...] = ()
    is_loaded: bool = False
    recomputed: Callable[[], EmulatedProgram] | None = None

    @property
    def is_single(self) -> bool:
        """Whether a run is one program: where nothing is accumulated, no gradient is added to zeros."""
        one = self.kind == "one" and self.schedule.microbatches == 1 and self.replicas == 1
        return one and self.arguments["offload_optimizer_state"] is False and not self.arguments.get("offload_activations")

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
            program="single" if self.is_single else "stages",
            strict=False,
            watch=self.stages.watch or None,
            outfeed_mask=(True,) if self.optimizer is not None else None,  # the loss leaves if it is watched
            **self.arguments,
        )

    def first_state(self, pipeline: Pipeline) -> PipelineState:
        """The state when the session's weights have been sent."""
        aux = [dict(_zeros(specs)) if specs else None for specs in self.stages.aux]
        return pipeline.init([_zeros(specs) for specs in self.stages.params], aux if any(aux) else None)

    def step(self, pipeline: Pipeline, state: PipelineState) -> tuple[PipelineState, dict[Any, Any]]:
        """One run of the pipeline.

        Args: state: of any of its programs.
        Returns: (the new state, what may leave the devices, by the keys of `stages.watch`; under "" what leaves in any case).
        """
        leading = (self.schedule.microbatches, self.replicas) if self.replicas > 1 else (self.schedule.microbatches,)
        microbatches = tuple(np.broadcast_to(np.zeros((), spec.dtype), (*leading, *spec.shape)) for spec in self.stages.elements)
        key = _jax.random.key(0) if self.draws else None
        trains = self.optimizer is not None
        new, found = pipeline.step(state if trains else replace(state, optimizer_state=None), microbatches, key=key)
        leaving = {**found.values, "": found.outputs} if self.stages.watch else {"": found}
        return (new if trains else replace(new, optimizer_state=state.optimizer_state)), leaving

    def rows(self, key: Any, run: int) -> range:
        """The microbatches of a run of which what is watched leaves the devices. Args: run: its number in a call, from 0."""
        each = self.schedule.microbatches
        if self.stages.watch.get(key, "all") != "all":
            return range(each) if run + 1 == self.runs else range(0)
        period = self.stages.periods.get(key, 1)
        return range(-(run * each + 1) % period, each, period)


def _zeros(specs: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
