"""The compound scalars of SGD. Numbers at the end of names: 0 without momentum, 1 Combined, 2 Separate.

Source: PopART's compoundscalarhelper.hpp and .cpp, and the table of compound scalars in sgd.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilestep.popart.optimizers.context import UpdateContext
from tilestep.popart.optimizers.scalars import Scalar, Weight, by_kind, compound
from tilestep.popart.optimizers.values import OptimizerValue

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
