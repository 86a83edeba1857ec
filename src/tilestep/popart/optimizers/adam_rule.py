"""The update of Adam's family. Source: PopART's adamdecompose.cpp, adamupdaterx.cpp, adamvarupdatex.cpp, accumulatex.cpp and lambx.cpp.

    g = gradient * scale (+ wd * w with L2 regularization)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g ** 2, or max(b2 * v, |g|) for AdaMax
    u = (m / (1 - b1 ** t)) / (sqrt(v / (1 - b2 ** t)) + eps) (+ wd * w with decay)
    w -= lr * u, for Lamb times min(norm of w, max weight norm) / norm of u, or 1 if a norm is 0

AdaMax corrects the bias of m alone, and takes no root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import AdamMode
from tilestep.popart.names import reservedAccl1Prefix, reservedAccl2Prefix, reservedStepPrefix
from tilestep.popart.optimizers.arithmetic import Arrays, Number, as_type, moving_average, moving_average_of_squares, scaled, scaled_add
from tilestep.popart.optimizers.scalars import Hyper
from tilestep.popart.optimizers.weight_rule import ScalingRule

BIAS_CORRECTED = (AdamMode.Adam, AdamMode.Lamb, AdamMode.AdaMax)
LAMB = (AdamMode.Lamb, AdamMode.LambNoBias)


@dataclass(frozen=True, kw_only=True)
class AdamRule(ScalingRule):
    """The update of one weight. Its scalars are scale, rate, decay, beta1, beta2, eps, max_norm; and loss_scaling if it rescales.

    Args:
        mode: the member of the family.
        accl1_type: the type of m, `Accl1___w`.
        accl2_type: the type of v, `Accl2___w`.
    """

    mode: AdamMode
    accl1_type: np.dtype[np.generic]
    accl2_type: np.dtype[np.generic]

    @property
    def rescales(self) -> bool:
        """Whether m and v have a loss scaling in them that may change."""
        return "loss_scaling" in self.scalars

    @property
    def _names(self) -> tuple[str, str, str]:
        id = self.gradients.weight.id
        return reservedAccl1Prefix() + id, reservedAccl2Prefix() + id, reservedStepPrefix() + id

    @property
    def _previous(self) -> str:
        """The loss scaling that m and v have in them, shared by the weights that share its value."""
        return self.scalars["loss_scaling"].name.replace("lossScaling_", "PreviousLossScaling_", 1)

    def init(self, param: jax.Array) -> Arrays:
        """See WeightRule."""
        accl1, accl2, step = self._names
        arrays = {accl1: jnp.zeros(param.shape, self.accl1_type), accl2: jnp.zeros(param.shape, self.accl2_type)}
        if self.mode in BIAS_CORRECTED:
            arrays[step] = jnp.zeros((), jnp.float32)
        if self.rescales:
            arrays[self._previous] = jnp.asarray(self.scalars["loss_scaling"].value)
        return {**self.gradients.init(), **arrays}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """See WeightRule. `updater` is the gradient."""
        moments, changes = self._moments(hyper, tensors, updater)
        step: jax.Array | None = None
        if self.mode in BIAS_CORRECTED:
            step = tensors[self._names[2]] + 1.0
            changes[self._names[2]] = step
        direction = self._direction(hyper, *moments, step)
        if self.decays:
            direction = direction.astype(param.dtype) + scaled(param, hyper["decay"])
        return scaled_add(param, direction, -(hyper["rate"] * self._trust(hyper, param, direction))), changes

    def _moments(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Arrays]:
        accl1, accl2, _ = self._names
        first, second = tensors[accl1], tensors[accl2]
        beta1, beta2 = hyper["beta1"], hyper["beta2"]
        changes: Arrays = {}
        if self.rescales:
            # A new loss scaling rescales what the old one has left behind: both by the same ratio, squares too, as in the original.
            new = jnp.asarray(hyper["loss_scaling"])
            ratio = new / tensors[self._previous]
            first, second = scaled(first, ratio), scaled(second, ratio)
            changes[self._previous] = new
        first = moving_average(first, gradient, beta1)
        if self.mode is AdamMode.AdaMax:
            second = jnp.maximum(scaled(second, beta2), jnp.abs(gradient).astype(second.dtype))
        else:
            second = moving_average_of_squares(second, gradient, beta2)
        return (first, second), {**changes, accl1: first, accl2: second}

    def _direction(self, hyper: Hyper, first: jax.Array, second: jax.Array, step: jax.Array | None) -> jax.Array:
        if step is not None:
            first = first / _correction(hyper["beta1"], step).astype(first.dtype)
            if self.mode is not AdamMode.AdaMax:
                second = second / _correction(hyper["beta2"], step).astype(second.dtype)
        root = second if self.mode is AdamMode.AdaMax else jnp.sqrt(second)
        eps = hyper["eps"]
        direction = first.astype(second.dtype) / (root + as_type(eps, second))
        return direction.astype(first.dtype)

    def _trust(self, hyper: Hyper, param: jax.Array, direction: jax.Array) -> Number:
        """What Lamb multiplies the learning rate with; norms are float32."""
        max_norm = hyper["max_norm"]
        if self.mode not in LAMB or (isinstance(max_norm, float) and max_norm == 0.0):
            return 1.0
        weight_norm, step_norm = _norm(param), _norm(direction)
        none = (weight_norm == 0.0) | (step_norm == 0.0) | (jnp.asarray(max_norm) == 0.0)
        return jnp.where(none, 1.0, jnp.minimum(weight_norm, max_norm) / step_norm)


def _correction(beta: Number, step: jax.Array) -> jax.Array:
    return 1.0 - jnp.power(jnp.asarray(beta, jnp.float32), step)


def _norm(array: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(jnp.square(array.astype(jnp.float32))))
