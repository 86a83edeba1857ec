"""Adam, AdamNoBias, AdaMax, Lamb and LambNoBias; with decay as weight decay's mode, AdamW. Source: PopART's adam.cpp and adam.hpp.

    g = gradient * scale (+ wd * w with L2 regularization)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g ** 2, or max(b2 * v, |g|) for AdaMax
    u = (m / (1 - b1 ** t)) / (sqrt(v / (1 - b2 ** t)) + eps) (+ wd * w with decay)
    w -= lr * u, for Lamb times min(norm of w, max weight norm) / norm of u, or 1 if a norm is 0

AdaMax corrects the bias of m alone, and takes no root.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import AdamMode, DataType, WeightDecayMode
from tilestep.popart.exceptions import popart_exception, popart_internal_exception
from tilestep.popart.names import reservedAccl1Prefix, reservedAccl2Prefix, reservedStepPrefix
from tilestep.popart.optimizers.clipping import ClipNormSettings
from tilestep.popart.optimizers.optimizer import Optimizer, no_replacement
from tilestep.popart.optimizers.scalars import (
    FLOAT16,
    FLOAT32,
    Arrays,
    Hyper,
    Number,
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
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap, ScalarKind
from tilestep.popart.optimizers.weight_rule import GradientStore, ScalingRule, UpdateContext, WeightRule

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
        accl1, accl2, step = self._names
        arrays = {accl1: jnp.zeros(param.shape, self.accl1_type), accl2: jnp.zeros(param.shape, self.accl2_type)}
        if self.mode in BIAS_CORRECTED:
            arrays[step] = jnp.zeros((), jnp.float32)
        if self.rescales:
            arrays[self._previous] = jnp.asarray(self.scalars["loss_scaling"].value)
        return {**self.gradients.init(), **arrays}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
        """`updater` is the gradient."""
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


_ONE: Final = OptimizerValue(1.0, True)
_ROLES: Final = {
    "scale": "adamGradientScaling",
    "rate": "learningRate",
    "decay": "weightDecay",
    "beta1": "adamBeta1",
    "beta2": "adamBeta2",
    "eps": "adamEps",
    "max_norm": "maxWeightNorm",
}


class Adam(Optimizer):
    """Adam and its family.

    `beta2s()` gives the beta2s. PopART's binding gives the beta1s there, a slip that its C++ class doesn't have.

    Args:
        values: (value, whether it is constant) by key. Without them: defaultLearningRate (0.1, True), defaultWeightDecay (0, True),
            defaultBeta1 (0.9, True), defaultBeta2 (0.999, True), defaultEps (1e-6, True), lossScaling (1, True),
            defaultMaxWeightNorm (10, True), which only Lamb looks at.
        mode: the member of the family.
        weight_decay_mode: Decay adds weight decay to the update (AdamW), L2Regularization to the gradient.
        accum_type: FLOAT, FLOAT16, or UNDEFINED for the weight's type, of the accumulated gradient `Accum___w`.
        accl1_type: the same of the first moment `Accl1___w`.
        accl2_type: the same of the second moment `Accl2___w`.
        clip_norm_settings: groups of weights whose gradients' norm is bounded.
        scaled_optimizer_state: whether the loss scaling stays in the moments.
        debugContext: ignored.

    Raises:
        popart_exception: for a key that doesn't exist, or a value that makes no sense.
    """

    _family: ClassVar[str] = "Adam"
    _kinds: ClassVar[Mapping[str, ScalarKind]] = {
        "learningRate": ScalarKind(0.1, "learning rates"),
        "weightDecay": ScalarKind(0.0, "weight decays", "weight decay"),
        "beta1": ScalarKind(0.9, "beta1s", "beta1"),
        "beta2": ScalarKind(0.999, "beta2s", "beta2"),
        "eps": ScalarKind(1e-6, "eps", "eps", positive=True),
        "lossScaling": ScalarKind(1.0, "loss scaling"),
        "maxWeightNorm": ScalarKind(10.0, "mwn"),
    }
    _aliases: ClassVar[Mapping[str, str]] = {"maxWeightNorm": "maxWeightNorm"}  # the old name of defaultMaxWeightNorm

    def __init__(
        self,
        values: Mapping[str, tuple[float, bool]],
        mode: AdamMode = AdamMode.Adam,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        scaled_optimizer_state: bool = False,
        debugContext: Any = "adam",
    ) -> None:
        super().__init__(values, clip_norm_settings)
        self._mode, self._decay_mode = mode, weight_decay_mode
        self._types = (accum_type, accl1_type, accl2_type)
        self._scaled_state = scaled_optimizer_state

    def beta1s(self) -> OptimizerValueMap:
        """How much of the first moment is kept."""
        return self._values["beta1"]

    def beta2s(self) -> OptimizerValueMap:
        """How much of the second moment is kept."""
        return self._values["beta2"]

    def epss(self) -> OptimizerValueMap:
        """What is added to the root of the second moment."""
        return self._values["eps"]

    def maxWeightNorms(self) -> OptimizerValueMap:
        """The largest norm of a weight that Lamb looks at."""
        return self._values["maxWeightNorm"]

    def useScaledOptimizerState(self) -> bool:
        """Whether the loss scaling stays in the moments."""
        return self._scaled_state

    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """Source: PopART's compoundscalarhelper.hpp."""
        ls = self._loss_scaling
        lr, wd, b1, b2, eps, mwn = self._of(weight).values()
        in_decay = ls if self._scaled_state and self._decay_mode is WeightDecayMode.L2Regularization else _ONE
        in_eps = ls if self._scaled_state else _ONE
        in_scale = _ONE if self._scaled_state else ls
        divisor = in_scale.float32 * context.post_accumulation * context.post_replication
        return by_kind(
            compound("learningRate", weight, lr.float32, lr),
            compound("weightDecay", weight, wd.float32 * in_decay.float32, wd, in_decay),
            compound("adamBeta1", weight, b1.float32, b1),
            compound("adamBeta2", weight, b2.float32, b2),
            compound("adamEps", weight, eps.float32 * in_eps.float32, eps, in_eps),
            compound("lossScaling", weight, ls.float32, ls),
            compound("maxWeightNorm", weight, mwn.float32, mwn),
            compound("adamGradientScaling", weight, np.float32(1.0) / divisor, in_scale, inverse_loss_scale=not self._scaled_state),
        )

    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        if self._scaled_state and context.automatic_loss_scaling is not None:
            raise popart_exception("scaledOptimizerState and automaticLossScaling are not compatible.")
        scalars = self.scalars(weight, context)
        accum, accl1, accl2 = (state_type(type, weight) for type in self._types)
        rescales = self._scaled_state and not self._loss_scaling.isConst()
        if rescales and self._clip_norm_settings:
            raise popart_internal_exception(
                "These should be AccumulateOps: clipping isn't supported with scaled_optimizer_state and a loss scaling that may change. "
                "Make one of the two constant or False"
            )
        roles = {**_ROLES, "loss_scaling": "lossScaling"} if rescales else _ROLES
        return AdamRule(
            gradients=GradientStore(weight=weight, dtype=accum, context=context),
            mode=self._mode,
            decay_mode=self._decay_mode,
            accl1_type=accl1,
            accl2_type=accl2,
            cast=not self._scaled_state and (accum, accl1, accl2) == (FLOAT16, FLOAT32, FLOAT32),
            scalars={role: scalars[kind] for role, kind in roles.items()},
        )

    def _check_modes(self, other: Optimizer) -> None:
        assert isinstance(other, Adam)  # the caller has compared their kinds
        if other._mode is not self._mode:
            raise no_replacement("Adam modes do not match")
        if other._decay_mode is not self._decay_mode:
            raise no_replacement("Weight decay modes do not match")
