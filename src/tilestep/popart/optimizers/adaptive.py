"""AdaGrad, RMSProp, CenteredRMSProp and AdaDelta. Source: PopART's adaptive.cpp and adaptive.hpp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from tilestep.popart.enums import AdaptiveMode, DataType, WeightDecayMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers.adaptive_rule import AdaptiveRule
from tilestep.popart.optimizers.gradients import GradientStore
from tilestep.popart.optimizers.optimizer import Optimizer, no_replacement
from tilestep.popart.optimizers.rule import UpdateContext
from tilestep.popart.optimizers.scalars import FLOAT16, FLOAT32, Factors, Scalar, Weight, compound, state_type
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap, complete, quoted, read_values, specific_values
from tilestep.popart.optimizers.weight_rule import WeightRule

_DEFAULTS: Final = {
    "defaultLearningRate": OptimizerValue(0.01, True),
    "defaultWeightDecay": OptimizerValue(0.0, True),
    "defaultAlpha": OptimizerValue(0.99, True),
    "defaultMomentum": OptimizerValue(0.0, True),
    "defaultEps": OptimizerValue(1e-6, True),
    "lossScaling": OptimizerValue(1.0, True),
}
_UNKNOWN: Final = "Invalid Adaptive key, {key}, the allowed keys are ( {keys} )"
_SPECIFIC: Final = ("learningRate", "weightDecay", "alpha", "momentum", "eps")


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

    _kind: ClassVar[str] = "Adaptive"

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
        all_values = complete(read_values(values), _DEFAULTS, _UNKNOWN)
        self._begin(all_values.pop("lossScaling"), ())
        if rmsprop_tf_variant and mode not in (AdaptiveMode.RMSProp, AdaptiveMode.CenteredRMSProp):
            raise popart_exception("The rmspropTFVariant parameter is only valid with the RMSProp and CenteredRMSProp optimizers.")
        _check_values(*all_values.values())
        self._lrs, self._wds, self._alphas, self._mms, self._epss = (OptimizerValueMap(value) for value in all_values.values())
        self._mode, self._decay_mode, self._tf_variant = mode, weight_decay_mode, rmsprop_tf_variant
        self._types = (accum_type, accl1_type, accl2_type, accl3_type)

    def learningRates(self) -> OptimizerValueMap:
        """The learning rates."""
        return self._lrs

    def weightDecays(self) -> OptimizerValueMap:
        """The weight decays."""
        return self._wds

    def alphas(self) -> OptimizerValueMap:
        """How much of the squares, and of the mean, is kept."""
        return self._alphas

    def momentums(self) -> OptimizerValueMap:
        """The momentums."""
        return self._mms

    def epss(self) -> OptimizerValueMap:
        """What keeps the divisor from 0."""
        return self._epss

    def value_maps(self) -> dict[str, OptimizerValueMap]:
        """See Optimizer; in the order of an optimizer's values."""
        return {
            "learning rates": self._lrs,
            "weight decays": self._wds,
            "alphas": self._alphas,
            "momentums": self._mms,
            "eps": self._epss,
        }

    def insertSpecific(self, id: str, values: Mapping[str, tuple[float, bool]]) -> None:
        """Give weight `id` values of its own: learningRate, weightDecay, alpha, momentum, eps.

        A value that isn't given is the default. A session that exists already doesn't see them.

        Raises:
            popart_exception: for a key that doesn't exist, a value that makes no sense, or a weight that has values of its own already.
        """
        maps = list(self.value_maps().values())
        own = specific_values("Adaptive", _SPECIFIC, maps, read_values(values))
        _check_values(*own)
        for values_of, value in zip(maps, own, strict=True):
            values_of.insertSpecific(id, value)

    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """See Optimizer. Source: PopART's compoundscalarhelper.hpp."""
        factors, ls = Factors.of(context), self._loss_scaling
        lr, wd, alpha, momentum, eps = (values.get(weight.id) for values in self.value_maps().values())
        divisor = ls.float32 * np.float32(factors.post_accumulation) * np.float32(factors.post_replication)
        scalars = (
            compound("learningRate", weight, lr.float32, lr),
            compound("weightDecay", weight, wd.float32, wd),
            compound("adaptiveAlpha", weight, alpha.float32, alpha),
            compound("adaptiveMomentum", weight, momentum.float32, momentum),
            compound("adaptiveEps", weight, eps.float32, eps),
            compound("lossScaling", weight, ls.float32, ls),
            compound("adaptiveGradientScaling", weight, np.float32(1.0) / divisor, ls, inverse_loss_scale=True),
        )
        return {scalar.name.split("___", 1)[0]: scalar for scalar in scalars}

    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        """See Optimizer."""
        scalars = self.scalars(weight, context)
        accum, accl1, accl2, accl3 = (state_type(type, weight) for type in self._types)
        return AdaptiveRule(
            gradients=GradientStore(weight=weight, dtype=accum, context=context),
            mode=self._mode,
            decay_mode=self._decay_mode,
            tf_variant=self._tf_variant,
            types=(accl1, accl2, accl3),
            cast=(accum, accl1, accl2) == (FLOAT16, FLOAT32, FLOAT32),
            scale=scalars["adaptiveGradientScaling"],
            rate=scalars["learningRate"],
            decay=scalars["weightDecay"],
            alpha=scalars["adaptiveAlpha"],
            momentum=scalars["adaptiveMomentum"],
            eps=scalars["adaptiveEps"],
        )

    def _check_modes(self, other: Optimizer) -> None:
        assert isinstance(other, Adaptive)  # of the same kind
        if other._mode is not self._mode:
            raise no_replacement("Adaptive modes do not match")
        if other._decay_mode is not self._decay_mode:
            raise no_replacement("Weight decay modes do not match")


def _check_values(lr: OptimizerValue, wd: OptimizerValue, alpha: OptimizerValue, momentum: OptimizerValue, eps: OptimizerValue) -> None:
    """Refuse what makes no sense. Source: runValueChecks in PopART's adaptive.cpp."""
    if lr.val() < 0:
        raise popart_exception(f"Negative learning rate ({quoted(lr)}) in Adaptive, bailing as this might be a user error.")
    if lr.val() == 0 and lr.isConst():
        raise popart_exception("Constant, zero learning rate in Adaptive, bailing as this might be a user error.")
    for label, value in (("weight decay", wd), ("alpha", alpha), ("momentum", momentum)):
        if value.val() < 0:
            raise popart_exception(f"Negative {label} ({quoted(value)}) in Adaptive, bailing as this might be a user error")
    if eps.val() <= 0:
        raise popart_exception(f"Non-positive eps ({quoted(eps)}) in Adaptive is not supported")
