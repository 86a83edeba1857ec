"""Stochastic gradient descent: SGD, and ConstSGD whose values are all constant.

    v = mm * v + (1 - dm) * vs * (g / ls + wd * w)      w = w - lr / vs * v

with momentum mm, dampening dm, velocity scaling vs, loss scaling ls, weight decay wd and learning rate lr; with Nesterov's momentum the
weight's update is `vs * (g / ls + wd * w) + mm * v`. Source: PopART's sgd.cpp, sgd.hpp and compoundscalarhelper.cpp.

Source: PopART's compoundscalarhelper.hpp and .cpp, and the table of compound scalars in sgd.hpp.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.popart.enums import DataType, SGDAccumulatorAndMomentum
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.names import reservedAccl1Prefix, reservedAcclPrefix
from tilestep.popart.optimizers.clipping import ClipNormSettings
from tilestep.popart.optimizers.optimizer import Optimizer, no_replacement
from tilestep.popart.optimizers.scalars import Arrays, Hyper, Number, Scalar, Weight, by_kind, compound, scaled, scaled_add, state_type
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap, ScalarKind, shortest
from tilestep.popart.optimizers.weight_rule import GradientStore, StoringRule, UpdateContext, WeightRule


@dataclass(frozen=True, kw_only=True)
class PlainRule(StoringRule):
    """`w = decay * w - rate * g`."""

    def init(self, param: jax.Array) -> Arrays:
        return self.gradients.init()

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        return self.gradients.total(tensors)

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
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
        """The velocity begins with the first update's weight decay in it."""
        arrays = {self._velocity: param * jnp.asarray(self.scalars["decay"].value, param.dtype)}
        return {**arrays, self._gradient: jnp.zeros_like(param)} if self.nesterov else arrays

    def accumulate(self, hyper: Hyper, tensors: Mapping[str, jax.Array], gradient: jax.Array) -> Arrays:
        if not self.context.accumulates:
            gradient = self._reduced(gradient)
        arrays = {self._velocity: scaled_add(tensors[self._velocity], gradient, hyper["dampening"])}
        return {**arrays, self._gradient: scaled_add(tensors[self._gradient], gradient)} if self.nesterov else arrays

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
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
        """The velocity's share of weight decay is of the new weight."""
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
        return {**self.gradients.init(), self._velocity: jnp.zeros(param.shape, self.dtype)}

    def prepare(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array) -> tuple[jax.Array, Arrays]:
        gradient, changes = self.gradients.total(tensors)
        velocity = _decayed(scaled(tensors[self._velocity], hyper["momentum"]), param, hyper["decay"])
        velocity = scaled_add(velocity, gradient, hyper["dampening"])
        updater = _nesterov(hyper, gradient, param, velocity) if self.nesterov else velocity
        return updater, {**changes, self._velocity: velocity}

    def finish(self, hyper: Hyper, tensors: Mapping[str, jax.Array], param: jax.Array, updater: jax.Array) -> tuple[jax.Array, Arrays]:
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


_ONE = np.float32(1.0)


def sgd_scalars(weight: Weight, context: UpdateContext, values: Mapping[str, OptimizerValue]) -> dict[str, Scalar]:
    """Every compound scalar of a weight, by kind.

    Args:
        weight, context: of which weight, in which session.
        values: the weight's own, with the optimizer's lossScaling.
    """
    with np.errstate(all="ignore"):  # a dampening of 1 has an infinite inverse, which only Nesterov's momentum looks at
        return by_kind(*_plain(weight, context, values), *_combined(weight, context, values), *_separate(weight, context, values))


def _undamped(values: Mapping[str, OptimizerValue]) -> np.float32:
    """What dampening leaves of a gradient."""
    return _ONE - values["dampening"].float32


def _plain(weight: Weight, context: UpdateContext, v: Mapping[str, OptimizerValue]) -> tuple[Scalar, ...]:
    lr, wd, dm, ls = v["learningRate"], v["weightDecay"], v["dampening"], v["lossScaling"]
    divisor = ls.float32 * context.post_accumulation * context.post_replication
    decay = _ONE - lr.float32 * _undamped(v) * wd.float32
    rate = lr.float32 * _undamped(v) / divisor
    return (
        compound("weightDecayScaleFactor0", weight, decay, wd, lr, dm, in_type_of_weight=True),
        compound("scaledLearningRate0", weight, rate, lr, ls, dm, inverse_loss_scale=True),
    )


