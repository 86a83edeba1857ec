"""Dropout in all versions: off in inference, on in training."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper

from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import prepared, run_node
from tests.unit.onnx.ops.together import each
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpret import Run, run_graph

F = np.float32
X = np.ones((40, 50), F)
RATIO = np.array(0.25, F)


def old(version: int) -> dict[str, Any]:
    return {"consumed_inputs": [0]} if version == 1 else {}


def training(seed: int = 0) -> Run:
    return Run(training=True, key=jax.random.key(seed))


@each("version", [1, 6, 7, 10])
def test_inference_changes_nothing(version: int) -> None:
    mask = np.ones(X.shape, np.bool_ if version >= 10 else F)
    agrees([X, mask], "Dropout", [X], version=version, **old(version))


@each("version", [12, 13, 22])
def test_inference_changes_nothing_from_version_12(version: int) -> None:
    for inputs in ([X], [X, RATIO], [X, RATIO, np.array(False)], [X, None, np.array(False)]):
        agrees([X, np.ones(X.shape, np.bool_)], "Dropout", inputs, version=version)


@each("version", [1, 6, 7, 10, 12, 13])
def test_training_drops_a_part_and_scales_the_rest(version: int) -> None:
    inputs, attributes = ([X, RATIO], {}) if version >= 12 else ([X], {"ratio": 0.25, **old(version)})
    y, mask = (np.asarray(value) for value in run_node("Dropout", inputs, version=version, outputs=2, run=training(), **attributes))
    assert mask.dtype == (np.bool_ if version >= 10 else F)
    np.testing.assert_allclose(y, mask * F(4 / 3), 1e-6)
    assert 0.7 < mask.mean() < 0.8


@each("version", [1, 6])
def test_a_training_run_trains_whatever_the_file_says(version: int) -> None:
    y = run_node("Dropout", [X], version=version, run=training(), is_test=1, **old(version))[0]
    assert (np.asarray(y) == 0).any()


@each("way", ["eager", "jit"])
def test_a_file_may_train_by_itself(way: str) -> None:
    run = Run(key=jax.random.key(0))
    for traced in ((), (2,)):
        y = run_node("Dropout", [X, RATIO, np.array(True)], way, version=13, run=run, static=traced)[0]
        assert (np.asarray(y) == 0).any()
        same = run_node("Dropout", [X, RATIO, np.array(False)], way, version=13, run=run, static=traced)[0]
        np.testing.assert_array_equal(same, X)


def test_random_numbers_need_a_key() -> None:
    with pytest.raises(OnnxError, match="draws random numbers: give a key"):
        run_node("Dropout", [X], version=7, run=Run(training=True))


@each("ratio", [-0.1, 1.0])
def test_a_ratio_has_bounds(ratio: float) -> None:
    with pytest.raises(OnnxError, match="must be at least 0 and below 1"):
        run_node("Dropout", [X, np.array(ratio, F)], "known", version=12, run=training())


def test_a_ratio_of_zero_draws_nothing() -> None:
    agrees([X], "Dropout", [X], version=7, ratio=0.0, run=Run(training=True))


def test_keys_nodes_and_seeds_differ() -> None:
    nodes = [helper.make_node("Dropout", ["x"], [name], ratio=0.5) for name in "ab"]
    graph = prepared(nodes, ["x"], ["a", "b"], {"": 7})
    first, second = (run_graph(graph, [jnp.asarray(X)], training(seed)) for seed in (0, 1))
    again = run_graph(graph, [jnp.asarray(X)], training(0))
    masks = [np.asarray(value) for value in (*first, *second)]
    assert all((masks[i] != masks[j]).any() for i in range(4) for j in range(i))
    np.testing.assert_array_equal(first[0], again[0])
    seeded = [run_node("Dropout", [X], version=12, run=training(), seed=seed)[0] for seed in (1, 2)]
    assert (np.asarray(seeded[0]) != np.asarray(seeded[1])).any()


def test_the_gradient_is_the_mask() -> None:
    graph = prepared([helper.make_node("Dropout", ["x"], ["y", "mask"])], ["x"], ["y", "mask"], {"": 12})

    def loss(x: Any) -> tuple[Any, Any]:
        y, mask = run_graph(graph, [x], training())
        return y.sum(), mask

    gradient, mask = jax.grad(loss, has_aux=True)(jnp.asarray(X))
    np.testing.assert_array_equal(gradient, np.where(mask, 2, 0))


def test_half_precision_stays() -> None:
    y = run_node("Dropout", [X.astype(np.float16), RATIO], version=13, run=training())[0]
    assert y.dtype == np.float16
