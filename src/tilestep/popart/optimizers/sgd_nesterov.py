"""Nesterov's momentum of SGD. Source: PopART's sgd1nesterovx.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import jax

from tilestep.popart.optimizers.arithmetic import scaled_add
from tilestep.popart.optimizers.scalars import Hyper, Scalar


@dataclass(frozen=True, kw_only=True)
class Nesterov:
    """`scale * (g / ls + wd * w) + mm * v`.

    The gradient is divided by the loss scaling only, as in the original: a mean that divides at the end divides the velocity and not this.
    """

    dampening: Scalar
    undo_dampening: Scalar
    scale: Scalar
    momentum: Scalar
    decay: Scalar

    @classmethod
    def of(cls, scalars: Mapping[str, Scalar], number: Literal["1", "2"]) -> Self:
        """For SGD Combined ("1") or Separate ("2")."""
        return cls(
            dampening=scalars[f"dampeningScaleFactor{number}"],
            undo_dampening=scalars[f"nesterovDampeningScaleFactor{number}"],
            scale=scalars[f"nesterovGradScaleFactor{number}"],
            momentum=scalars["sgdMomentum"],
            decay=scalars["sgdWeightDecay"],
        )

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """See WeightRule."""
        return (self.dampening, self.undo_dampening, self.scale, self.momentum, self.decay)

    def __call__(self, hyper: Hyper, gradient: jax.Array, param: jax.Array, velocity: jax.Array) -> jax.Array:
        """What is subtracted from the weight, but for the learning rate; in the gradient's type."""
        inverse_loss_scale = hyper(self.dampening) * hyper(self.undo_dampening)
        decayed = scaled_add(gradient, param, hyper(self.decay), keep=inverse_loss_scale)
        return scaled_add(decayed, velocity, hyper(self.momentum), keep=hyper(self.scale))
