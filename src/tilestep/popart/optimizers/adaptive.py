"""AdaGrad, RMSProp, CenteredRMSProp and AdaDelta. Source: PopART's adaptive.cpp and adaptive.hpp.

Source: PopART's adaptivedecompose.cpp, rmspropupdaterx.cpp, adadeltaupdaterx.cpp and scaledvarupdatex.cpp.

    g = gradient * scale (+ wd * w with L2 regularization)
    s = a * s + (1 - a) * g ** 2, or s + g ** 2 for AdaGrad
    u = g / (sqrt(s) + eps)                         AdaGrad, RMSProp; CenteredRMSProp takes the mean's square from s
    u = g * sqrt(d + eps) / sqrt(s + eps)           AdaDelta, with d = a * d + (1 - a) * u ** 2 afterwards
    w = w * (1 - lr * wd) - lr * u                  with momentum m: b = m * b + u in the place of u

TensorFlow's variant of RMSProp adds eps inside the root, begins with s = 1, and puts the learning rate into b.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import AdaptiveMode, DataType, WeightDecayMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.names import reservedAccl1Prefix, reservedAccl2Prefix, reservedAccl3Prefix
from tilestep.popart.optimizers.optimizer import Optimizer, no_replacement
from tilestep.popart.optimizers.scalars import (
    FLOAT16,
    FLOAT32,
    Arrays,
    Hyper,
    Scalar,
    Weight,
    as_type,
    by_kind,
    compound,
    moving_average,
    moving_average_of_squares,
    scaled,
    scaled_add,
    state_type,
)
from tilestep.popart.optimizers.values import OptimizerValueMap, ScalarKind
from tilestep.popart.optimizers.weight_rule import GradientStore, ScalingRule, UpdateContext, WeightRule


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
        names, types = self._names, self.types
        arrays = {names[0]: jnp.full(param.shape, 1.0 if self.tf_variant else 0.0, types[0])}
        if self.mode in (AdaptiveMode.CenteredRMSProp, AdaptiveMode.AdaDelta):
            arrays[names[1]] = jnp.zeros(param.shape, types[1])
        if self._has_momentum:
            arrays[names[2]] = jnp.zeros(param.shape, types[2])
        return {**self.gradients.init(), **arrays}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """`updater` is the gradient; no weight's is clipped."""
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


class Adaptive(Optimizer):
    """Optimizers whose learning rate adapts to each element's past gradients.

    `accl2_type` is what the program gives. PopART's constructor puts `accl1_type` in its place, a slip that its documentation doesn't have.

    Args:
        values: (value, whether it is constant) by key. Without them: defaultLearningRate (0.01, True), defaultWeightDecay (0, True),
            defaultAlpha (0.99, True), defaultMomentum (0, True), defaultEps (1e-6, True), lossScaling (1, True).
        mode: the member of the family.
        weight_decay_mode: Decay takes weight decay from the weight, L2Regularization adds it to the gradient.
        accum_type: FLOAT, FLOAT16, or UNDEFINED for the weight's type, of the accumulated gradient `Accum___w`.
        accl1_type: the same of the squares `Accl1___w`.
        accl2_type: the same of CenteredRMSProp's mean or AdaDelta's updates, `Accl2___w`.
        accl3_type: the same of the momentum `Accl3___w`.
        rmsprop_tf_variant: whether (Centered)RMSProp is TensorFlow's.
        debugContext: ignored.

    Raises:
        popart_exception: for a key that doesn't exist, or a value that makes no sense.
    """

    _family: ClassVar[str] = "Adaptive"
    _kinds: ClassVar[Mapping[str, ScalarKind]] = {
        "learningRate": ScalarKind(0.01, "learning rates"),
        "weightDecay": ScalarKind(0.0, "weight decays", "weight decay"),
        "alpha": ScalarKind(0.99, "alphas", "alpha"),
        "momentum": ScalarKind(0.0, "momentums", "momentum"),
        "eps": ScalarKind(1e-6, "eps", "eps", positive=True),
        "lossScaling": ScalarKind(1.0, "loss scaling"),
    }

    def __init__(
        self,
        values: Mapping[str, tuple[float, bool]],
        mode: AdaptiveMode = AdaptiveMode.RMSProp,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        accl3_type: DataType = DataType.UNDEFINED,
        rmsprop_tf_variant: bool = False,
        debugContext: Any = "adaptive",
    ) -> None:
        super().__init__(values, ())
        if rmsprop_tf_variant and mode not in (AdaptiveMode.RMSProp, AdaptiveMode.CenteredRMSProp):
            raise popart_exception("The rmspropTFVariant parameter is only valid with the RMSProp and CenteredRMSProp optimizers.")
        self._mode, self._decay_mode, self._tf_variant = mode, weight_decay_mode, rmsprop_tf_variant
        self._types = (accum_type, accl1_type, accl2_type, accl3_type)

    def alphas(self) -> OptimizerValueMap:
        """How much of the squares, and of the mean, is kept."""
        return self._values["alpha"]

    def momentums(self) -> OptimizerValueMap:
        """The momentums."""
        return self._values["momentum"]

    def epss(self) -> OptimizerValueMap:
        """What keeps the divisor from 0."""
        return self._values["eps"]

    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """Source: PopART's compoundscalarhelper.hpp."""
        ls = self._loss_scaling
        lr, wd, alpha, momentum, eps = self._of(weight).values()
        divisor = ls.float32 * context.post_accumulation * context.post_replication
        return by_kind(
            compound("learningRate", weight, lr.float32, lr),
            compound("weightDecay", weight, wd.float32, wd),
            compound("adaptiveAlpha", weight, alpha.float32, alpha),
            compound("adaptiveMomentum", weight, momentum.float32, momentum),
            compound("adaptiveEps", weight, eps.float32, eps),
            compound("lossScaling", weight, ls.float32, ls),
            compound("adaptiveGradientScaling", weight, np.float32(1.0) / divisor, ls, inverse_loss_scale=True),
        )

    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        scalars = self.scalars(weight, context)
        accum, accl1, accl2, accl3 = (state_type(type, weight) for type in self._types)
        return AdaptiveRule(
            gradients=GradientStore(weight=weight, dtype=accum, context=context),
            mode=self._mode,
            decay_mode=self._decay_mode,
            tf_variant=self._tf_variant,
            types=(accl1, accl2, accl3),
            cast=(accum, accl1, accl2) == (FLOAT16, FLOAT32, FLOAT32),
            scalars={
                "scale": scalars["adaptiveGradientScaling"],
                "rate": scalars["learningRate"],
                "decay": scalars["weightDecay"],
                "alpha": scalars["adaptiveAlpha"],
                "momentum": scalars["adaptiveMomentum"],
                "eps": scalars["adaptiveEps"],
            },
        )

    def _check_modes(self, other: Optimizer) -> None:
        assert isinstance(other, Adaptive)  # the caller has compared their kinds
        if other._mode is not self._mode:
            raise no_replacement("Adaptive modes do not match")
        if other._decay_mode is not self._decay_mode:
            raise no_replacement("Weight decay modes do not match")