def _combined(weight: Weight, context: UpdateContext, v: Mapping[str, OptimizerValue]) -> tuple[Scalar, ...]:
    lr, wd, mm, dm, vs, ls = (
        v[name] for name in ("learningRate", "weightDecay", "momentum", "dampening", "velocityScaling", "lossScaling")
    )
    af = np.float32(context.accumulation if context.mean else 1)
    # The velocities of all replicas are summed, each with the same history in it: the velocity is `replicas` times too large in between.
    replication = np.float32(context.replication_factor)
    replicas = replication if context.accumulates else _ONE
    rf = _ONE
    if context.accumulates and not context.mean:
        rf = replication
    elif not context.accumulates and context.mean:
        rf = _ONE / replication
    dampening = _undamped(v) * vs.float32 * rf / (ls.float32 * af)
    undo = context.post_accumulation / (_undamped(v) * vs.float32 * rf)
    return (
        compound("scaledWeightDecay1", weight, _undamped(v) * wd.float32 * vs.float32, dm, wd, vs),
        compound("sgdMomentum", weight, mm.float32, mm, in_type_of_weight=True),
        compound("sgdWeightDecay", weight, wd.float32, wd),
        compound("dampeningScaleFactor1", weight, dampening, dm, vs, ls, inverse_loss_scale=True),
        compound("scaledLearningRate1", weight, lr.float32 / (vs.float32 * replicas), lr, vs),
        compound("scaledMomentum1", weight, mm.float32 / replicas, mm, in_type_of_weight=True),
        compound("nesterovDampeningScaleFactor1", weight, undo, dm, vs, ls),
        compound("nesterovGradScaleFactor1", weight, vs.float32 * replicas, vs),
    )


def _separate(weight: Weight, context: UpdateContext, v: Mapping[str, OptimizerValue]) -> tuple[Scalar, ...]:
    lr, mm, dm, vs, ls = (v[name] for name in ("learningRate", "momentum", "dampening", "velocityScaling", "lossScaling"))
    divisor = context.post_accumulation * context.post_replication
    dampening = _undamped(v) * vs.float32 / (ls.float32 * context.post_accumulation * context.post_replication)
    undo = divisor / (_undamped(v) * vs.float32)
    return (
        compound("dampeningScaleFactor2", weight, dampening, dm, vs, ls, inverse_loss_scale=True),
        compound("scaledLearningRate2", weight, lr.float32 / vs.float32, lr, vs),
        compound("scaledMomentum2", weight, mm.float32, mm, in_type_of_weight=True),
        compound("nesterovDampeningScaleFactor2", weight, undo, dm, vs, ls),
        compound("nesterovGradScaleFactor2", weight, vs.float32, vs),
    )


