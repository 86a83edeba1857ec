"""Updates that wait for the gradients of several steps: an optimiser of TensorFlow as one of optax, which `tilestep.train` wraps.

The body of a loop ends at its gradients. What the optimiser does with them is traced by itself: a function of gradients, variables and
slots, which runs once for each update.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optax

from tilestep.tensorflow.lowering import Program, lower
from tilestep.tensorflow.machine import offloads
from tilestep.tensorflow.tracing import Traced
from tilestep.tensorflow.untyped import Tensor
from tilestep.train import AccumulationState, apply_updates, gradient_accumulation, placed_like
from tilestep.train.gradients.accumulation import Reduction
from tilestep.train.untyped import Pytree, jax

Arrays = Mapping[str, Any]  # by the names of variables


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """What an optimiser does once for several steps."""

    traced: Traced  # its `apply_gradients` as a function of gradients
    gradients: Sequence[Tensor]  # of the body
    names: Sequence[str]  # of the gradients' variables
    extra: Sequence[Tensor]  # of the body, which the function has captured, such as a learning rate
    count: int  # steps for each update
    reduction: Reduction
    offload: bool | None  # whether slots wait in the host's memory; None: where devices have a memory of their own
    dtypes: Mapping[str, Any]  # of accumulators, by the variables' names

    @property
    def slots(self) -> list[str]:
        """Names of variables that the update uses beside those of the gradients."""
        return [name for name in self.traced.handles if name not in self.names]

    @functools.cached_property
    def program(self) -> Program:
        """The function, lowered. Raises: UnsupportedError for what XLA cannot lower."""
        traced = self.traced
        return lower(traced.graph, [*traced.arguments, *(inside for _, inside in traced.captured)], [], traced.operations, traced.handles)

    def optimizer(self, variables: Arrays) -> optax.GradientTransformationExtraArgs:
        """The optimiser as the runtime takes it. Its state is the slots."""
        slots = {name: jax.ShapeDtypeStruct(variables[name].shape, variables[name].dtype) for name in self.slots}

        def init(params: Pytree) -> Pytree:
            return {name: jax.numpy.zeros(spec.shape, spec.dtype) for name, spec in slots.items()}

        def update(gradients: Pytree, state: Pytree, params: Pytree = None, *, extra: Sequence[Any] = ()) -> tuple[Pytree, Pytree]:
            return changes(self.program, [*(gradients[name] for name in self.names), *extra], params, state)

        return gradient_accumulation(
            optax.GradientTransformationExtraArgs(init, update),  # pyrefly: ignore[bad-argument-type]
            self.count,
            dtype=lambda path, variable: self.dtypes.get(path, variable.dtype),
            reduction=self.reduction,
            offload_optimizer_state=offloads(self.offload),
        )

    def applied(
        self, optimizer: Any, gradients: Sequence[Any], extra: Sequence[Any], state: AccumulationState, variables: dict[str, Any]
    ) -> tuple[AccumulationState, dict[str, Any]]:
        """(new state, new variables) of a step."""
        params = {name: variables[name] for name in self.names}
        changed, state = optimizer.update(dict(zip(self.names, gradients, strict=True)), state, params, extra=extra)
        return state, {**variables, **apply_updates(params, changed)}


def changes(program: Program, values: Sequence[Any], params: Arrays, slots: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
    """(changes of variables, new slots). Args: program: an optimiser's, of gradients and other values. params: the variables."""
    _, new = program(values, {**slots, **params})
    changed = {name: new[name].astype(old.dtype) - old for name, old in params.items()}
    return changed, {name: new[name].astype(old.dtype) if name in new else old for name, old in slots.items()}


def with_slots(state: AccumulationState, slots: Arrays) -> AccumulationState:
    """The state with these slots, each in the memory where it is there."""
    return dataclasses.replace(state, inner=placed_like({name: slots[name] for name in state.inner}, state.inner))
