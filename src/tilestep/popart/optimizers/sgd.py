"""Stochastic gradient descent: SGD, and ConstSGD whose values are all constant.

    v = mm * v + (1 - dm) * vs * (g / ls + wd * w)      w = w - lr / vs * v

with momentum mm, dampening dm, velocity scaling vs, loss scaling ls, weight decay wd and learning rate lr; with Nesterov's momentum the
weight's update is `vs * (g / ls + wd * w) + mm * v`. Source: PopART's sgd.cpp, sgd.hpp and compoundscalarhelper.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tilestep.popart.enums import DataType, SGDAccumulatorAndMomentum
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers.clipping import ClipNormSettings
from tilestep.popart.optimizers.optimizer import Optimizer, no_replacement
from tilestep.popart.optimizers.rule import UpdateContext
from tilestep.popart.optimizers.scalars import Factors, Scalar, Weight, state_type
from tilestep.popart.optimizers.sgd_combined import CombinedRule
from tilestep.popart.optimizers.sgd_plain import PlainRule
from tilestep.popart.optimizers.sgd_scalars import SgdValues, sgd_scalars
from tilestep.popart.optimizers.sgd_separate import SeparateRule
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap, complete, quoted, read_values, specific_values
from tilestep.popart.optimizers.weight_rule import WeightRule

_DEFAULTS: Final = {
    "defaultLearningRate": OptimizerValue(0.1, True),
    "defaultWeightDecay": OptimizerValue(0.0, True),
    "defaultMomentum": OptimizerValue(0.0, True),
    "defaultDampening": OptimizerValue(0.0, True),
    "defaultVelocityScaling": OptimizerValue(1.0, True),
    "lossScaling": OptimizerValue(1.0, True),
    "nesterov": OptimizerValue(0.0, True),
}
_UNKNOWN: Final = "Invalid SGD key, {key}, the allowed keys are ( {keys} )"
_SPECIFIC: Final = ("learningRate", "weightDecay", "momentum", "dampening", "velocityScaling", "nesterov")


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

    _kind: ClassVar[str] = "SGD"
    # A new dampening is taken where a value that may change has it in; the original doesn't look whether it may.
    _unchecked: ClassVar[frozenset[str]] = frozenset({"dampenings"})

    def __init__(
        self,
        pyd: Mapping[str, tuple[float, bool]],
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        accumulatorAndMomentum: SGDAccumulatorAndMomentum = SGDAccumulatorAndMomentum.Combined,
        accumType: DataType = DataType.UNDEFINED,
        accl1Type: DataType = DataType.UNDEFINED,
        debugContext: Any = "sgd",
    ) -> None:
        values = complete(read_values(pyd), _DEFAULTS, _UNKNOWN)
        self._begin(values.pop("lossScaling"), clip_norm_settings)
        _check_values(*values.values())
        maps = [OptimizerValueMap(value) for value in values.values()]
        self._lrs, self._wds, self._mms, self._dps, self._vss, self._nts = maps
        self._accumulator = accumulatorAndMomentum
        self._accum_type, self._accl1_type = accumType, accl1Type

    def learningRates(self) -> OptimizerValueMap:
        """The learning rates."""
        return self._lrs

    def weightDecays(self) -> OptimizerValueMap:
        """The weight decays."""
        return self._wds

    def momentums(self) -> OptimizerValueMap:
        """The momentums."""
        return self._mms

    def dampenings(self) -> OptimizerValueMap:
        """The dampenings."""
        return self._dps

    def velocityScalings(self) -> OptimizerValueMap:
        """The velocity scalings."""
        return self._vss

    def nesterov(self) -> OptimizerValueMap:
        """Whether Nesterov's momentum is used: 0 if not."""
        return self._nts

    def value_maps(self) -> dict[str, OptimizerValueMap]:
        """See Optimizer; in the order of an optimizer's values."""
        return {
            "learning rates": self._lrs,
            "weight decays": self._wds,
            "momentums": self._mms,
            "dampenings": self._dps,
            "velocity scalings": self._vss,
            "nesterov": self._nts,
        }

    def insertSpecific(self, id: str, pyd: Mapping[str, tuple[float, bool]]) -> None:
        """Give weight `id` values of its own: learningRate, weightDecay, momentum, dampening, velocityScaling, nesterov.

        A value that isn't given is the default. A session that exists already doesn't see them.

        Raises:
            popart_exception: for a key that doesn't exist, a value that makes no sense, or a weight that has values of its own already.
        """
        maps = list(self.value_maps().values())
        values = specific_values("SGD", _SPECIFIC, maps, read_values(pyd))
        _check_values(*values)
        for values_of, value in zip(maps, values, strict=True):
            values_of.insertSpecific(id, value)

    def has_momentum(self, id: str) -> bool:
        """Whether weight `id` has a velocity: its momentum isn't 0, or may change."""
        momentum = self._mms.get(id)
        return not momentum.isConst() or momentum.val() != 0.0

    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """See Optimizer."""
        values = SgdValues(
            learning_rate=self._lrs.get(weight.id),
            weight_decay=self._wds.get(weight.id),
            momentum=self._mms.get(weight.id),
            dampening=self._dps.get(weight.id),
            velocity_scaling=self._vss.get(weight.id),
            loss_scaling=self._loss_scaling,
        )
        return sgd_scalars(weight, Factors.of(context), values)

    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        """See Optimizer."""
        scalars = self.scalars(weight, context)
        nesterov = self._nts.get(weight.id).val() != 0.0 and self._mms.get(weight.id).val() > 0.0
        accum = state_type(self._accum_type, weight)
        if not self.has_momentum(weight.id):
            return PlainRule.of(weight, context, scalars, accum)
        if self._accumulator is SGDAccumulatorAndMomentum.Combined:
            return CombinedRule.of(weight, context, scalars, nesterov=nesterov)
        return SeparateRule.of(weight, context, scalars, accum, state_type(self._accl1_type, weight), nesterov=nesterov)

    def _check_modes(self, other: Optimizer) -> None:
        assert isinstance(other, SGD)  # of the same kind
        has, will_have = self._default_velocity(), other._default_velocity()
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

    def _default_velocity(self) -> bool:
        momentum = self._mms.getDefault()
        return not momentum.isConst() or momentum.val() != 0.0


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
            {
                "defaultLearningRate": (learning_rate, True),
                "defaultWeightDecay": (weight_decay, True),
                "lossScaling": (loss_scaling, True),
            },
            clip_norm_settings,
        )


def _check_values(
    lr: OptimizerValue, wd: OptimizerValue, mm: OptimizerValue, dp: OptimizerValue, vs: OptimizerValue, nesterov: OptimizerValue
) -> None:
    """Refuse what makes no sense. Source: runValueChecks in PopART's sgd.cpp."""
    if lr.val() < 0:
        raise popart_exception(f"Negative learning rate ({quoted(lr)}) in SGD, bailing as this might be a user error.")
    if lr.val() == 0 and lr.isConst():
        raise popart_exception("Constant, zero learning rate in SGD, bailing as this might be a user error.")
    for label, value in (("weight decay", wd), ("momentum", mm), ("dampening", dp)):
        if value.val() < 0:
            raise popart_exception(f"Negative {label} ({quoted(value)}) in SGD, bailing as this might be a user error")
    if vs.val() <= 0:
        raise popart_exception(f"Non-positive velocity scaling ({quoted(vs)}) in SGD is not supported")
    if nesterov.val() != 0 and dp.val() > 0:
        raise popart_exception(f"When enable nesterov momentum, dampening ({quoted(dp)}) in SGD shouled be zero")
