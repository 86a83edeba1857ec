"""The update of adaptive learning rates.

Source: PopART's adaptivedecompose.cpp, rmspropupdaterx.cpp, adadeltaupdaterx.cpp and scaledvarupdatex.cpp.

    g = gradient * scale (+ wd * w with L2 regularization)
    s = a * s + (1 - a) * g ** 2, or s + g ** 2 for AdaGrad
    u = g / (sqrt(s) + eps)                         AdaGrad, RMSProp; CenteredRMSProp takes the mean's square from s
    u = g * sqrt(d + eps) / sqrt(s + eps)           AdaDelta, with d = a * d + (1 - a) * u ** 2 afterwards
    w = w * (1 - lr * wd) - lr * u                  with momentum m: b = m * b + u in the place of u

TensorFlow's variant of RMSProp adds eps inside the root, begins with s = 1, and puts the learning rate into b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import AdaptiveMode
from tilestep.popart.names import reservedAccl1Prefix, reservedAccl2Prefix, reservedAccl3Prefix
from tilestep.popart.optimizers.arithmetic import Arrays, as_type, moving_average, moving_average_of_squares, scaled, scaled_add
from tilestep.popart.optimizers.scalars import Hyper
from tilestep.popart.optimizers.weight_rule import ScalingRule


@dataclass(frozen=True, kw_only=True)
class AdaptiveRule(ScalingRule):
    """The update of one weight. Its scalars are scale, rate, decay, alpha, momentum and eps.

    Args:
        mode: the member of the family.
        tf_variant: whether RMSProp is TensorFlow's.
        types: the types of s, `Accl1___w`; of the mean or d, `Accl2___w`; of b, `Accl3___w`.
    """

    mode: AdaptiveMode
    tf_variant: bool
    types: tuple[np.dtype[np.generic], np.dtype[np.generic], np.dtype[np.generic]]

    @property
    def _names(self) -> tuple[str, str, str]:
        id = self.gradients.weight.id
        return reservedAccl1Prefix() + id, reservedAccl2Prefix() + id, reservedAccl3Prefix() + id

    @property
    def _has_momentum(self) -> bool:
        momentum = self.scalars["momentum"]
        return not momentum.const or bool(momentum.value > 0)

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule."""
        names, types = self._names, self.types
        arrays = {names[0]: jnp.full(param.shape, 1.0 if self.tf_variant else 0.0, types[0])}
        if self.mode in (AdaptiveMode.CenteredRMSProp, AdaptiveMode.AdaDelta):
            arrays[names[1]] = jnp.zeros(param.shape, types[1])
        if self._has_momentum:
            arrays[names[2]] = jnp.zeros(param.shape, types[2])
        return {**self.gradients.init(), **arrays}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule. `updater` is the gradient; no weight's is clipped."""
        direction, changes = self._direction(hyper, tensors, updater)
        rate = hyper["rate"]
        rate_in_momentum = self.tf_variant and self._has_momentum
        if self._has_momentum:
            if rate_in_momentum:
                direction = scaled(direction, rate)
            name = self._names[2]
            kept = scaled(tensors[name], hyper["momentum"])
            changes[name] = direction = kept + direction.astype(kept.dtype)
        if rate_in_momentum:
            rate = 1.0
        keep = 1.0 - rate * hyper["decay"] if self.decays else 1.0
        return scaled_add(param, direction.astype(param.dtype), -rate, keep=keep), changes

    def _direction(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> tuple[jax.Array, Arrays]:
        first, second, _ = self._names
        alpha, eps = hyper["alpha"], hyper["eps"]
        squares = tensors[first]
        if self.mode is AdaptiveMode.AdaGrad:
            squares = squares + jnp.square(gradient.astype(squares.dtype))
        else:
            squares = moving_average_of_squares(squares, gradient, alpha)
        changes = {first: squares}
        spread = squares
        if self.mode is AdaptiveMode.CenteredRMSProp:
            mean = moving_average(tensors[second], gradient, alpha)
            changes[second] = mean
            spread = squares - jnp.square(mean.astype(squares.dtype))
        cast = gradient.astype(squares.dtype)
        if self.mode is AdaptiveMode.AdaDelta:
            moved = tensors[second]
            direction = jnp.sqrt(moved.astype(squares.dtype) + as_type(eps, squares)) / jnp.sqrt(squares + as_type(eps, squares)) * cast
            changes[second] = moving_average_of_squares(moved, direction.astype(gradient.dtype), alpha)
        elif self.tf_variant:
            direction = cast / jnp.sqrt(spread + as_type(eps, squares))
        else:
            direction = cast / (jnp.sqrt(spread) + as_type(eps, squares))
        return direction.astype(gradient.dtype), changes
