"""Makes the update of each stage of a pipeline by itself, from gradients that are summed over microbatches."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import numpy as np

from tilestep.messages import shown
from tilestep.train.gradients.accumulation import Choice, Reduction, finished, promoted, zeros_for
from tilestep.train.jaxprs import flat_jaxpr, is_real, needed, read_by
from tilestep.train.offload import HOST_KIND, Offload, are_chosen, choice_for, on_device, placed, placed_like, sharding_on_device
from tilestep.train.optimizers.offloaded import offloaded
from tilestep.train.optimizers.sharded import sharded
from tilestep.train.pipeline.compile.placement import STATE
from tilestep.train.pipeline.compile.stage import Packings, Stage
from tilestep.train.processes.remote import RemoteProgram, remote_like
from tilestep.train.replicas.collectives import Reduction as ReplicaReduction
from tilestep.train.replicas.collectives import cross_replica, cross_replica_all_gather, cross_replica_mean, replica_axis
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

Program = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class OptimizerPlan:
    """How all stages are updated."""

    optimizer: Any  # a transformation of optax, or a function of the last stage's outputs that returns (a transformation, the loss)
    per_update: int  # the number of microbatches in an update
    reduction: Reduction  # reduction of the microbatches' gradients
    replica_reduction: ReplicaReduction  # replica reduction of the replicas' gradients
    accumulator_dtype: Any | Choice  # accumulator dtype of their sums
    offload: Offload  # which state is in the host's memory
    shard: bool  # whether each replica keeps a part of the optimiser's state
    group_size: int | None  # successive replicas of a group that divides it; None: all replicas
    keeps_old: bool  # whether an update must not donate the parameters, because microbatches under way still read them
    repeats: bool  # whether a run has several updates

    @property
    def is_function(self) -> bool:
        """Whether the optimiser is known only when the last stage's outputs are."""
        return not hasattr(self.optimizer, "update")

    def transformation(self, outputs: Sequence[Any]) -> Any:
        """The transformation of optax. Args: outputs: of the last stage, if the optimiser is a function of them."""
        return self.optimizer(*outputs)[0] if self.is_function else self.optimizer

    def loss(self, *outputs: Pytree) -> Any:
        """The loss, from the last stage's outputs."""
        return self.optimizer(*outputs)[1] if self.is_function else outputs[0]

    def loss_spec(self, outputs: tuple[Any, ...]) -> Any:
        """The spec of the loss. Args: outputs: the tree of the last stage's outputs' specs."""
        return _jax.eval_shape(self.loss, *outputs)

    def require_loss(self, name: str, outputs: tuple[Any, ...]) -> None:
        """Args: name: of the last stage. outputs: shapes and dtypes of what it returns.

        Raises: ValueError, TypeError if it, or the optimiser's function, gives no loss.
        """
        if self.is_function:
            where, found = (
                "the optimizer's function must return (a transformation of optax, the loss)",
                _jax.eval_shape(functools.partial(_loss, self), outputs),
            )
        else:
            where, found = (
                f"the last stage ({name}) must return the loss, a real scalar, or (loss, outputs)",
                outputs[0] if outputs else None,
            )
        spec: Spec = found
        if not hasattr(spec, "dtype") or spec.shape != () or not _jax.numpy.issubdtype(spec.dtype, _jax.numpy.floating):
            raise ValueError(f"{where}, a real scalar, but it returned {'nothing' if found is None else found}")


def _loss(plan: OptimizerPlan, outputs: tuple[Any, ...]) -> Any:
    result = plan.optimizer(*outputs)
    if not isinstance(result, tuple) or len(result) != 2 or not hasattr(result[0], "update"):
        raise TypeError(f"the optimizer's function returned {shown(result)}: it must return (a transformation of optax, the loss)")
    return result[1]


