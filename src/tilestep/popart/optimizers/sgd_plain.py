"""SGD without momentum. Source: PopART's sgd0decompose.cpp and sgd0varupdatex.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import jax
import numpy as np

from tilestep.popart.optimizers.arithmetic import scaled, scaled_add
from tilestep.popart.optimizers.gradients import GradientStore
from tilestep.popart.optimizers.rule import Arrays, UpdateContext
from tilestep.popart.optimizers.scalars import Hyper, Scalar, Weight


@dataclass(frozen=True, kw_only=True)
class PlainRule:
    """`w = decay * w - rate * g`."""

    gradients: GradientStore
    decay: Scalar
    rate: Scalar

    @classmethod
    def of(cls, weight: Weight, context: UpdateContext, scalars: Mapping[str, Scalar], accum: np.dtype[np.generic]) -> Self:
        """The rule of one weight; `accum` is the type in which gradients are accumulated."""
        store = GradientStore(weight=weight, dtype=accum, context=context)
        return cls(gradients=store, decay=scalars["weightDecayScaleFactor0"], rate=scalars["scaledLearningRate0"])

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """See WeightRule."""
        return (self.decay, self.rate)

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule."""
        del param
        return self.gradients.init()

    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        """See WeightRule."""
        del hyper
        return self.gradients.add(tensors, gradient)

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        del hyper, param
        return self.gradients.total(tensors)

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        del tensors
        return scaled_add(scaled(param, hyper(self.decay)), updater, -hyper(self.rate)), {}
