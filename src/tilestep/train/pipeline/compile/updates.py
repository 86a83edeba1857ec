"""The updates of a pipeline's stages: each stage's parameters by themselves, with gradients that all microbatches have added up."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from tilestep.train.gradients.accumulation import Choice, Reduction, finished, promoted, zeros_for
from tilestep.train.jaxprs import flat_jaxpr, needed, read_by
from tilestep.train.offload import Offload, on_device, placed, placed_like
from tilestep.train.optimizers.offloaded import offloaded
from tilestep.train.optimizers.sharded import sharded
from tilestep.train.pipeline.compile.placement import STATE
from tilestep.train.pipeline.compile.stage import Packings, Stage, is_real
from tilestep.train.processes.remote import Elsewhere, like_elsewhere
from tilestep.train.replicas.collectives import cross_replica, cross_replica_all_gather, cross_replica_mean, replica_axis
from tilestep.train.untyped import jax as _jax

Program = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Optimizing:
    """How all stages are updated.

    Attributes:
        optimizer: of optax, or a function of the last stage's outputs that returns (one of optax, the loss).
        per_update: microbatches of each update.
        reduction, accumulator_dtype: of gradients.
        offload: what is in the host's memory.
        shard: whether each replica keeps a part of the optimiser's state.
        keep: whether what an update has got must stay as it is: microbatches under way have it.
        again: whether there are several updates in a run.
    """

    optimizer: Any
    per_update: int
    reduction: Reduction
    accumulator_dtype: Any | Choice
    offload: Offload
    shard: bool
    keep: bool
    again: bool

    @property
    def is_function(self) -> bool:
        """Whether the optimiser is known only when the last stage's outputs are."""
        return not hasattr(self.optimizer, "update")

    def of(self, outputs: Sequence[Any]) -> Any:
        """The transformation of optax. Args: outputs: of the last stage, if that decides."""
        return self.optimizer(*outputs)[0] if self.is_function else self.optimizer

    def loss(self, *outputs: Any) -> Any:
        """The loss, of the last stage's outputs."""
        return self.optimizer(*outputs)[1] if self.is_function else outputs[0]

    def loss_kind(self, outputs: tuple[Any, ...]) -> Any:
        """Its shape and dtype. Args: outputs: those of what the last stage returns."""
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
        kind: Any = found
        if not hasattr(kind, "dtype") or kind.shape != () or not _jax.numpy.issubdtype(kind.dtype, _jax.numpy.floating):
            raise ValueError(f"{where}, a real scalar, but it returned {'nothing' if found is None else found}")


def _loss(how: Optimizing, outputs: tuple[Any, ...]) -> Any:
    result = how.optimizer(*outputs)
    if not isinstance(result, tuple) or len(result) != 2 or not hasattr(result[0], "update"):  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"the optimizer's function returned {result!r}: it must return (a transformation of optax, the loss)")
    return result[1]  # pyright: ignore[reportUnknownVariableType]


@dataclass(frozen=True, kw_only=True)
class Update:
    """One stage's programs.

    Attributes:
        trained: places of the parameters' leaves that it updates.
        extras: of the last stage's outputs' leaves, the places of those on which the optimiser depends.
        init: (trained leaves, extras) -> the optimiser's state.
        apply: (accumulators, state, trained leaves, extras) -> (accumulators of zeros if there are more updates in the run or it `readies`,
            the state, new leaves, the new leaves that are together, too). Donates state and leaves, and accumulators for zeros.
        readies: whether it makes what the next run begins with.
        function: as JAX traces it: (trained leaves, state, their accumulators, each by itself, extras) -> (new leaves, state, zeros).
        zeros: () -> accumulators of all real leaves.
        start: `zeros` as JAX traces it, each by itself.
    """

    trained: tuple[int, ...]
    extras: tuple[int, ...]
    init: Program
    apply: Program
    readies: bool
    function: Program
    zeros: Program
    start: Callable[[], list[Any]]


def accumulator_kinds(stage: Stage, how: Optimizing) -> list[Any]:
    """Shapes and dtypes of a stage's accumulators, each by itself; one replica's."""
    return _jax.eval_shape(lambda: _jax.tree.leaves(zeros_for(_real(stage), how.accumulator_dtype)))


