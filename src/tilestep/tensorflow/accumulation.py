"""Updates that wait for the gradients of several steps: an optimiser of TensorFlow as one of optax, which `tilestep.train` wraps.

The body of a loop ends at its gradients. What the optimiser does with them is traced by itself: a function of gradients, variables and
slots, which runs once for each update.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """What an optimiser does once for several steps.

    Attributes:
        traced: the optimiser's `apply_gradients` as a function of gradients.
        gradients: tensors of the body.
        names: of the variables of the gradients.
        extra: tensors of the body that the function has captured, such as a learning rate.
        count: steps for each update.
        reduction: of the steps' gradients.
        offload: whether slots are in the host's memory between updates; None: where devices have a memory of their own.
        dtypes: of accumulators, by the variables' names.
    """

    traced: Traced
    gradients: Sequence[Tensor]
    names: Sequence[str]
    extra: Sequence[Tensor]
    count: int
    reduction: Reduction
    offload: bool | None
    dtypes: Mapping[str, Any]

    @property
    def slots(self) -> list[str]:
        """Names of variables that the update uses beside those of the gradients."""
        return [name for name in self.traced.handles if name not in self.names]

    def prepared(self) -> Prepared:
        """Lowers the function. Raises: UnsupportedError for what XLA cannot lower."""
        traced = self.traced
        inputs = [*traced.arguments, *(inside for _, inside in traced.captured)]
        program = lower(traced.graph, inputs, [], traced.operations, traced.handles)
        return Prepared(update=self, program=program)


def as_optax(program: Program, names: Sequence[str], initial: Callable[[], Mapping[str, Any]]) -> optax.GradientTransformationExtraArgs:
    """A program of gradients, further values, variables and slots as a transformation of optax. The state is the slots.

    Args:
        names: of the variables of the gradients: keys of the trees of gradients and parameters.
        initial: gives shapes and dtypes of slots.
    """

    def init(params: Pytree) -> Pytree:
        del params
        return {name: jax.numpy.zeros(spec.shape, spec.dtype) for name, spec in initial().items()}

    def update(gradients: Pytree, state: Pytree, params: Pytree = None, *, extra: Sequence[Any] = ()) -> tuple[Pytree, Pytree]:
        _, new = program([*(gradients[name] for name in names), *extra], {**state, **params})
        changes = {name: new[name].astype(params[name].dtype) - params[name] for name in names}
        return changes, {name: new[name].astype(old.dtype) if name in new else old for name, old in state.items()}

    return optax.GradientTransformationExtraArgs(init, update)  # pyrefly: ignore[bad-argument-type]


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """An update that is lowered."""

    update: Update
    program: Program

    def optimizer(self, specs: Mapping[str, Any]) -> optax.GradientTransformationExtraArgs:
        """Args: specs: shapes and dtypes of the slots."""
        update = self.update
        dtypes = dict(update.dtypes)
        return gradient_accumulation(
            as_optax(self.program, update.names, lambda: specs),
            update.count,
            dtype=lambda path, variable: dtypes.get(path, variable.dtype),
            reduction=update.reduction,
            offload_optimizer_state=offloads(update.offload),
        )

    def applied(
        self, optimizer: Any, gradients: Sequence[Any], extra: Sequence[Any], state: AccumulationState, variables: dict[str, Any]
    ) -> tuple[AccumulationState, dict[str, Any]]:
        """(new state, new variables) of a step."""
        names = self.update.names
        params = {name: variables[name] for name in names}
        changes, state = optimizer.update(dict(zip(names, gradients, strict=True)), state, params, extra=list(extra))
        return state, {**variables, **apply_updates(params, changes)}


def with_slots(state: AccumulationState, slots: Mapping[str, Any]) -> AccumulationState:
    """The state with these slots, each in the memory where it is there."""
    return dataclasses.replace(state, inner=placed_like({name: slots[name] for name in state.inner}, state.inner))
