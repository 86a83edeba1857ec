"""The updates of SGD: without momentum, with a velocity that is the accumulator too, or with both apart.

Source: PopART's sgd0decompose.cpp and sgd0varupdatex.cpp; sgd1decompose.cpp, sgd1acclupdatex.cpp and sgd1nesterovx.cpp; sgd2decompose.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.names import reservedAccl1Prefix, reservedAcclPrefix
from tilestep.popart.optimizers.arithmetic import Arrays, Number, scaled, scaled_add
from tilestep.popart.optimizers.context import UpdateContext
from tilestep.popart.optimizers.scalars import Hyper, Weight
from tilestep.popart.optimizers.weight_rule import StoringRule, WeightRule


@dataclass(frozen=True, kw_only=True)
class PlainRule(StoringRule):
    """`w = decay * w - rate * g`."""

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule."""
        del param
        return self.gradients.init()

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        del hyper, param
        return self.gradients.total(tensors)

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        del tensors
        return scaled_add(scaled(param, hyper["decay"]), updater, -hyper["rate"]), {}


@dataclass(frozen=True, kw_only=True)
class CombinedRule(WeightRule):
    """For each microbatch `v += dampening * g`; then `w -= rate * v` and `v = momentum * v + decay * w`; v is `Accl___w`.

    After an update the velocity is multiplied by the momentum and gets its share of weight decay at once, so that the next batch's
    gradients can be added to it. Values that the host changes therefore come into full effect one update later.
    """

    weight: Weight
    context: UpdateContext
    nesterov: bool

    @property
    def _velocity(self) -> str:
        return reservedAcclPrefix() + self.weight.id

    @property
    def _gradient(self) -> str:
        return f"{self._velocity}_nesterovGrad"

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule. The velocity begins with the first update's weight decay in it."""
        arrays = {self._velocity: param * jnp.asarray(self.scalars["decay"].value, param.dtype)}
        return {**arrays, self._gradient: jnp.zeros_like(param)} if self.nesterov else arrays

    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        """See WeightRule."""
        if not self.context.accumulates:
            gradient = self._reduced(gradient)
        arrays = {self._velocity: scaled_add(tensors[self._velocity], gradient, hyper["dampening"])}
        return {**arrays, self._gradient: scaled_add(tensors[self._gradient], gradient)} if self.nesterov else arrays

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        velocity = tensors[self._velocity]
        if self.context.accumulates:
            velocity = self._reduced(velocity)
        if not self.nesterov:
            return velocity, {self._velocity: velocity}
        gradient = tensors[self._gradient]
        if self.context.accumulates:
            gradient = self._reduced(gradient)
        return _nesterov(hyper, gradient, param, velocity), {self._velocity: velocity, self._gradient: jnp.zeros_like(gradient)}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule. The velocity's share of weight decay is of the new weight."""
        new = scaled_add(param, updater, -hyper["rate"])
        velocity = scaled(tensors[self._velocity], hyper["momentum"])
        return new, {self._velocity: _decayed(velocity, new, hyper["decay"])}

    def _reduced(self, array: jax.Array) -> jax.Array:
        return self.context.reduced(self.weight.id, array)


@dataclass(frozen=True, kw_only=True)
class SeparateRule(StoringRule):
    """`v = momentum * v + decay * w + dampening * g`, then `w -= rate * v`; v is `Accl1___w`.

    Args:
        dtype: the type of v.
        nesterov: whether the weight's update is Nesterov's.
    """

    dtype: np.dtype[np.generic]
    nesterov: bool

    @property
    def _velocity(self) -> str:
        return reservedAccl1Prefix() + self.gradients.weight.id

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule."""
        return {**self.gradients.init(), self._velocity: jnp.zeros(param.shape, self.dtype)}

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        gradient, changes = self.gradients.total(tensors)
        velocity = _decayed(scaled(tensors[self._velocity], hyper["momentum"]), param, hyper["decay"])
        velocity = scaled_add(velocity, gradient, hyper["dampening"])
        updater = _nesterov(hyper, gradient, param, velocity) if self.nesterov else velocity
        return updater, {**changes, self._velocity: velocity}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule."""
        del tensors
        return scaled_add(param, updater, -hyper["rate"]), {}


def _decayed(velocity: jax.Array, param: jax.Array, decay: Number) -> jax.Array:
    return velocity if isinstance(decay, float) and decay == 0.0 else scaled_add(velocity, param, decay)


def _nesterov(hyper: Hyper, gradient: jax.Array, param: jax.Array, velocity: jax.Array) -> jax.Array:
    """`scale * (g / ls + wd * w) + mm * v`: what is subtracted from the weight, but for the learning rate; in the gradient's type.

    The gradient is divided by the loss scaling only, as in the original: a mean that divides at the end divides the velocity and not this.
    Source: PopART's sgd1nesterovx.cpp.
    """
    inverse_loss_scale = hyper["dampening"] * hyper["nesterov_undo_dampening"]
    decayed = scaled_add(gradient, param, hyper["nesterov_decay"], keep=inverse_loss_scale)
    return scaled_add(decayed, velocity, hyper["nesterov_momentum"], keep=hyper["nesterov_scale"])
