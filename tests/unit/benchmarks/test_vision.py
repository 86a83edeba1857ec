"""Networks for images in training: what they compute, and the programs that conditions name."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.measured.answer import RowError
from benchmarks.measured.training.conditions import TrainingConditions, read_conditions
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.measured.training.replicated import Replicated
from benchmarks.measured.training.vision import efficientnet, resnet, unet, unet_stages
from benchmarks.models import efficientnet as efficient
from benchmarks.models import norms, residual
from benchmarks.models import unet as cells

TINY = residual.Residual(blocks=(1, 1), group_width=8)


@pytest.fixture(scope="module")
def conditions() -> dict[str, TrainingConditions]:
    return dict(read_conditions())


def drawn(*dims: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(1, 2, dims).astype(np.float32))


def parameters(shapes: Any) -> Any:
    random = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: (0.3 * random.standard_normal(leaf.shape)).astype(np.float32), shapes)


def plain_batch_norm(x: jax.Array, scale: jax.Array, offset: jax.Array) -> jax.Array:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + offset


def plain_group_norm(x: jax.Array, scale: jax.Array, offset: jax.Array, groups: int) -> jax.Array:
    batch, rows, columns, channels = x.shape
    parts = x.reshape(batch, rows, columns, channels // groups, groups)
    mean, variance = parts.mean((1, 2, 3), keepdims=True), parts.var((1, 2, 3), keepdims=True)
    return ((parts - mean) / jnp.sqrt(variance + 1e-5)).reshape(x.shape) * scale + offset


@pytest.mark.parametrize("norm", ["batch", "stable batch", "group"])
def test_a_norm_and_its_gradients_are_those_of_the_plain_formula(norm: str) -> None:
    x, scale, offset, along = drawn(3, 4, 5, 6), drawn(6, seed=1), drawn(6, seed=2), drawn(3, 4, 5, 6, seed=3)
    if norm == "group":
        ours, plain = functools.partial(norms.group_norm, groups=2), functools.partial(plain_group_norm, groups=2)
    else:
        ours, plain = functools.partial(norms.batch_norm, stable=norm.startswith("stable")), plain_batch_norm

    def both(function: Any) -> Any:
        gradients = jax.grad(lambda *args: (function(*args) * along).sum(), (0, 1, 2))
        return jax.jit(lambda *args: (function(*args), gradients(*args)))(x, scale, offset)

    for found, expected in zip(jax.tree.leaves(both(ours)), jax.tree.leaves(both(plain)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_two_replicas_share_the_statistics_of_a_batch_norm() -> None:
    x, scale, offset, along = drawn(4, 3, 3, 2), drawn(2, seed=1), drawn(2, seed=2), drawn(4, 3, 3, 2, seed=3)

    def gradient(x: jax.Array, along: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (norms.batch_norm(x, scale, offset, 2) * along).sum())(x)

    halves = [values.reshape(2, 2, 3, 3, 2) for values in (x, along)]
    found = jax.jit(jax.vmap(gradient, axis_name="replica"))(*halves).reshape(x.shape)
    expected = jax.jit(jax.grad(lambda x: (plain_batch_norm(x, scale, offset) * along).sum()))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("ours", "plain"), [(norms.rectified, jax.nn.relu), (norms.swish, jax.nn.silu)])
def test_an_activation_has_the_plain_gradient(ours: Any, plain: Any) -> None:
    x = drawn(7)
    np.testing.assert_allclose(*jax.jit(lambda x: (jax.vmap(jax.grad(ours))(x), jax.vmap(jax.grad(plain))(x)))(x), rtol=1e-6)


def test_smoothed_labels_leave_a_share_to_the_other_classes() -> None:
    scores = jnp.asarray([[2.0, 0.0, 0.0]])
    logarithms = np.asarray(scores)[0] - np.log(np.exp(np.asarray(scores)[0]).sum())
    expected = -(0.9 * logarithms[0] + 0.05 * logarithms[1] + 0.05 * logarithms[2])
    assert residual.smoothed_cross_entropy(scores, jnp.asarray([0]), 0.1) == pytest.approx(expected, rel=1e-6)


def test_recomputation_changes_no_gradient() -> None:
    params = parameters(residual.parameters(TINY))
    images, labels = np.arange(2 * 16 * 16 * 3).astype(np.uint8).reshape(2, 16, 16, 3), np.asarray([1, 5])
    kept, again = (jax.jit(jax.grad(functools.partial(residual.loss, TINY, cuts)))(params, images, labels) for cuts in ((), (1, 2)))
    for found, expected in zip(jax.tree.leaves(again), jax.tree.leaves(kept), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "millions"),
    [
        (residual.parameters(residual.Residual()), 25.557),
        (residual.parameters(residual.Residual(blocks=(3, 4, 23, 3), groups=32, group_width=4)), 44.178),
        (efficient.parameters(efficient.EfficientNet(variant=0, group_width=1, expansion=6)), 5.289),
    ],
)
def test_networks_have_the_published_number_of_parameters(shapes: Any, millions: float) -> None:
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == pytest.approx(millions * 1e6, rel=1e-4)


def test_a_u_net_has_the_published_sizes() -> None:
    model = cells.UNet()
    assert model.crops == (392, 200, 104, 56)
    assert model.result == 388


def test_a_step_up_doubles_rows_and_columns() -> None:
    params = {"kernel": drawn(2, 2, 3, 4), "bias": jnp.zeros(4)}
    x = drawn(1, 5, 5, 3, seed=4)
    found = np.asarray(jax.jit(cells.widened)(params, x))
    kernel = np.asarray(params["kernel"])
    assert found.shape == (1, 10, 10, 4)
    corners = {tuple(np.round(np.maximum(np.asarray(x)[0, 2, 3] @ kernel[a, b], 0), 4)) for a in (0, 1) for b in (0, 1)}
    assert {tuple(np.round(found[0, 4 + a, 6 + b], 4)) for a in (0, 1) for b in (0, 1)} == corners


def test_cuts_of_resnet_are_read(conditions: dict[str, TrainingConditions]) -> None:
    program = resnet(None, conditions["TR01"])
    assert isinstance(program, Replicated)
    model, cuts = program.loss.args  # type: ignore[attr-defined]
    assert (model.norm, model.norm_replicas, model.stable) == ("batch", 2, False)
    assert cuts == (2, 4, 5, 7, 9, 12)
    assert program.element["images"].shape == (22, 224, 224, 3)


def test_a_checkpoint_at_each_addition_leaves_the_last_stage_whole(conditions: dict[str, TrainingConditions]) -> None:
    program = resnet(None, conditions["TR02"])
    model, cuts = program.loss.args  # type: ignore[union-attr, attr-defined]
    assert model.norm_replicas == 1
    assert cuts == tuple(range(2, 15))


def test_what_is_not_recomputed_has_no_cuts(conditions: dict[str, TrainingConditions]) -> None:
    program = resnet(None, replace(conditions["TR01"], recompute="no"))
    assert program.loss.args[1] == ()  # type: ignore[union-attr, attr-defined]


@pytest.mark.parametrize(("row", "recognise", "stages"), [("TR12", resnet, 2), ("TR08", efficientnet, 2), ("TR20", unet, 4)])
def test_stages_fit_each_other(conditions: dict[str, TrainingConditions], row: str, recognise: Any, stages: int) -> None:
    program = recognise(None, conditions[row])
    assert isinstance(program, Pipelined)
    assert len(program.stages) == len(program.params) == stages
    key = {"key": jax.random.key(0)} if program.key else {}
    first, *others = [functools.partial(stage, **key) for stage in program.stages]
    result = jax.eval_shape(first, program.params[0], **program.element)
    for stage, params in zip(others, program.params[1:], strict=True):
        result = jax.eval_shape(stage, params, *result)
    assert (result.shape, result.dtype) == ((), jnp.float32)


def test_u_net_is_cut_behind_its_named_layers(conditions: dict[str, TrainingConditions]) -> None:
    found = unet_stages(cells.UNet(), conditions["TR20"])
    assert [stage[0] for stage in found] == [("encode", 0), ("encode", 2), ("decode", 3), ("decode", 1)]
    assert found[-1][-1] == ("decode", 0)


def test_other_networks_are_not_recognised(conditions: dict[str, TrainingConditions]) -> None:
    assert [recognise(None, conditions["TR37"]) for recognise in (resnet, efficientnet, unet)] == [None, None, None]


@pytest.mark.parametrize(
    ("row", "recognise", "changed", "match"),
    [
        ("TR01", resnet, {"model": "ResNet-18"}, "model is 'ResNet-18': blocks are known of depths 50, 101, 152, not of 18"),
        ("TR01", resnet, {"stage_split": "stage9/unit1"}, "'stage9/unit1' names no unit"),
        ("TR01", resnet, {"stage_split": "somehow"}, "stage_split is 'somehow': it must name units in order"),
        ("TR12", resnet, {"ipus_per_replica": "4"}, "it makes 2 stages, but a replica has 4 IPUs"),
        ("TR08", efficientnet, {"stage_split": "block4a, block2b"}, "it must name blocks in order"),
        ("TR08", efficientnet, {"stage_split": "block4z"}, "'block4z' names no block"),
        ("TR08", efficientnet, {"model": "EfficientNet-B9"}, "there is no B9"),
        ("TR20", unet, {"stage_split": "after encoder_block_7_maxpooling"}, "there is no encoder_block_7_maxpooling"),
    ],
)
def test_what_is_not_known_is_named(
    conditions: dict[str, TrainingConditions], row: str, recognise: Any, changed: dict[str, str], match: str
) -> None:
    with pytest.raises(RowError, match=match):
        recognise(None, replace(conditions[row], **changed))
