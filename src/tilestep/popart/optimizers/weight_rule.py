"""What a rule does for one weight, and where its gradients wait for the update: summed or averaged over microbatches, and over replicas.

Source: gradAccum, gradReduce and zeroAccumulator in PopART's optimizerdecompose.cpp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import WeightDecayMode
from tilestep.popart.names import reservedAccumPrefix, reservedFinalReducedGradPrefix
from tilestep.popart.optimizers.arithmetic import Arrays, scaled, scaled_add
from tilestep.popart.optimizers.context import UpdateContext
from tilestep.popart.optimizers.scalars import Hyper, Scalar, Weight

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
        """See WeightRule."""
        del hyper
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
        """See WeightRule."""
        gradient, changes = self.gradients.total(tensors)
        if self.cast:
            gradient = gradient.astype(jnp.float32)
        gradient = scaled(gradient, hyper["scale"])
        if self.decay_mode is WeightDecayMode.L2Regularization:
            gradient = scaled_add(gradient, param, hyper["decay"])
        return gradient, changes