@dataclass(frozen=True, kw_only=True)
class UpdatePrograms:
    """One stage's programs."""

    trained: tuple[int, ...]  # indices of the parameters' leaves that it updates
    extras: tuple[int, ...]  # indices of the last stage's outputs' leaves on which the optimiser depends
    init: Program  # (trained leaves, extras) -> the optimiser's state
    # (accumulators, state, trained leaves, extras) -> (accumulators of zeros if there are more updates in the run or it `readies`, the
    # state, new leaves, packs of the new leaves). It donates state and leaves, and accumulators for zeros.
    apply: Program
    readies: bool  # whether it prepares the next run: packs and accumulators of zeros
    function: Program  # as JAX traces it: (trained leaves, state, their accumulators, each by itself, extras) -> (new leaves, state, zeros)
    zeros: Program  # () -> accumulators of all real leaves
    start: Callable[[], list[Any]]  # `zeros` as JAX traces it, each by itself


def accumulator_specs(stage: Stage, plan: OptimizerPlan) -> list[jax.Array]:
    """Shapes and dtypes of a stage's accumulators, each by itself; one replica's."""
    return _jax.eval_shape(lambda: _jax.tree.leaves(zeros_for(_real(stage), plan.accumulator_dtype)))


def accumulators_away(stage: Stage, plan: OptimizerPlan) -> tuple[bool, ...]:
    """Of each of a stage's accumulators whether it is in the host's memory; () if none is."""
    if not (isinstance(plan.offload, Mapping) and plan.offload.get("accumulators")):
        return ()
    every = _jax.tree.map(lambda leaf: stage.placement.spec(leaf, 0), _real(stage))
    return tuple(are_chosen(every, choice_for(plan.offload, "accumulators"), platform=stage.placement.devices[0].platform))


def make_update(
    stage: Stage, packings: Packings, plan: OptimizerPlan, tied: frozenset[int], outputs: Pytree, *, loaded: bool = False
) -> UpdatePrograms:
    """Args: tied: indices of leaves that another stage updates. outputs: the tree of the last stage's outputs' specs. loaded: whether its
    parameters are on the device, loaded from the host's memory."""
    return _UpdateMaker(stage, packings, plan, tied, outputs, loaded=loaded).update()


