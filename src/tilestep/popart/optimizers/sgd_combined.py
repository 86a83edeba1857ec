"""SGD whose accumulator is its velocity, `Accl___w`. Source: PopART's sgd1decompose.cpp, sgd1acclupdatex.cpp and sgd1nesterovx.cpp.

After an update the velocity is multiplied by the momentum and gets its share of weight decay at once, so that the next batch's gradients
can be added to it. Values that the host changes therefore come into full effect one update later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.names import reservedAcclPrefix
from tilestep.popart.optimizers.arithmetic import scaled, scaled_add
from tilestep.popart.optimizers.rule import Arrays, UpdateContext
from tilestep.popart.optimizers.scalars import Hyper, Scalar, Weight
from tilestep.popart.optimizers.sgd_nesterov import Nesterov


@dataclass(frozen=True, kw_only=True)
class CombinedRule:
    """For each microbatch `v += dampening * g`; then `w -= rate * v` and `v = momentum * v + decay * w`."""

    weight: Weight
    context: UpdateContext
    dampening: Scalar
    rate: Scalar
    momentum: Scalar
    decay: Scalar
    nesterov: Nesterov | None

    @classmethod
    def of(cls, weight: Weight, context: UpdateContext, scalars: Mapping[str, Scalar], *, nesterov: bool) -> Self:
        """The rule of one weight.

        Raises: popart_exception if gradients of a weight that groups of replicas share are accumulated.
        """
        if context.accumulates and weight.id in context.groups:
            raise popart_exception(
                f"Gradients of '{weight.id}', which groups of replicas share, can't be accumulated in a velocity: choose "
                "SGDAccumulatorAndMomentum.Separate"
            )
        return cls(
            weight=weight,
            context=context,
            dampening=scalars["dampeningScaleFactor1"],
            rate=scalars["scaledLearningRate1"],
            momentum=scalars["scaledMomentum1"],
            decay=scalars["scaledWeightDecay1"],
            nesterov=Nesterov.of(scalars, "1") if nesterov else None,
        )

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """See WeightRule."""
        return (self.dampening, self.rate, self.momentum, self.decay, *(self.nesterov.scalars if self.nesterov else ()))

    @property
    def _velocity(self) -> str:
        return reservedAcclPrefix() + self.weight.id

    @property
    def _gradient(self) -> str:
        return f"{self._velocity}_nesterovGrad"

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule. The velocity begins with the first update's weight decay in it."""
        arrays = {self._velocity: param * jnp.asarray(self.decay.value, param.dtype)}
        return {**arrays, self._gradient: jnp.zeros_like(param)} if self.nesterov else arrays

    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        """See WeightRule."""
        if not self.context.accumulates:
            gradient = self._reduced(gradient)
        arrays = {self._velocity: scaled_add(tensors[self._velocity], gradient, hyper(self.dampening))}
        return {**arrays, self._gradient: scaled_add(tensors[self._gradient], gradient)} if self.nesterov else arrays

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        velocity = tensors[self._velocity]
        if self.context.accumulates:
            velocity = self._reduced(velocity)
        if self.nesterov is None:
            return velocity, {self._velocity: velocity}
        gradient = tensors[self._gradient]
        if self.context.accumulates:
            gradient = self._reduced(gradient)
        updater = self.nesterov(hyper, gradient, param, velocity)
        return updater, {self._velocity: velocity, self._gradient: jnp.zeros_like(gradient)}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule. The velocity's share of weight decay is of the new weight."""
        new = scaled_add(param, updater, -hyper(self.rate))
        velocity = scaled(tensors[self._velocity], hyper(self.momentum))
        decay = hyper(self.decay)
        if not isinstance(decay, float) or decay != 0.0:
            velocity = scaled_add(velocity, new, decay)
        return new, {self._velocity: velocity}

    def _reduced(self, array: jax.Array) -> jax.Array:
        return self.context.reduced(self.weight.id, array)
