"""The updates of a run: of a stage by itself, of stages that share parameters, or of all stages at once."""

from collections.abc import Sequence
from typing import Any, final

import jax

from tilestep.train.offload import is_on_host
from tilestep.train.pipeline.compile.pipeline_spec import Leaf
from tilestep.train.pipeline.run.request import RunRequest
from tilestep.train.pipeline.run.run_arrays import RunArrays
from tilestep.train.pipeline.run.sightings import Sightings
from tilestep.train.pipeline.run.state import Ready
from tilestep.train.untyped import jax as _jax


@final
class Updater:
    """Updates stages when their group is complete.

    Args:
        arrays: the arrays that it updates.
        outputs: for each microbatch the outputs of the last level, which the optimiser may read.
        sightings: is told of each update.
    """

    def __init__(self, request: RunRequest, arrays: RunArrays, outputs: Sequence[list[Any]], sightings: Sightings) -> None:
        self._sightings = sightings
        self._compiled, self._watch, self._transport = request.compiled, request.watch, request.transport
        self._arrays, self._outputs = arrays, outputs
        self._groups = request.compiled.groups
        self._group_of = {stage: index for index, group in enumerate(self._groups) for stage in group}
        self._missing = [len(group) for group in self._groups]  # stages of each group whose update is not due yet

    def update(self, stage: int, microbatch: int | None) -> None:
        """A stage's update is due. It happens with those of all stages of its group, when the last of them is due."""
        group = self._group_of[stage]
        self._missing[group] -= 1
        if self._missing[group]:
            return
        self._watch.look()
        members = self._groups[group]
        self._missing[group] = len(members)
        self._add_tied_gradients(members)
        if self._compiled.joint is not None:
            self._update_jointly()
        else:
            for member in members:
                self.update_one(member, -1 if microbatch is None else microbatch)
        self._share_tied_params(members)
        for member in members:
            self._sightings.updated(member, self._arrays.newest(member))

    def update_one(self, stage: int, microbatch: int) -> None:
        """Updates one stage. Args: microbatch: whose outputs the optimiser reads, if it reads any."""
        arrays, compiled = self._arrays, self._compiled
        update = compiled.updates[stage]
        params = self._copied_list(stage)  # microbatches under way keep their list
        trained = [params[index] for index in update.trained]
        extras = self._extras(stage, update.extras, microbatch)
        if arrays.optimizer_states[stage] is None:
            arrays.optimizer_states[stage] = update.init(trained, extras)
        zeros, arrays.optimizer_states[stage], leaves, packs = update.apply(
            arrays.accumulators[stage], arrays.optimizer_states[stage], trained, extras
        )
        for index, leaf in zip(update.trained, leaves, strict=True):
            params[index] = leaf
        arrays.accumulators[stage] = zeros
        if update.readies:  # the only update of the run
            arrays.ready[stage] = Ready(leaves=arrays.packed_leaves(compiled, stage), packs=packs, accumulators=zeros)

    def _copied_list(self, stage: int) -> list[jax.Array]:
        """A new list of the parameters that an update changes."""
        arrays, loaded = self._arrays, self._arrays.loaded[stage]
        if loaded is None or stage not in self._compiled.updated_on_device:
            arrays.params[stage] = list(arrays.params[stage])
            return arrays.params[stage]
        arrays.loaded[stage] = own = list(loaded)
        arrays.changed.add(stage)
        return own

    def _update_jointly(self) -> None:
        arrays, updates, joint = self._arrays, self._compiled.updates, self._compiled.joint
        assert joint is not None
        trained = [[params[index] for index in update.trained] for params, update in zip(arrays.params, updates, strict=True)]
        outputs = self._outputs[-1][0] if joint.extras else []
        extras = [outputs[index] for index in joint.extras]
        put = self._transport.put_joint
        if arrays.joint is None:
            arrays.joint = joint.init(trained, extras, put)
        leaves, arrays.joint = joint.apply(trained, arrays.joint, arrays.accumulators, extras, put)
        arrays.accumulators = [[] for _ in arrays.accumulators]  # some are donated, and none is read again
        for params, update, own in zip(arrays.params, updates, leaves, strict=True):
            for index, leaf in zip(update.trained, own, strict=True):
                params[index] = leaf

    def _extras(self, stage: int, indices: Sequence[int], microbatch: int) -> Sequence[jax.Array]:
        """The last stage's outputs that the optimiser reads, on a stage's devices."""
        if not indices:
            return []
        outputs = self._outputs[microbatch][0]
        sharding = self._compiled.traced.stages[stage].placement.along(0)
        return self._transport.put([outputs[index] for index in indices], [sharding] * len(indices))

    # ------------------------------------------------------------------------------------------------- tied parameters

    def _ties(self, members: Sequence[int]) -> list[tuple[Leaf, ...]]:
        return [tie for tie in self._compiled.ties if tie[0][0] in members]

    def _add_tied_gradients(self, members: Sequence[int]) -> None:
        """Adds gradients of tied parameters to those of the first of them, because only that one is updated."""
        accumulators, stages = self._arrays.accumulators, self._compiled.traced.stages
        for tie in self._ties(members):
            owner, leaf = tie[0]
            index = self._accumulator_of(owner, leaf)
            for other, other_leaf in tie[1:]:
                gradient = accumulators[other][self._accumulator_of(other, other_leaf)]
                sharding = accumulators[owner][index].sharding
                if gradient.sharding != sharding:
                    (gradient,) = self._transport.put_copies([gradient], [sharding])
                if stages[owner].placement.is_local:
                    accumulators[owner][index] = _add(accumulators[owner][index], gradient)

    def _accumulator_of(self, stage: int, leaf: int) -> int:
        """The index of a tied parameter's accumulator among those of its stage. It is never in a pack."""
        compiled = self._compiled
        return compiled.packings[stage].accumulators.alone.index(compiled.traced.stages[stage].real_params.index(leaf))

    def _share_tied_params(self, members: Sequence[int]) -> None:
        """Makes tied parameters the array of the first of them, or on other devices a copy of it."""
        params, stages = self._arrays.params, self._compiled.traced.stages
        for tie in self._ties(members):
            owner, leaf = tie[0]
            value = params[owner][leaf]
            for other, index in tie[1:]:
                old = params[other][index]
                if value.sharding == old.sharding:
                    params[other][index] = value
                    continue
                (new,) = self._transport.put_copies([value], [old.sharding])
                params[other][index] = new if is_on_host(old) or not stages[other].placement.is_local else _in_place(old, new)


def _renewed(old: jax.Array, new: jax.Array) -> jax.Array:
    """The new value in the memory of the old one. On an emulated IPU that is how a parameter stays in the tiles until the next update."""
    return _jax.lax.optimization_barrier((old, new))[1]  # else JAX gives `new` back without running anything


_in_place: Any = _jax.jit(_renewed, donate_argnums=0)
_add: Any = _jax.jit(lambda a, b: a + b.astype(a.dtype))