def make_update(stage: Stage, packings: Packings, how: Optimizing, tied: frozenset[int], outputs: Any) -> Update:
    """Args: tied: places of leaves that another stage updates. outputs: kinds of the last stage's results."""
    return _Maker(stage, packings, how, tied, outputs).update()


@final
class _Maker:
    def __init__(self, stage: Stage, packings: Packings, how: Optimizing, tied: frozenset[int], outputs: Any) -> None:
        self._stage, self._packing, self._how = stage, packings.accumulators, how
        self._params, self._together = packings.params, packings.params.packs
        self._structure = stage.params_structure
        self._trained = tuple(place for place in stage.real_params if place not in tied)
        self._outputs, self._outputs_structure = _jax.tree.flatten(outputs)
        self._extras = self._used() if how.is_function else ()
        self._readies = bool(self._together) and set(self._trained).issuperset(place for pack in self._together for place in pack)

    def update(self) -> Update:
        stage, how = self._stage, self._how
        jit, name = stage.place.jit, f"stage_{stage.number}"
        shardings = (None, None, [stage.param_shardings[place] for place in self._trained], None) if stage.place.is_mesh else None
        zeros = (0,) if how.again or self._readies else ()  # they take the accumulators' place
        # JAX gives the memory of the first argument of a shape to the first result of that shape, whichever memory either is in. So the
        # results that take an argument's place come in the arguments' order, and what takes none's comes last.
        axes = (0, STATE, None, 0), (0, STATE, None, None)
        return Update(
            trained=self._trained,
            extras=self._extras,
            init=self._init,
            apply=jit(
                self._apply_packed, f"{name}_update", *axes, donate=(*zeros, 1, *(() if how.keep else (2,))), out_shardings=shardings
            ),
            readies=self._readies,
            function=self._apply,
            zeros=self._zeros(),
            start=self._start,
        )

    def _transformation(self, extras: Sequence[Any]) -> Any:
        leaves: list[Any] = [np.zeros(leaf.shape, leaf.dtype) for leaf in self._outputs]
        for place, value in zip(self._extras, extras, strict=True):
            leaves[place] = _agreed(value)
        return self._how.of(_jax.tree.unflatten(self._outputs_structure, leaves) if self._how.is_function else ())

    def _tree(self, leaves: Sequence[Any]) -> Any:
        """The trained leaves as the parameters' tree, with None for the others."""
        found = dict(zip(self._trained, leaves, strict=True))
        return _jax.tree.unflatten(self._structure, [found.get(place) for place in range(self._structure.num_leaves)])

    def _promoted(self, trained: Sequence[Any]) -> Any:
        tree = self._tree(trained)
        return promoted(tree, zeros_for(tree, self._how.accumulator_dtype))

    def _wrapped(self, transformation: Any) -> Any:
        place, how = self._stage.place, self._how
        if place.replicas is not None:
            transformation = cross_replica(transformation)
            transformation = sharded(transformation) if how.shard else transformation
        return offloaded(transformation, how.offload, platform=place.devices[0].platform)

    def _init(self, trained: Sequence[Any], extras: Sequence[Any]) -> Any:
        """A state, where it belongs."""
        place, how = self._stage.place, self._how

        def init(trained: Sequence[Any], extras: Sequence[Any]) -> Any:
            transformation = self._transformation(extras)
            if place.replicas is not None and how.shard:
                transformation = sharded(transformation)
            return transformation.init(self._promoted(on_device(list(trained))))

        if place.replicas is not None and place.is_here:
            extras = [value[0] for value in extras]
        kinds = _jax.eval_shape(init, trained, extras)
        if not place.is_here:
            return like_elsewhere(kinds, place.whole)
        state = _jax.jit(init, out_shardings=self._state_shardings(kinds, trained))(trained, extras)
        if place.replicas is not None:
            state = place.replicas.place(state)
        return placed(state, how.offload, kind="optimizer_state", platform=place.devices[0].platform)

    def _state_shardings(self, kinds: Any, trained: Sequence[Any]) -> Any:
        """What belongs to a parameter that is divided is divided likewise."""
        place = self._stage.place
        if not place.is_mesh:
            return _jax.tree.map(lambda _: place.whole, kinds)
        known = [(path, leaf.shape, leaf.sharding) for path, leaf in _jax.tree_util.tree_flatten_with_path(self._tree(trained))[0]]

        def of(path: Any, kind: Any) -> Any:
            alike = [sharding for own, shape, sharding in known if shape == kind.shape and path[len(path) - len(own) :] == own]
            return alike[0] if alike else place.whole

        return _jax.tree_util.tree_map_with_path(of, kinds)

    def _apply(
        self, trained: Sequence[Any], state: Any, accumulators: Sequence[Any], extras: Sequence[Any]
    ) -> tuple[list[Any], Any, list[Any]]:
        how = self._how
        held = list(trained)
        leaves = on_device(held)
        gradients = self._tree([finished(acc, how.per_update, how.reduction) for acc in on_device(list(accumulators))])
        updates, state = self._wrapped(self._transformation(extras)).update(gradients, state, self._promoted(leaves))
        changes = _jax.tree.leaves(updates)
        new = [(leaf + change.astype(leaf.dtype)).astype(leaf.dtype) for leaf, change in zip(leaves, changes, strict=True)]
        zeros = [placed_like(_jax.numpy.zeros_like(on_device(acc)), acc) for acc in accumulators] if how.again else []
        return placed_like(new, held), state, zeros

    def _apply_packed(
        self, accumulators: Sequence[Any], state: Any, trained: Sequence[Any], extras: Sequence[Any]
    ) -> tuple[list[Any], Any, list[Any], list[Any]]:
        real, leaves = self._stage.real_params, self._packing.leaves(accumulators)
        new, state, zeros = self._apply(trained, state, [leaves[real.index(place)] for place in self._trained], extras)
        if not self._readies:
            return zeros, state, new, []
        by_place = dict(zip(self._trained, new, strict=True))
        packs = self._params.only_packs([[by_place[place] for place in pack] for pack in self._together])
        return [_jax.numpy.zeros_like(acc) for acc in accumulators], state, new, packs

    def _used(self) -> tuple[int, ...]:
        """Which of the last stage's outputs the optimiser's work depends on."""
        self._extras = tuple(range(len(self._outputs)))
        stage = self._stage
        params = _jax.tree.leaves(stage.params)
        trained = [params[place] for place in self._trained]

        def work(extras: Sequence[Any], trained: Sequence[Any]) -> list[Any]:
            transformation = self._transformation(extras)
            tree = self._promoted(trained)
            state = transformation.init(tree)
            return _jax.tree.leaves((transformation.update(tree, state, tree), state))

        closed = flat_jaxpr(work, list(self._outputs), trained)
        read = read_by(needed(closed.jaxpr.eqns, closed.jaxpr.outvars), closed.jaxpr.outvars)
        return tuple(place for place, variable in enumerate(closed.jaxpr.invars[: len(self._outputs)]) if variable in read)

    def _start(self) -> list[Any]:
        return _jax.tree.leaves(zeros_for(_real(self._stage), self._how.accumulator_dtype))

    def _zeros(self) -> Program:
        stage, how = self._stage, self._how
        place = stage.place
        copies = 1 if place.replicas is None else place.replicas.count
        shardings = [place.accumulator_sharding(stage.param_shardings[index]) for index in stage.real_params]

        def zeros() -> list[Any]:
            made = self._packing.packed(self._start())
            return made if place.replicas is None else [_jax.numpy.broadcast_to(zero, (copies, *zero.shape)) for zero in made]

        if not place.is_here:
            return Elsewhere(zeros, place.whole)
        program = _jax.jit(zeros, out_shardings=shardings if place.is_mesh else place.along(0))
        if not (isinstance(how.offload, Mapping) and how.offload.get("accumulators")):
            return program
        offload, platform = how.offload, place.devices[0].platform
        structure = _jax.tree.structure(_real(stage))
        return lambda: _jax.tree.leaves(placed(_jax.tree.unflatten(structure, program()), offload, kind="accumulators", platform=platform))


def _real(stage: Stage) -> Any:
    """Kinds of a stage's real parameters, with None for the others."""
    leaves, structure = _jax.tree.flatten(stage.params)
    return _jax.tree.unflatten(structure, [leaf if is_real(leaf) else None for leaf in leaves])


def _agreed(value: Any) -> Any:
    """What all replicas take of a value that each has its own of."""
    if replica_axis() is None:
        return value
    return cross_replica_mean(value) if is_real(value) else cross_replica_all_gather(value)[0]
