"""What a rule does for one weight, and where its gradients wait for the update: summed or averaged over microbatches, and over replicas.

Source: gradAccum, gradReduce and zeroAccumulator in PopART's optimizerdecompose.cpp.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import MeanReductionStrategy, ReductionType, WeightDecayMode
from tilestep.popart.names import reservedAccumPrefix, reservedFinalReducedGradPrefix
from tilestep.popart.optimizers.loss_scaling import AutomaticLossScaling
from tilestep.popart.optimizers.scalars import Arrays, Hyper, Scalar, Weight, scaled, scaled_add


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


COUNTER = "Counter___"  # microbatches in a running mean; one for all parameters


@dataclass(frozen=True, kw_only=True)
class GradientStore:
    """The gradients of one weight between backward passes and the update.

    Args:
        weight: the weight.
        dtype: the type in which gradients are accumulated.
        context: how.
    """

    weight: Weight
    dtype: np.dtype[np.generic]
    context: UpdateContext

    @property
    def _accumulator(self) -> str:
        return reservedAccumPrefix() + self.weight.id

    @property
    def _waiting(self) -> str:
        return reservedFinalReducedGradPrefix() + self.weight.id

    def init(self) -> Arrays:
        """The accumulator, of zeros; none if gradients aren't accumulated."""
        return {self._accumulator: jnp.zeros(self.weight.shape, self.dtype)} if self.context.accumulates else {}

    def add(self, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        """What changes when a microbatch's gradient arrives."""
        if not self.context.accumulates:
            return {self._waiting: self._reduced(gradient)}
        accumulator = tensors[self._accumulator]
        if not self.context.running_mean:
            return {self._accumulator: scaled_add(accumulator, gradient)}
        # The counter of the first microbatch is 0, so that what is left of the last batch is multiplied by 0.
        share = 1.0 / (tensors[COUNTER] + 1.0)
        return {self._accumulator: scaled_add(accumulator, gradient, share, keep=1.0 - share)}

    def total(self, tensors: Mapping[str, jax.Array]) -> tuple[jax.Array, Arrays]:
        """The gradient for the update, and what changes: the accumulator is zeroed, but for a running mean."""
        if not self.context.accumulates:
            return tensors[self._waiting], {}
        total = self._reduced(tensors[self._accumulator])
        return total, {self._accumulator: total if self.context.running_mean else jnp.zeros_like(total)}

    def _reduced(self, gradient: jax.Array) -> jax.Array:
        return self.context.reduced(self.weight.id, gradient, mean=self.context.running_mean)


@dataclass(frozen=True, kw_only=True)
class WeightRule(ABC):
    """The update of one weight. `tensors` are all tensors of the state; a method returns those that it changes.

    Args:
        scalars: the compound scalars that the update uses, by what they are to it: `hyper` has their values by the same words.
    """

    scalars: Mapping[str, Scalar]

    @abstractmethod
    def init(self, param: jax.Array) -> Arrays:
        """The weight's tensors before the first update."""

    @abstractmethod
    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        """A microbatch's gradient arrives."""

    @abstractmethod
    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """The first half of the update: returns what clipping scales, and what changes."""

    @abstractmethod
    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """The second half, with what clipping has left: returns the new weight, and what changes."""


@dataclass(frozen=True, kw_only=True)
class StoringRule(WeightRule):
    """A rule that keeps its momentum, if it has one, apart from the gradients."""

    gradients: GradientStore

    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        return self.gradients.add(tensors, gradient)


@dataclass(frozen=True, kw_only=True)
class ScalingRule(StoringRule):
    """A rule of Adam's or Adaptive's family, which scales a gradient before it changes anything. Its scalars have `scale` and `decay`.

    Args:
        decay_mode: where weight decay goes.
        cast: whether the gradient becomes float32 before it is scaled.
    """

    decay_mode: WeightDecayMode
    cast: bool

    @property
    def decays(self) -> bool:
        """Whether the weight itself decays, beside its gradient."""
        decay = self.scalars["decay"]
        return self.decay_mode is WeightDecayMode.Decay and not (decay.const and decay.value == 0)

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        gradient, changes = self.gradients.total(tensors)
        if self.cast:
            gradient = gradient.astype(jnp.float32)
        gradient = scaled(gradient, hyper["scale"])
        if self.decay_mode is WeightDecayMode.L2Regularization:
            gradient = scaled_add(gradient, param, hyper["decay"])
        return gradient, changes
