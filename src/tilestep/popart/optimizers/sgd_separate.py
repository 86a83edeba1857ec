"""SGD with an accumulator `Accum___w` and a velocity `Accl1___w`. Source: PopART's sgd2decompose.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.names import reservedAccl1Prefix
from tilestep.popart.optimizers.arithmetic import scaled, scaled_add
from tilestep.popart.optimizers.gradients import GradientStore
from tilestep.popart.optimizers.rule import Arrays, UpdateContext
from tilestep.popart.optimizers.scalars import Hyper, Scalar, Weight
from tilestep.popart.optimizers.sgd_nesterov import Nesterov


@dataclass(frozen=True, kw_only=True)
class SeparateRule:
    """`v = momentum * v + decay * w + dampening * g`, then `w -= rate * v`."""

    gradients: GradientStore
    dtype: np.dtype[np.generic]
    dampening: Scalar
    rate: Scalar
    momentum: Scalar
    decay: Scalar
    nesterov: Nesterov | None

    @classmethod
    def of(
        cls,
        weight: Weight,
        context: UpdateContext,
        scalars: Mapping[str, Scalar],
        accum: np.dtype[np.generic],
        accl1: np.dtype[np.generic],
        *,
        nesterov: bool,
    ) -> Self:
        """The rule of one weight; `accum` and `accl1` are the types of its accumulator and its velocity."""
        return cls(
            gradients=GradientStore(weight=weight, dtype=accum, context=context),
            dtype=accl1,
            dampening=scalars["dampeningScaleFactor2"],
            rate=scalars["scaledLearningRate2"],
            momentum=scalars["scaledMomentum2"],
            decay=scalars["scaledWeightDecay1"],
            nesterov=Nesterov.of(scalars, "2") if nesterov else None,
        )

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """See WeightRule."""
        return (self.dampening, self.rate, self.momentum, self.decay, *(self.nesterov.scalars if self.nesterov else ()))

    @property
    def _velocity(self) -> str:
        return reservedAccl1Prefix() + self.gradients.weight.id

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule."""
        return {**self.gradients.init(), self._velocity: jnp.zeros(param.shape, self.dtype)}

    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        """See WeightRule."""
        del hyper
        return self.gradients.add(tensors, gradient)

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        gradient, changes = self.gradients.total(tensors)
        velocity = scaled(tensors[self._velocity], hyper(self.momentum))
        decay = hyper(self.decay)
        if not isinstance(decay, float) or decay != 0.0:
            velocity = scaled_add(velocity, param, decay)
        velocity = scaled_add(velocity, gradient, hyper(self.dampening))
        updater = velocity if self.nesterov is None else self.nesterov(hyper, gradient, param, velocity)
        return updater, {**changes, self._velocity: velocity}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        del tensors
        return scaled_add(param, updater, -hyper(self.rate)), {}