@final
class _UpdateMaker:
    def __init__(
        self, stage: Stage, packings: Packings, plan: OptimizerPlan, tied: frozenset[int], outputs: Pytree, *, loaded: bool
    ) -> None:
        self._stage, self._packing, self._plan, self._loaded = stage, packings.accumulators, plan, loaded
        self._params, self._packs = packings.params, packings.params.packs
        self._structure = stage.params_structure
        self._trained = tuple(index for index in stage.real_params if index not in tied)
        self._outputs, self._outputs_structure = _jax.tree.flatten(outputs)
        self._extras = self._used() if plan.is_function else ()
        self._readies = bool(self._packs) and set(self._trained).issuperset(index for pack in self._packs for index in pack)

    def update(self) -> UpdatePrograms:
        stage, plan = self._stage, self._plan
        jit, name = stage.placement.jit, f"stage_{stage.number}"
        kinds = stage.shardings_on_device if self._loaded else stage.param_shardings
        shardings = (None, None, [kinds[index] for index in self._trained], None) if stage.placement.is_mesh else None
        zeros = (0,) if plan.repeats or self._readies else ()  # they take the accumulators' place
        # JAX gives the memory of the first argument of a shape to the first result of that shape, whichever memory either is in. So the
        # results that take an argument's place come in the arguments' order, and what takes none's comes last.
        axes = (0, STATE, None, 0), (0, STATE, None, None)
        return UpdatePrograms(
            trained=self._trained,
            extras=self._extras,
            init=self._init,
            apply=jit(
                self._apply_packed,
                f"{name}_update",
                *axes,
                donate=(*zeros, 1, *(() if plan.keeps_old else (2,))),
                out_shardings=shardings,
            ),
            readies=self._readies,
            function=self._apply,
            zeros=self._zeros(),
            start=self._start,
        )

    def _transformation(self, extras: Sequence[jax.Array]) -> Any:
        leaves: list[Any] = [_zeros(leaf) for leaf in self._outputs]
        for index, value in zip(self._extras, extras, strict=True):
            leaves[index] = _agreed(value)
        return self._plan.transformation(_jax.tree.unflatten(self._outputs_structure, leaves) if self._plan.is_function else ())

    def _tree(self, leaves: Sequence[jax.Array]) -> Any:
        """The trained leaves as the parameters' tree, with None for the others."""
        by_index = dict(zip(self._trained, leaves, strict=True))
        return _jax.tree.unflatten(self._structure, [by_index.get(index) for index in range(self._structure.num_leaves)])

    def _promoted(self, trained: Sequence[jax.Array]) -> Any:
        tree = self._tree(trained)
        return promoted(tree, zeros_for(tree, self._plan.accumulator_dtype))

    def _wrapped(self, transformation: Any) -> Any:
        placement, plan = self._stage.placement, self._plan
        if placement.replicas is not None:
            transformation = cross_replica(transformation, replica_reduction=plan.replica_reduction)
            transformation = sharded(transformation, group_size=plan.group_size) if plan.shard else transformation
        return offloaded(transformation, plan.offload, platform=placement.devices[0].platform)

    def _init(self, trained: Sequence[jax.Array], extras: Sequence[jax.Array]) -> Any:
        """The first state of the optimiser, on the devices and in the memory that it stays in."""
        placement, plan = self._stage.placement, self._plan

        def init(trained: Sequence[jax.Array], extras: Sequence[jax.Array]) -> Any:
            transformation = self._transformation(extras)
            if placement.replicas is not None and plan.shard:
                transformation = sharded(transformation, group_size=plan.group_size)
            return transformation.init(self._promoted(on_device(list(trained))))

        if placement.replicas is not None and placement.is_local:
            extras = [value[0] for value in extras]
        specs = _jax.eval_shape(init, trained, extras)
        if not placement.is_local:
            return remote_like(specs, placement.whole)
        if not _jax.tree.leaves(specs):  # as of plain gradient descent: nothing has to be computed
            return specs
        shardings = self._state_shardings(specs, trained)
        if placement.is_mesh and placement.replicas is None:  # the program itself sends what is off the chip there, array by array
            shardings = self._away(shardings, specs)
        state = _jax.jit(init, out_shardings=shardings, compiler_options=placement.compiler_options)(trained, extras)
        if placement.replicas is not None:
            state = placement.replicas.place(state)
        return placed(state, plan.offload, kind="optimizer_state", platform=placement.devices[0].platform)

    def _away(self, shardings: Any, specs: Any) -> Any:
        """The shardings of a state, in the host's memory for what is offloaded."""
        device = self._stage.placement.devices[0]
        if all(memory.kind != HOST_KIND for memory in device.addressable_memories()):
            return shardings  # `placed` says so
        leaves, structure = _jax.tree.flatten(shardings)
        chosen = are_chosen(specs, choice_for(self._plan.offload, "optimizer_state"), platform=device.platform)
        return _jax.tree.unflatten(
            structure, [own.with_memory_kind(HOST_KIND) if is_away else own for own, is_away in zip(leaves, chosen, strict=True)]
        )

    def _state_shardings(self, specs: Any, trained: Sequence[jax.Array]) -> Any:
        """The state of a parameter is divided as the parameter is."""
        placement = self._stage.placement
        if not placement.is_mesh:
            return _jax.tree.map(lambda _: placement.whole, specs)
        known = [(path, leaf.shape, leaf.sharding) for path, leaf in _jax.tree_util.tree_flatten_with_path(self._tree(trained))[0]]

        def of(path: Any, spec: Spec) -> Any:
            alike = [
                sharding_on_device(sharding)
                for own, shape, sharding in known
                if shape == spec.shape and path[len(path) - len(own) :] == own
            ]
            return alike[0] if alike else placement.whole

        return _jax.tree_util.tree_map_with_path(of, specs)

    def _apply(
        self, trained: Sequence[jax.Array], state: Pytree, accumulators: Sequence[jax.Array], extras: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], Any, list[jax.Array]]:
        plan = self._plan
        held = list(trained)
        leaves = on_device(held)
        gradients = self._tree([finished(acc, plan.per_update, plan.reduction) for acc in on_device(list(accumulators))])
        updates, state = self._wrapped(self._transformation(extras)).update(gradients, state, self._promoted(leaves))
        changes = _jax.tree.leaves(updates)
        new = [(leaf + change.astype(leaf.dtype)).astype(leaf.dtype) for leaf, change in zip(leaves, changes, strict=True)]
        zeros = [placed_like(_jax.numpy.zeros_like(on_device(acc)), acc) for acc in accumulators] if plan.repeats else []
        return placed_like(new, held), state, zeros

    def _apply_packed(
        self, accumulators: Sequence[jax.Array], state: Pytree, trained: Sequence[jax.Array], extras: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], Any, list[jax.Array], list[jax.Array]]:
        real, leaves = self._stage.real_params, self._packing.unpack(accumulators)
        new, state, zeros = self._apply(trained, state, [leaves[real.index(index)] for index in self._trained], extras)
        if not self._readies:
            return zeros, state, new, []
        by_place = dict(zip(self._trained, new, strict=True))
        packs = self._params.only_packs([[by_place[index] for index in pack] for pack in self._packs])
        return [_jax.numpy.zeros_like(acc) for acc in accumulators], state, new, packs

    def _used(self) -> tuple[int, ...]:
        """Indices of the last stage's outputs on which the optimiser depends."""
        self._extras = tuple(range(len(self._outputs)))
        stage = self._stage
        params = _jax.tree.leaves(stage.params)
        trained = [params[index] for index in self._trained]

        def work(extras: Sequence[jax.Array], trained: Sequence[jax.Array]) -> list[jax.Array]:
            transformation = self._transformation(extras)
            tree = self._promoted(trained)
            state = transformation.init(tree)
            return _jax.tree.leaves((transformation.update(tree, state, tree), state))

        closed = flat_jaxpr(work, list(self._outputs), trained)
        read = read_by(needed(closed.jaxpr.eqns, closed.jaxpr.outvars), closed.jaxpr.outvars)
        return tuple(index for index, variable in enumerate(closed.jaxpr.invars[: len(self._outputs)]) if variable in read)

    def _start(self) -> list[jax.Array]:
        return _jax.tree.leaves(zeros_for(_real(self._stage), self._plan.accumulator_dtype))

    def _zeros(self) -> Program:
        stage, plan = self._stage, self._plan
        placement = stage.placement
        copies = 1 if placement.replicas is None else placement.replicas.count
        away = accumulators_away(stage, plan)

        def zeros() -> list[jax.Array]:
            made = self._packing.pack(self._start())
            return made if placement.replicas is None else [_jax.numpy.broadcast_to(zero, (copies, *zero.shape)) for zero in made]

        if not placement.is_local:
            return RemoteProgram(zeros, placement.whole)
        program = _jax.jit(
            zeros,
            out_shardings=replace(stage, accumulators_away=away).accumulator_shardings or placement.along(0),
            compiler_options=placement.compiler_options if stage.real_params else None,  # nothing is on the default device
        )
        if placement.is_mesh or not away:
            return program
        offload, platform = plan.offload, placement.devices[0].platform
        structure = _jax.tree.structure(_real(stage))
        return lambda: _jax.tree.leaves(placed(_jax.tree.unflatten(structure, program()), offload, kind="accumulators", platform=platform))


def _real(stage: Stage) -> Any:
    """Specs of a stage's real parameters, with None for the others."""
    leaves, structure = _jax.tree.flatten(stage.params)
    return _jax.tree.unflatten(structure, [leaf if is_real(leaf) else None for leaf in leaves])


def _zeros(output: Spec) -> Any:
    """What stands for an output that the transformation does not look at. JAX has no zero of a random key: nothing stands for one."""
    return None if _jax.dtypes.issubdtype(output.dtype, _jax.dtypes.extended) else np.zeros(output.shape, output.dtype)


def _agreed(value: jax.Array) -> Any:
    """One value for all replicas, each of which has its own: the mean, or the first one's integers."""
    if replica_axis() is None:
        return value
    return cross_replica_mean(value) if is_real(value) else cross_replica_all_gather(value)[0]
