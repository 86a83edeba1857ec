"""The compound scalars of SGD. Numbers at the end of names: 0 without momentum, 1 Combined, 2 Separate.

Source: PopART's compoundscalarhelper.hpp and .cpp, and the table of compound scalars in sgd.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilestep.popart.optimizers.scalars import Factors, Scalar, Weight, compound
from tilestep.popart.optimizers.values import OptimizerValue

_F = np.float32
_ONE = np.float32(1.0)


def sgd_scalars(weight: Weight, factors: Factors, loss_scaling: OptimizerValue, values: Mapping[str, OptimizerValue]) -> dict[str, Scalar]:
    """Every compound scalar of a weight, by kind.

    Args:
        weight: the weight.
        factors: of the session.
        loss_scaling: the optimizer's.
        values: the weight's values by the words of SGD.value_maps.
    """
    return {
        **_plain(weight, factors, loss_scaling, values),
        **_combined(weight, factors, loss_scaling, values),
        **_separate(weight, factors, loss_scaling, values),
    }


def _plain(weight: Weight, factors: Factors, ls: OptimizerValue, values: Mapping[str, OptimizerValue]) -> dict[str, Scalar]:
    lr, wd, dm = values["learning rates"], values["weight decays"], values["dampenings"]
    af, rf = _F(factors.post_accumulation), _F(factors.post_replication)
    decay, rate = "weightDecayScaleFactor0", "scaledLearningRate0"
    return {
        decay: compound(decay, weight, lambda wd, lr, dm: _ONE - lr * (_ONE - dm) * wd, wd, lr, dm, in_type_of_weight=True),
        rate: compound(rate, weight, lambda lr, ls, dm: lr * (_ONE - dm) / (ls * af * rf), lr, ls, dm, inverse_loss_scale=True),
    }


def _momentum_and_decay(weight: Weight, values: Mapping[str, OptimizerValue]) -> dict[str, Scalar]:
    wd, mm, dm, vs = values["weight decays"], values["momentums"], values["dampenings"], values["velocity scalings"]
    return {
        "scaledWeightDecay1": compound("scaledWeightDecay1", weight, lambda dm, wd, vs: (_ONE - dm) * wd * vs, dm, wd, vs),
        "sgdMomentum": compound("sgdMomentum", weight, lambda mm: mm, mm, in_type_of_weight=True),
        "sgdWeightDecay": compound("sgdWeightDecay", weight, lambda wd: wd, wd),
    }


def _combined(weight: Weight, factors: Factors, ls: OptimizerValue, values: Mapping[str, OptimizerValue]) -> dict[str, Scalar]:
    lr, mm, dm, vs = values["learning rates"], values["momentums"], values["dampenings"], values["velocity scalings"]
    af = _F(factors.accumulation if factors.mean else 1)
    # The velocities of all replicas are summed, each with the same history in it: the velocity is `replicas` times too large in between.
    replicas = _F(factors.replication if factors.accumulates else 1)
    post_af = _F(factors.post_accumulation)
    rf = _ONE
    if factors.accumulates and not factors.mean:
        rf = _F(factors.replication)
    elif not factors.accumulates and factors.mean:
        rf = _ONE / _F(factors.replication)

    damp, rate, momentum = "dampeningScaleFactor1", "scaledLearningRate1", "scaledMomentum1"
    nesterov_damp, nesterov_grad = "nesterovDampeningScaleFactor1", "nesterovGradScaleFactor1"
    return {
        **_momentum_and_decay(weight, values),
        damp: compound(damp, weight, lambda dm, vs, ls: (_ONE - dm) * vs * rf / (ls * af), dm, vs, ls, inverse_loss_scale=True),
        rate: compound(rate, weight, lambda lr, vs: lr / (vs * replicas), lr, vs),
        momentum: compound(momentum, weight, lambda mm: mm / replicas, mm, in_type_of_weight=True),
        nesterov_damp: compound(nesterov_damp, weight, lambda dm, vs, _: post_af / ((_ONE - dm) * vs * rf), dm, vs, ls),
        nesterov_grad: compound(nesterov_grad, weight, lambda vs: vs * replicas, vs),
    }


def _separate(weight: Weight, factors: Factors, ls: OptimizerValue, values: Mapping[str, OptimizerValue]) -> dict[str, Scalar]:
    lr, mm, dm, vs = values["learning rates"], values["momentums"], values["dampenings"], values["velocity scalings"]
    af, rf = _F(factors.post_accumulation), _F(factors.post_replication)
    damp, rate, momentum = "dampeningScaleFactor2", "scaledLearningRate2", "scaledMomentum2"
    nesterov_damp, nesterov_grad = "nesterovDampeningScaleFactor2", "nesterovGradScaleFactor2"
    return {
        damp: compound(damp, weight, lambda dm, vs, ls: (_ONE - dm) * vs / (ls * af * rf), dm, vs, ls, inverse_loss_scale=True),
        rate: compound(rate, weight, lambda lr, vs: lr / vs, lr, vs),
        momentum: compound(momentum, weight, lambda mm: mm, mm, in_type_of_weight=True),
        nesterov_damp: compound(nesterov_damp, weight, lambda dm, vs, _: af * rf / ((_ONE - dm) * vs), dm, vs, ls),
        nesterov_grad: compound(nesterov_grad, weight, lambda vs: vs, vs),
    }
