"""The program of all replicas: that of one, mapped over them by `jax.vmap`, for one device that computes them all."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

import jax
from jax import lax

from tilestep.popart.dataflow import Anchor
from tilestep.popart.ops.collectives import replicas
from tilestep.popart.optimizers import OptimizerState
from tilestep.popart.session.model.analysis import Types
from tilestep.popart.session.model.graph import Values
from tilestep.popart.session.model.replication import AXIS, Replication
from tilestep.popart.session.program.program import SessionCarry, SessionProgram
from tilestep.popart.session.stale import Rings

_FIRST: Final = 0
_BEHIND_VERSIONS: Final = 1
_SHARED: Any = None
Axes = Any  # a tree of places of the replicas' dimension, or None where all replicas share an array


@final
class ReplicatedProgram:
    """The functions of `Program` for all replicas at once.

    Arrays have a dimension of replicas: variables and state of which each replica has its own in front; inputs, but for broadcast ones, and
    anchors behind the dimensions of batches and microbatches. Each replica draws its own random numbers.

    Attributes:
        program: of one replica.
        batches, accumulation: of a step, as those of `program`.
    """

    def __init__(
        self, program: SessionProgram, replication: Replication, *, anchors: Sequence[Anchor], inputs: Iterable[str], state: Types
    ) -> None:
        """Args: anchors: that are returned. inputs: names of the model's. state: of the optimiser on one replica."""
        self.program, self._replication, self._anchors, self._inputs = program, replication, anchors, tuple(inputs)
        self._ranks = {name: len(kind.shape) for name, kind in state.items()}
        self.batches, self.accumulation = program.batches, program.accumulation

    def step(self, carry: SessionCarry, inputs: Values) -> tuple[SessionCarry, Values]:
        """All batches of a step, as `Program.step`."""
        axes = self._axes_of_step(carry)
        return self._by_vmap(self.program.step, axes[0], axes[1])(carry, inputs)

    def begin(self, carry: SessionCarry) -> SessionCarry:
        """The carry at the begin of a run, as `Program.begin`."""
        return self.program.begin(carry)

    def end(self, carry: SessionCarry) -> SessionCarry:
        """The carry after a run, as `Program.end`."""
        return self.program.end(carry)

    def microbatch(self, carry: SessionCarry, inputs: Values) -> tuple[SessionCarry, Values]:
        """One microbatch of each replica, as `Program.microbatch`. From here to the update each replica has its own state."""
        axes = self._axes(carry)
        mapped = self._by_vmap(self.program.microbatch, (axes, self._axes_of_inputs(_FIRST)), (self._before_update(axes), _FIRST))
        return mapped(carry, inputs)

    def update(self, carry: SessionCarry) -> SessionCarry:
        """The update of all replicas, as `Program.update`. Args: carry: of `microbatch`."""
        axes = self._axes(carry)
        after = axes._replace(variables=_FIRST, optimizer=None if carry.optimizer is None else _FIRST, old=self._axes_of_old(carry, _FIRST))
        changed: SessionCarry = self._by_vmap(lambda own: (self.program.update(own), {}), (axes,), (after, _FIRST))(carry)[0]
        variables = self._shared(changed.variables)
        if changed.old is not None:
            changed = changed._replace(old=changed.old._replace(old=self._shared(changed.old.old)))
        if changed.optimizer is None:
            return changed._replace(variables=variables)
        hyper = {name: array[0] for name, array in changed.optimizer.hyper.items()}
        return changed._replace(variables=variables, optimizer=OptimizerState(hyper=hyper, tensors=self._shared(changed.optimizer.tensors)))

    def after_update(self, carry: SessionCarry) -> Values:
        """As `Program.after_update`, of each replica."""
        return self._looked_at(self.program.after_update, carry)

    def at_end(self, carry: SessionCarry) -> Values:
        """As `Program.at_end`, of each replica."""
        return self._looked_at(self.program.at_end, carry)

    def _looked_at(self, function: Callable[[SessionCarry], Values], carry: SessionCarry) -> Values:
        axes = self._axes(carry)
        values: Values = self._by_vmap(lambda own: (own, function(own)), (axes,), (axes, _FIRST))(carry)[1]
        return values

    def _shared(self, arrays: Values) -> Values:
        """Of arrays of each replica those that all share once."""
        return {name: array if name in self._replication.own else array[0] for name, array in arrays.items()}

    # ------------------------------------------------------------------------------------------------ where replicas stand

    def _axes_of_step(self, carry: SessionCarry) -> tuple[Axes, Axes]:
        axes = self._axes(carry)
        leading = (self.batches > 1) + (self.accumulation > 1)
        return (axes, self._axes_of_inputs(0 if self.program.resident else leading)), (
            axes,
            {anchor.name: self._place(anchor, leading) for anchor in self._anchors},
        )

    def _place(self, anchor: Anchor, leading: int) -> int:
        """Where replicas stand in an anchor's value: behind the dimensions that count what is returned."""
        if not anchor.is_stacked:
            return 0
        return 1 if anchor.period > 1 else leading

    def _axes_of_inputs(self, place: int) -> Axes:
        return {name: None if name in self._replication.broadcast else place for name in self._inputs}

    def _axes(self, carry: SessionCarry) -> Axes:
        own = self._replication.own
        variables = {name: _FIRST if name in own else None for name in carry.variables}
        optimizer = None
        if carry.optimizer is not None:
            tensors: Any = {name: _FIRST if self._is_own(name, array) else None for name, array in carry.optimizer.tensors.items()}
            optimizer = OptimizerState(hyper=_SHARED, tensors=tensors)
        return SessionCarry(variables=variables, optimizer=optimizer, key=None, count=None, old=self._axes_of_old(carry, None))

    def _axes_of_old(self, carry: SessionCarry, shared: int | None) -> Axes:
        """Args: shared: the place for weights that all replicas share."""
        if carry.old is None:
            return None
        own = self._replication.own
        return Rings(count=None, old={name: _BEHIND_VERSIONS if name in own else shared for name in carry.old.old})

    def _is_own(self, name: str, array: Any) -> bool:
        """Whether each replica has its own array of the optimiser's state: always, or just now, between a microbatch and the update."""
        return name in self._replication.own or array.ndim != self._ranks.get(name)

    @staticmethod
    def _before_update(axes: Axes) -> Axes:
        if axes.optimizer is None:
            return axes
        tensors: Any = _FIRST
        return axes._replace(optimizer=OptimizerState(hyper=_SHARED, tensors=tensors))

    # ------------------------------------------------------------------------------------------------ how it is mapped

    def _in_replica(self, function: Callable[..., tuple[SessionCarry, Values]]) -> Callable[..., tuple[SessionCarry, Values]]:
        """A function of one replica, with random numbers of its own."""

        def of_one(carry: SessionCarry, *inputs: Values) -> tuple[SessionCarry, Values]:
            own = carry._replace(key=jax.random.fold_in(carry.key, lax.axis_index(AXIS) + 1))
            with replicas(AXIS, self._replication.count):
                new, values = function(own, *inputs)
            return new._replace(key=carry.key), values

        return of_one

    def _by_vmap(self, function: Callable[..., tuple[SessionCarry, Values]], inside: Axes, outside: Axes) -> Callable[..., Any]:
        return jax.vmap(
            self._in_replica(function),
            in_axes=inside,
            out_axes=outside,
            axis_name=AXIS,
            axis_size=self._replication.count,
        )
