"""Adam, AdamNoBias, AdaMax, Lamb and LambNoBias; with decay as weight decay's mode, AdamW. Source: PopART's adam.cpp and adam.hpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from tilestep.popart.enums import AdamMode, DataType, WeightDecayMode
from tilestep.popart.exceptions import popart_exception, popart_internal_exception
from tilestep.popart.optimizers.adam_rule import AdamRule
from tilestep.popart.optimizers.clipping import ClipNormSettings
from tilestep.popart.optimizers.gradients import GradientStore
from tilestep.popart.optimizers.optimizer import Optimizer, no_replacement
from tilestep.popart.optimizers.rule import UpdateContext
from tilestep.popart.optimizers.scalars import FLOAT16, FLOAT32, Factors, Scalar, Weight, compound, state_type
from tilestep.popart.optimizers.values import OptimizerValue, OptimizerValueMap, complete, quoted, read_values, specific_values
from tilestep.popart.optimizers.weight_rule import WeightRule

_DEFAULTS: Final = {
    "defaultLearningRate": OptimizerValue(0.1, True),
    "defaultWeightDecay": OptimizerValue(0.0, True),
    "defaultBeta1": OptimizerValue(0.9, True),
    "defaultBeta2": OptimizerValue(0.999, True),
    "defaultEps": OptimizerValue(1e-6, True),
    "lossScaling": OptimizerValue(1.0, True),
    "defaultMaxWeightNorm": OptimizerValue(10.0, True),
    "maxWeightNorm": OptimizerValue(10.0, True),  # the old name of defaultMaxWeightNorm
}
_UNKNOWN: Final = "Invalid Adam key, {key}, the allowed keys are ( {keys} )"
_SPECIFIC: Final = ("learningRate", "weightDecay", "beta1", "beta2", "eps", "maxWeightNorm")
_ONE: Final = OptimizerValue(1.0, True)


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

    _kind: ClassVar[str] = "Adam"

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
        given = read_values(values)
        all_values = complete(given, _DEFAULTS, _UNKNOWN)
        old_name = all_values.pop("maxWeightNorm")
        if "maxWeightNorm" in given:
            all_values["defaultMaxWeightNorm"] = old_name
        self._begin(all_values.pop("lossScaling"), clip_norm_settings)
        _check_values(*all_values.values())
        maps = [OptimizerValueMap(value) for value in all_values.values()]
        self._lrs, self._wds, self._b1s, self._b2s, self._epss, self._mwns = maps
        self._mode, self._decay_mode = mode, weight_decay_mode
        self._types = (accum_type, accl1_type, accl2_type)
        self._scaled_state = scaled_optimizer_state

    def learningRates(self) -> OptimizerValueMap:
        """The learning rates."""
        return self._lrs

    def weightDecays(self) -> OptimizerValueMap:
        """The weight decays."""
        return self._wds

    def beta1s(self) -> OptimizerValueMap:
        """How much of the first moment is kept."""
        return self._b1s

    def beta2s(self) -> OptimizerValueMap:
        """How much of the second moment is kept."""
        return self._b2s

    def epss(self) -> OptimizerValueMap:
        """What is added to the root of the second moment."""
        return self._epss

    def maxWeightNorms(self) -> OptimizerValueMap:
        """The largest norm of a weight that Lamb looks at."""
        return self._mwns

    def useScaledOptimizerState(self) -> bool:
        """Whether the loss scaling stays in the moments."""
        return self._scaled_state

    def value_maps(self) -> dict[str, OptimizerValueMap]:
        """See Optimizer; in the order of an optimizer's values."""
        return {
            "learning rates": self._lrs,
            "weight decays": self._wds,
            "beta1s": self._b1s,
            "beta2s": self._b2s,
            "eps": self._epss,
            "mwn": self._mwns,
        }

    def insertSpecific(self, id: str, values: Mapping[str, tuple[float, bool]]) -> None:
        """Give weight `id` values of its own: learningRate, weightDecay, beta1, beta2, eps, maxWeightNorm.

        A value that isn't given is the default. A session that exists already doesn't see them.

        Raises:
            popart_exception: for a key that doesn't exist, a value that makes no sense, or a weight that has values of its own already.
        """
        maps = list(self.value_maps().values())
        own = specific_values("Adam", _SPECIFIC, maps, read_values(values))
        _check_values(*own)
        for values_of, value in zip(maps, own, strict=True):
            values_of.insertSpecific(id, value)

    def scalars(self, weight: Weight, context: UpdateContext) -> dict[str, Scalar]:
        """See Optimizer. Source: PopART's compoundscalarhelper.hpp."""
        factors, ls = Factors.of(context), self._loss_scaling
        lr, wd, b1, b2, eps, mwn = (values.get(weight.id) for values in self.value_maps().values())
        in_decay = ls if self._scaled_state and self._decay_mode is WeightDecayMode.L2Regularization else _ONE
        in_eps = ls if self._scaled_state else _ONE
        in_scale = _ONE if self._scaled_state else ls
        divisor = in_scale.float32 * np.float32(factors.post_accumulation) * np.float32(factors.post_replication)
        scalars = (
            compound("learningRate", weight, lr.float32, lr),
            compound("weightDecay", weight, wd.float32 * in_decay.float32, wd, in_decay),
            compound("adamBeta1", weight, b1.float32, b1),
            compound("adamBeta2", weight, b2.float32, b2),
            compound("adamEps", weight, eps.float32 * in_eps.float32, eps, in_eps),
            compound("lossScaling", weight, ls.float32, ls),
            compound("maxWeightNorm", weight, mwn.float32, mwn),
            compound("adamGradientScaling", weight, np.float32(1.0) / divisor, in_scale, inverse_loss_scale=not self._scaled_state),
        )
        return {scalar.name.split("___", 1)[0]: scalar for scalar in scalars}

    def weight_rule(self, weight: Weight, context: UpdateContext) -> WeightRule:
        """See Optimizer."""
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
        return AdamRule(
            gradients=GradientStore(weight=weight, dtype=accum, context=context),
            mode=self._mode,
            decay_mode=self._decay_mode,
            accl1_type=accl1,
            accl2_type=accl2,
            cast=not self._scaled_state and (accum, accl1, accl2) == (FLOAT16, FLOAT32, FLOAT32),
            rescale=scalars["lossScaling"] if rescales else None,
            scale=scalars["adamGradientScaling"],
            rate=scalars["learningRate"],
            decay=scalars["weightDecay"],
            beta1=scalars["adamBeta1"],
            beta2=scalars["adamBeta2"],
            eps=scalars["adamEps"],
            max_norm=scalars["maxWeightNorm"],
        )

    def _check_modes(self, other: Optimizer) -> None:
        assert isinstance(other, Adam)  # of the same kind
        if other._mode is not self._mode:
            raise no_replacement("Adam modes do not match")
        if other._decay_mode is not self._decay_mode:
            raise no_replacement("Weight decay modes do not match")


def _check_values(
    lr: OptimizerValue, wd: OptimizerValue, b1: OptimizerValue, b2: OptimizerValue, eps: OptimizerValue, mwn: OptimizerValue
) -> None:
    """Refuse what makes no sense. Source: runValueChecks in PopART's adam.cpp."""
    del mwn
    if lr.val() < 0:
        raise popart_exception(f"Negative learning rate ({quoted(lr)}) in Adam, bailing as this might be a user error.")
    if lr.val() == 0 and lr.isConst():
        raise popart_exception("Constant, zero learning rate in Adam, bailing as this might be a user error.")
    for label, value in (("weight decay", wd), ("beta1", b1), ("beta2", b2)):
        if value.val() < 0:
            raise popart_exception(f"Negative {label} ({quoted(value)}) in Adam, bailing as this might be a user error")
    if eps.val() <= 0:
        raise popart_exception(f"Non-positive eps ({quoted(eps)}) in Adam is not supported")
