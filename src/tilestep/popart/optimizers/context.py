"""What a rule must know of its session, and what it keeps from one update to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from tilestep.popart.enums import MeanReductionStrategy, ReductionType
from tilestep.popart.optimizers.arithmetic import Arrays
from tilestep.popart.optimizers.loss_scaling import AutomaticLossScaling


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

    @property
    def accumulation(self) -> int:
        """Microbatches per update; 1 if nothing is accumulated."""
        return self.accumulation_factor if self.accumulates else 1

    @property
    def divides_at_end(self) -> bool:
        """Whether the last step makes sums averages."""
        return self.mean and not self.running_mean

    @property
    def post_accumulation(self) -> np.float32:
        """What the last step divides by because of accumulation. Source: setFactorsFromOptions in PopART's optimizer.cpp."""
        return np.float32(self.accumulation if self.divides_at_end else 1)

    @property
    def post_replication(self) -> np.float32:
        """The same because of replicas."""
        return np.float32(self.replication_factor if self.divides_at_end else 1)

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


def changed(state: OptimizerState, *, hyper: Arrays | None = None, tensors: Arrays | None = None) -> OptimizerState:
    """`state` with some of its arrays in place of the old ones."""
    return OptimizerState(hyper={**state.hyper, **(hyper or {})}, tensors={**state.tensors, **(tensors or {})})
