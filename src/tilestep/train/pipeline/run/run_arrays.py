"""The arrays that stages hold during a run, each of which a task may replace."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import final

import jax

from tilestep.train.offload import on_device, placed_like
from tilestep.train.pipeline.compile.programs import CompiledPipeline
from tilestep.train.pipeline.run.request import RunRequest
from tilestep.train.pipeline.run.state import Ready, RunState, StageState
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


@final
@dataclass(kw_only=True)
class RunArrays:
    """The arrays of all stages during one run. Each attribute but `joint` has an entry for each stage."""

    params: list[list[jax.Array]]  # leaves of the parameters, in the memory in which they stay between runs
    # the same on the device while a task has loaded them; None while they are not, and where all stay there
    loaded: list[list[jax.Array] | None]
    changed: set[int]  # stages whose loaded parameters are newer
    packed: list[list[jax.Array] | None]  # the parameters as programs take them; None if that is each leaf by itself. Empty in inference.
    accumulators: list[list[jax.Array]]  # sums of gradients. Empty in inference.
    aux: list[list[jax.Array]]  # leaves of the auxiliary state
    optimizer_states: list[Pytree]  # the optimiser's states
    joint: Pytree  # the optimiser's state if it looks across stages
    ready: list[Ready | None]  # prepared by an update for the next run

    @classmethod
    def at_start(cls, request: RunRequest) -> RunArrays:
        """The arrays with which a run begins."""
        compiled, state = request.compiled, request.state
        params = [_jax.tree.leaves(own.params) for own in state.stages]
        optimizer_states = [own.optimizer_state for own in state.stages]
        if compiled.updates and request.schedule.weights != "same":  # an update early in the run donates them, and the run may fail later
            for number, stage in enumerate(compiled.traced.stages):
                if stage.placement.is_local:
                    params[number], optimizer_states[number] = _copied((params[number], optimizer_states[number]))
        arrays = cls(
            params=params,
            loaded=[None] * len(params),
            changed=set(),
            packed=[],
            accumulators=[],
            aux=[_jax.tree.leaves(own.aux) for own in state.stages],
            optimizer_states=optimizer_states,
            joint=state.joint,
            ready=[None] * len(params),
        )
        if compiled.updates:
            for stage, ready in enumerate(request.ready):
                packed, zeros = arrays._stage_start(compiled, stage, ready)
                arrays.packed.append(packed)
                arrays.accumulators.append(zeros)
        return arrays

    def _stage_start(self, compiled: CompiledPipeline, stage: int, ready: Ready | None) -> tuple[list[jax.Array] | None, list[jax.Array]]:
        """(parameters as the stage's programs take them; None if that is each leaf by itself, accumulators of zeros)."""
        program, params = compiled.starts[stage], self.params[stage]
        if program is None:
            return None, compiled.updates[stage].zeros()
        packing = compiled.packings[stage].params
        if ready is not None and all(map(operator.is_, ready.leaves, self.packed_leaves(compiled, stage))):
            packs, zeros = ready.packs, ready.accumulators
        else:
            packs, zeros = program([[params[index] for index in pack] for pack in packing.packs])
        return [*(params[index] for index in packing.alone), *packs], zeros

    def packed_leaves(self, compiled: CompiledPipeline, stage: int) -> list[jax.Array]:
        """The leaves of a stage's parameters that are packed."""
        params = self.params[stage]
        return [params[index] for pack in compiled.packings[stage].params.packs for index in pack]

    def current(self, stage: int) -> list[jax.Array]:
        """The leaves of a stage's parameters with which programs compute."""
        loaded = self.loaded[stage]
        return self.params[stage] if loaded is None else loaded

    def newest(self, stage: int) -> list[jax.Array]:
        """The leaves of a stage's parameters after its last update: what is loaded may be newer than what is stored, or older."""
        return self.current(stage) if stage in self.changed else self.params[stage]

    def load(self, compiled: CompiledPipeline, stage: int) -> None:
        """Brings a stage's parameters to the device."""
        if compiled.traced.stages[stage].placement.is_local:
            self.loaded[stage] = compiled.movers[stage].load(self.params[stage])

    def store(self, compiled: CompiledPipeline, stage: int) -> None:
        """Takes a stage's loaded parameters back, if an update has changed them."""
        loaded = self.loaded[stage]
        if loaded is not None and stage in self.changed:
            self.params[stage] = compiled.movers[stage].store(self.params[stage], loaded)
            self.changed.remove(stage)

    def read_params(self, compiled: CompiledPipeline, stage: int, params: list[jax.Array] | None = None) -> list[jax.Array]:
        """The parameters that backward reads. Args: params: leaves of an earlier version; None: the current ones."""
        packed = self.packed[stage]
        if packed is not None:
            return packed
        leaves = self.current(stage) if params is None else params
        indices = compiled.programs[stage].kept_params
        return leaves if len(indices) == len(leaves) else [leaves[index] for index in indices]

    def state(self, compiled: CompiledPipeline) -> RunState:
        """The state with these arrays."""
        stages = tuple(
            StageState(
                params=_jax.tree.unflatten(stage.params_structure, params),
                optimizer_state=state,
                aux=_jax.tree.unflatten(stage.aux_structure, aux),
            )
            for stage, params, state, aux in zip(compiled.traced.stages, self.params, self.optimizer_states, self.aux, strict=True)
        )
        return RunState(stages=stages, joint=self.joint)


@_jax.jit
def _copied(tree: Pytree) -> Pytree:
    return placed_like(_jax.tree.map(_jax.numpy.copy, on_device(tree)), tree)