class SGD(Optimizer):
    """Stochastic gradient descent, with or without momentum.

    Args:
        pyd: (value, whether it is constant) by key. Without them: defaultLearningRate (0.1, True), defaultWeightDecay (0, True),
            defaultMomentum (0, True), defaultDampening (0, True), defaultVelocityScaling (1, True), lossScaling (1, True),
            nesterov (0, True).
        clip_norm_settings: groups of weights whose gradients' norm is bounded.
        accumulatorAndMomentum: Combined keeps one tensor `Accl___w` for accumulation and momentum; values that change come into full
            effect one update later. Separate keeps `Accum___w` and `Accl1___w`. Without momentum neither matters.
        accumType: FLOAT, FLOAT16, or UNDEFINED for the weight's type, of `Accum___w`.
        accl1Type: the same of `Accl1___w`.
        debugContext: ignored.

    Raises:
        popart_exception: for a key that doesn't exist, or a value that makes no sense.
    """

    _family: ClassVar[str] = "SGD"
    _kinds: ClassVar[Mapping[str, ScalarKind]] = {
        "learningRate": ScalarKind(0.1, "learning rates"),
        "weightDecay": ScalarKind(0.0, "weight decays", "weight decay"),
        "momentum": ScalarKind(0.0, "momentums", "momentum"),
        "dampening": ScalarKind(0.0, "dampenings", "dampening"),
        "velocityScaling": ScalarKind(1.0, "velocity scalings", "velocity scaling", positive=True),
        "lossScaling": ScalarKind(1.0, "loss scaling"),
        "nesterov": ScalarKind(0.0, "nesterov"),
    }
    # A new dampening is taken where a value that may change has it in; the original doesn't look whether it may.
    _unchecked: ClassVar[frozenset[str]] = frozenset({"dampening"})

    def __init__(
        self,
        pyd: Mapping[str, tuple[float, bool]],
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        accumulatorAndMomentum: SGDAccumulatorAndMomentum = SGDAccumulatorAndMomentum.Combined,
        accumType: DataType = DataType.UNDEFINED,
        accl1Type: DataType = DataType.UNDEFINED,
        debugContext: Any = "sgd",
    ) -> None:
        super().__init__(pyd, clip_norm_settings)
        self._accumulator = accumulatorAndMomentum
        self._accum_type, self._accl1_type = accumType, accl1Type

    def momentums(self) -> OptimizerValueMap:
        """The momentums."""
        return self._values["momentum"]

    def dampenings(self) -> OptimizerValueMap:
        """The dampenings."""
        return self._values["dampening"]

    def velocityScalings(self) -> OptimizerValueMap:
        """The velocity scalings."""
        return self._values["velocityScaling"]

    def nesterov(self) -> OptimizerValueMap:
        """Whether Nesterov's momentum is used: 0 if not."""
        return self._values["nesterov"]

    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        return sgd_scalars(weight, context, {**self._of(weight), "lossScaling": self._loss_scaling})

    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        scalars, values = self.scalars(weight, context), self._of(weight)
        store = GradientStore(weight=weight, dtype=state_type(self._accum_type, weight), context=context)
        if not _is_kept(values["momentum"]):
            return PlainRule(scalars={"decay": scalars["weightDecayScaleFactor0"], "rate": scalars["scaledLearningRate0"]}, gradients=store)
        nesterov = values["nesterov"].val() != 0.0 and values["momentum"].val() > 0.0
        combined = self._accumulator is SGDAccumulatorAndMomentum.Combined
        number = 1 if combined else 2
        used = {
            "dampening": scalars[f"dampeningScaleFactor{number}"],
            "rate": scalars[f"scaledLearningRate{number}"],
            "momentum": scalars[f"scaledMomentum{number}"],
            "decay": scalars["scaledWeightDecay1"],
        }
        if nesterov:
            used |= {
                "nesterov_undo_dampening": scalars[f"nesterovDampeningScaleFactor{number}"],
                "nesterov_scale": scalars[f"nesterovGradScaleFactor{number}"],
                "nesterov_momentum": scalars["sgdMomentum"],
                "nesterov_decay": scalars["sgdWeightDecay"],
            }
        if not combined:
            return SeparateRule(scalars=used, gradients=store, dtype=state_type(self._accl1_type, weight), nesterov=nesterov)
        if context.accumulates and weight.id in context.groups:
            raise popart_exception(
                f"Gradients of '{weight.id}', which groups of replicas share, can't be accumulated in a velocity: choose "
                "SGDAccumulatorAndMomentum.Separate"
            )
        return CombinedRule(scalars=used, weight=weight, context=context, nesterov=nesterov)

    def _check_together(self, values: Mapping[str, OptimizerValue]) -> None:
        if values["nesterov"].val() != 0 and values["dampening"].val() > 0:
            raise popart_exception(f"When enable nesterov momentum, dampening ({shortest(values['dampening'])}) in SGD shouled be zero")

    def _check_modes(self, other: Optimizer) -> None:
        assert isinstance(other, SGD)  # the caller has compared their kinds
        has, will_have = (_is_kept(one.momentums().getDefault()) for one in (self, other))
        if has != will_have:
            raise no_replacement(
                f"this {'requires' if has else 'does not require'} a velocity tensor, but other {'does' if will_have else 'does not'}."
            )
        if not has:
            return
        if self._accumulator is not other._accumulator:
            raise no_replacement(f"this has {self._accumulator}, but other has {other._accumulator}")
        if self._accumulator is SGDAccumulatorAndMomentum.Separate:
            for label, old, new in (
                ("sgdAccumType", self._accum_type, other._accum_type),
                ("sgd2Accl1Type", self._accl1_type, other._accl1_type),
            ):
                if old is not new:
                    raise no_replacement(f"this has SGDAccumulatorAndMomentum::Separate and {label} {old.name}, but other has {new.name}")


class ConstSGD(SGD):
    """Stochastic gradient descent without momentum, all of whose values are constant.

    Args:
        learning_rate: the learning rate.
        weight_decay: the weight decay.
        loss_scaling: what the loss' gradient is multiplied by.
        clip_norm_settings: groups of weights whose gradients' norm is bounded.
    """

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0.0,
        loss_scaling: float = 1.0,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
    ) -> None:
        super().__init__(
            {"defaultLearningRate": (learning_rate, True), "defaultWeightDecay": (weight_decay, True), "lossScaling": (loss_scaling, True)},
            clip_norm_settings,
        )


def _is_kept(momentum: OptimizerValue) -> bool:
    """Whether there is a velocity: the momentum isn't 0, or may change."""
    return not momentum.isConst() or momentum.val() != 0.0
