"""How an optimizer changes parameters: a rule of pure functions over a state.

The state has the original's names, so that `readWeights` and a saved model find what they know: `Accl___w`, `Accl1___w`, `Accl2___w`,
`Accl3___w`, `Step___w`, `Accum___w`, and `scaledLearningRate0___default___FLOAT` and its like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import MeanReductionStrategy, ReductionType

if TYPE_CHECKING:
    from tilestep.popart.optimizers.loss_scaling import AutomaticLossScaling
    from tilestep.popart.optimizers.optimizer import Optimizer

Arrays = dict[str, jax.Array]  # by tensor id


@dataclass(frozen=True, kw_only=True)
class UpdateContext:
    """What a rule must know of the session.

    Args:
        params: shape and dtype (float32 or float16) of each parameter that has a gradient, by tensor id.
        accumulation_factor: microbatches per update.
        gradient_accumulation: whether SessionOptions.enableGradientAccumulation is on; None: if the factor exceeds 1.
        replication_factor: replicas, over all processes.
        reduction: SessionOptions.accumulationAndReplicationReductionType.
        mean_strategy: SessionOptions.meanAccumulationAndReplicationReductionStrategy.
        reduce: sums an array over the replicas; None without replicas.
        groups: for parameters that groups of replicas share, what sums over a group, and how many replicas a group has.
        loss_dtype: dtype of the loss that the backward pass begins with; the loss scaling's tensor is named after it.
        automatic_loss_scaling: how the loss scaling follows the gradients; None: it doesn't.
    """

    params: Mapping[str, jax.ShapeDtypeStruct]
    accumulation_factor: int = 1
    gradient_accumulation: bool | None = None
    replication_factor: int = 1
    reduction: ReductionType = ReductionType.Sum
    mean_strategy: MeanReductionStrategy = MeanReductionStrategy.Post
    reduce: Callable[[jax.Array], jax.Array] | None = None
    groups: Mapping[str, tuple[Callable[[jax.Array], jax.Array], int]] = field(default_factory=dict[str, Any])
    loss_dtype: np.dtype[np.generic] = field(default_factory=lambda: np.dtype(np.float32))
    automatic_loss_scaling: AutomaticLossScaling | None = None

    @property
    def accumulates(self) -> bool:
        """Whether gradients of microbatches are accumulated (by a factor of 1 too, if the option says so)."""
        return self.accumulation_factor > 1 if self.gradient_accumulation is None else self.gradient_accumulation

    @property
    def mean(self) -> bool:
        """Whether gradients are averaged over microbatches and replicas; else they are summed."""
        return self.reduction is ReductionType.Mean

    @property
    def running_mean(self) -> bool:
        """Whether the average is kept at each addition."""
        return self.mean and self.mean_strategy is MeanReductionStrategy.Running

    def reduced(self, id: str, gradient: jax.Array, *, mean: bool = False) -> jax.Array:
        """The sum, or the mean, of a parameter's gradient over the replicas that share it."""
        if id not in self.groups and self.reduce is None:
            return gradient
        reduce, count = self.groups.get(id, (self.reduce, self.replication_factor))
        assert reduce is not None
        return reduce(gradient) / count if mean else reduce(gradient)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class OptimizerState:
    """The state of a rule, a tree of arrays.

    Args:
        hyper: the values that aren't constant, scalars by the original's tensor names.
        tensors: what the optimizer keeps for each parameter, by the original's tensor names.
    """

    hyper: Arrays
    tensors: Arrays


@dataclass(frozen=True, kw_only=True)
class UpdateRule:
    """The pure functions of one optimizer in one session; all but `with_values` may be traced.

    Per batch a session calls `accumulate` once for each microbatch (once if nothing is accumulated) and then `update`. Between the two the
    state may hold gradients under names of their own; before and after a batch its structure is that of `init`.

    Args:
        init: (params) -> state.
        loss_scale: (state) -> scalar float32 that the loss' gradient begins with.
        observe: (state, gradients) -> state; automatic loss scaling looks at one microbatch's tracked gradients.
        accumulate: (state, gradients by parameter id) -> state.
        update: (state, params) -> (new params, state).
        with_values: (state, optimizer) -> state with the new optimizer's values; raises popart_exception where a constant would change.
        values: (state) -> every tensor that a program may ask for by the original's names, `finalLossScale` too.
        owners: names of the state's tensors of single parameters, each with its parameter's.
        accumulators: names of the state's tensors whose value a program looks at after each microbatch, not after the update.
    """

    init: Callable[[Mapping[str, jax.Array]], OptimizerState]
    loss_scale: Callable[[OptimizerState], jax.Array]
    observe: Callable[[OptimizerState, Sequence[jax.Array]], OptimizerState]
    accumulate: Callable[[OptimizerState, Mapping[str, jax.Array]], OptimizerState]
    update: Callable[[OptimizerState, Mapping[str, jax.Array]], tuple[Arrays, OptimizerState]]
    with_values: Callable[[OptimizerState, Optimizer], OptimizerState]
    values: Callable[[OptimizerState], Arrays]
    owners: Mapping[str, str]
    accumulators: frozenset[str]


def changed(state: OptimizerState, *, hyper: Arrays | None = None, tensors: Arrays | None = None) -> OptimizerState:
    """`state` with some of its arrays in place of the old ones."""
    return OptimizerState(hyper={**state.hyper, **(hyper or {})}, tensors={**state.tensors, **(tensors or {})})


def as_arrays(params: Mapping[str, object]) -> Arrays:
    """The parameters as JAX's arrays."""
    return {id: jnp.asarray(param) for id, param in params.items()}  # what asarray takes
