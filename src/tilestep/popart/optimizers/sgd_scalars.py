"""The compound scalars of SGD. Numbers at the end of names: 0 without momentum, 1 Combined, 2 Separate.

Source: PopART's compoundscalarhelper.hpp and .cpp, and the table of compound scalars in sgd.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilestep.popart.optimizers.scalars import Factors, Scalar, Weight, compound
from tilestep.popart.optimizers.values import OptimizerValue

_F = np.float32
_ONE = np.float32(1.0)


@dataclass(frozen=True, kw_only=True)
class SgdValues:
    """The values of one weight."""

    learning_rate: OptimizerValue
    weight_decay: OptimizerValue
    momentum: OptimizerValue
    dampening: OptimizerValue
    velocity_scaling: OptimizerValue
    loss_scaling: OptimizerValue

    @property
    def undamped(self) -> np.float32:
        """What dampening leaves of a gradient."""
        return _ONE - self.dampening.float32


def sgd_scalars(weight: Weight, factors: Factors, values: SgdValues) -> dict[str, Scalar]:
    """Every compound scalar of a weight, by kind."""
    with np.errstate(all="ignore"):  # a dampening of 1 has an infinite inverse, which only Nesterov's momentum looks at
        scalars = (
            *_plain(weight, factors, values),
            *_shared(weight, values),
            *_combined(weight, factors, values),
            *_separate(weight, factors, values),
        )
    return {scalar.name.split("___", 1)[0]: scalar for scalar in scalars}


def _plain(weight: Weight, factors: Factors, v: SgdValues) -> tuple[Scalar, ...]:
    lr, wd, dm, ls = v.learning_rate, v.weight_decay, v.dampening, v.loss_scaling
    divisor = ls.float32 * _F(factors.post_accumulation) * _F(factors.post_replication)
    decay = _ONE - lr.float32 * v.undamped * wd.float32
    rate = lr.float32 * v.undamped / divisor
    return (
        compound("weightDecayScaleFactor0", weight, decay, wd, lr, dm, in_type_of_weight=True),
        compound("scaledLearningRate0", weight, rate, lr, ls, dm, inverse_loss_scale=True),
    )


def _shared(weight: Weight, v: SgdValues) -> tuple[Scalar, ...]:
    wd, mm, dm, vs = v.weight_decay, v.momentum, v.dampening, v.velocity_scaling
    return (
        compound("scaledWeightDecay1", weight, v.undamped * wd.float32 * vs.float32, dm, wd, vs),
        compound("sgdMomentum", weight, mm.float32, mm, in_type_of_weight=True),
        compound("sgdWeightDecay", weight, wd.float32, wd),
    )


def _combined(weight: Weight, factors: Factors, v: SgdValues) -> tuple[Scalar, ...]:
    lr, mm, dm, vs, ls = v.learning_rate, v.momentum, v.dampening, v.velocity_scaling, v.loss_scaling
    af = _F(factors.accumulation if factors.mean else 1)
    # The velocities of all replicas are summed, each with the same history in it: the velocity is `replicas` times too large in between.
    replicas = _F(factors.replication if factors.accumulates else 1)
    rf = _ONE
    if factors.accumulates and not factors.mean:
        rf = _F(factors.replication)
    elif not factors.accumulates and factors.mean:
        rf = _ONE / _F(factors.replication)
    dampening = v.undamped * vs.float32 * rf / (ls.float32 * af)
    undo = _F(factors.post_accumulation) / (v.undamped * vs.float32 * rf)
    return (
        compound("dampeningScaleFactor1", weight, dampening, dm, vs, ls, inverse_loss_scale=True),
        compound("scaledLearningRate1", weight, lr.float32 / (vs.float32 * replicas), lr, vs),
        compound("scaledMomentum1", weight, mm.float32 / replicas, mm, in_type_of_weight=True),
        compound("nesterovDampeningScaleFactor1", weight, undo, dm, vs, ls),
        compound("nesterovGradScaleFactor1", weight, vs.float32 * replicas, vs),
    )


def _separate(weight: Weight, factors: Factors, v: SgdValues) -> tuple[Scalar, ...]:
    lr, mm, dm, vs, ls = v.learning_rate, v.momentum, v.dampening, v.velocity_scaling, v.loss_scaling
    af, rf = _F(factors.post_accumulation), _F(factors.post_replication)
    dampening = v.undamped * vs.float32 / (ls.float32 * af * rf)
    undo = af * rf / (v.undamped * vs.float32)
    return (
        compound("dampeningScaleFactor2", weight, dampening, dm, vs, ls, inverse_loss_scale=True),
        compound("scaledLearningRate2", weight, lr.float32 / vs.float32, lr, vs),
        compound("scaledMomentum2", weight, mm.float32, mm, in_type_of_weight=True),
        compound("nesterovDampeningScaleFactor2", weight, undo, dm, vs, ls),
        compound("nesterovGradScaleFactor2", weight, vs.float32, vs),
    )
