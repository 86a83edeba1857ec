"""Clipping by the norm of a group."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.popart.optimizers.running import context
from tilestep.popart.exceptions import popart_exception, popart_internal_exception
from tilestep.popart.optimizers import SGD, Adam, ClipNormSettings, Optimizer, OptimizerState

PARAMS = {"a": jnp.zeros(2), "b": jnp.zeros(3), "c": jnp.zeros(1)}
GRADIENTS = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([0.0, 4.0, 0.0]), "c": jnp.array([12.0])}


def step(optimizer: Optimizer, gradients: dict[str, Any] = GRADIENTS, scale: float = 1.0) -> tuple[dict[str, np.ndarray], OptimizerState]:
    rule = optimizer.rule(context(PARAMS))
    state = rule.accumulate(rule.init(PARAMS), {id: scale * gradient for id, gradient in gradients.items()})
    new, state = rule.update(state, PARAMS)
    return {id: np.asarray(array) for id, array in new.items()}, state


def sgd(*groups: ClipNormSettings, **more: Any) -> SGD:
    return SGD({"defaultLearningRate": (1.0, True), **more}, list(groups))


def test_groups_have_norms_of_their_own_and_other_weights_none() -> None:
    new, _ = step(sgd(ClipNormSettings.clipWeights(["a", "b"], 1.0), ClipNormSettings(["b"], 100.0)))
    np.testing.assert_allclose(new["a"], [-0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(new["b"], [0.0, -0.8, 0.0], rtol=1e-6)
    np.testing.assert_allclose(new["c"], [-12.0])


def test_small_norms_stay() -> None:
    new, _ = step(sgd(ClipNormSettings.clipAllWeights(13.5)))
    np.testing.assert_allclose(new["b"], [0.0, -4.0, 0.0])


def test_sgd_clips_what_still_has_the_loss_scaling_in_it() -> None:
    new, _ = step(sgd(ClipNormSettings.clipAllWeights(13.0), lossScaling=(4.0, True)), scale=4.0)
    np.testing.assert_allclose(new["c"], [-3.0])


def test_the_velocity_of_sgd_stays_as_it_is() -> None:
    new, state = step(sgd(ClipNormSettings.clipAllWeights(6.5), defaultMomentum=(0.5, True)))
    np.testing.assert_allclose(new["c"], [-6.0])
    np.testing.assert_allclose(state.tensors["Accl___c"], [6.0])  # the momentum times the whole velocity


def test_all_weights_allow_no_other_group() -> None:
    optimizer = sgd(ClipNormSettings.clipAllWeights(1.0), ClipNormSettings.clipWeights(["a"], 1.0))
    with pytest.raises(popart_exception, match=r"^Multiple clip groups specified, but one has the mode 'ClipAllWeights'"):
        optimizer.rule(context(PARAMS))


def test_a_group_names_weights() -> None:
    with pytest.raises(popart_exception, match=r"^Could not find a varupdate op for tensor d: the optimizer changes a, b, c"):
        sgd(ClipNormSettings.clipWeights(["d"], 1.0)).rule(context(PARAMS))


def test_moments_with_a_changeable_loss_scaling_are_not_clipped() -> None:
    given = {"lossScaling": (4.0, False)}
    optimizer = Adam(given, clip_norm_settings=[ClipNormSettings.clipAllWeights(1.0)], scaled_optimizer_state=True)
    with pytest.raises(popart_internal_exception, match=r"^These should be AccumulateOps"):
        optimizer.rule(context(PARAMS))
