"""Random numbers: their distribution, and which keys make the same ones."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tests.unit.onnx.ops.one_node import check_node, model, run_node, run_nodes
from tests.unit.onnx.ops.together import each, one_program
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpret import Run

F = np.float32
RUN = Run(key=jax.random.key(7))
MANY = [100, 100]


def draw(name: str, inputs: list[Any], way: str = "eager", run: Run = RUN, version: int = 22, **options: Any) -> Any:
    return np.asarray(run_node(name, inputs, way, version=version, run=run, **options)[0])


@each("version", [1, 22])
def test_normal_and_uniform(version: int) -> None:
    like = np.zeros(MANY, F)
    for name, inputs, options in (("RandomNormal", [], {"shape": MANY}), ("RandomNormalLike", [like], {})):
        x = draw(name, inputs, version=version, mean=3.0, scale=0.5, **options)
        assert x.shape == (100, 100)
        assert abs(x.mean() - 3) < 0.03
        assert abs(x.std() - 0.5) < 0.03
    for name, inputs, options in (("RandomUniform", [], {"shape": MANY}), ("RandomUniformLike", [like], {})):
        x = draw(name, inputs, version=version, low=-1.0, high=3.0, **options)
        assert x.min() >= -1
        assert x.max() < 3
        assert abs(x.mean() - 1) < 0.06


def test_types() -> None:
    assert draw("RandomNormal", [], shape=[2], dtype=10).dtype == np.float16
    assert draw("RandomUniform", [], shape=[2], dtype=11).dtype == np.float64
    assert draw("RandomUniform", [], "jit", shape=[2], dtype=11).dtype == F
    assert draw("RandomNormalLike", [np.zeros(2, np.float16)]).dtype == np.float16
    assert draw("RandomUniformLike", [np.zeros(2, np.int32)], dtype=1).dtype == F
    with pytest.raises(OnnxError, match="dtype 6 is int32, and random numbers are floats"):
        draw("RandomNormalLike", [np.zeros(2, np.int32)])


@each("way", ["known", "jit"])
def test_keys_seeds_and_nodes_tell_numbers_apart(way: str) -> None:
    found: list[tuple[float, ...]] = []

    def keep(_: str, outputs: list[Any]) -> None:
        found.append(tuple(outputs[0].tolist()))

    with one_program():
        for seed, key in ((None, 0), (None, 0), (None, 1), (0.0, 0), (0.0, 1), (1.5, 0), (1.5, 1)):
            options = {} if seed is None else {"seed": seed}
            run = Run(key=jax.random.key(key))
            check_node(
                "RandomNormal", [], lambda _, x: found.append(tuple(x[0].tolist())), (way,), version=22, run=run, shape=[4], **options
            )
    assert found[0] == found[1]
    assert len(set(found)) == 6
    twice = model("g (float[4] x) => (float[4] a, float[4] b) { a = RandomNormalLike (x)  b = RandomNormalLike (x) }")
    a, b = run_nodes(twice, [np.zeros(4, F)], way, run=RUN)
    assert np.asarray(a).tolist() != np.asarray(b).tolist()


def test_shapes_are_not_negative() -> None:
    with pytest.raises(OnnxError, match=r"the shape \[2, -1\]"):
        draw("RandomUniform", [], shape=[2, -1])


def test_without_a_key_nothing_is_drawn() -> None:
    with pytest.raises(OnnxError, match="draws random numbers: give a key"):
        draw("RandomNormal", [], run=Run(), shape=[2])


@each("version", [15, 22])
def test_bernoulli(version: int) -> None:
    p = np.broadcast_to(np.array([0, 0.25, 1], F), (4000, 3))
    x = draw("Bernoulli", [p], "jit", version=version)
    assert x.dtype == F
    assert x.mean(0)[[0, 2]].tolist() == [0, 1]
    assert abs(x.mean(0)[1] - 0.25) < 0.03
    assert draw("Bernoulli", [p], version=version, dtype=9).dtype == bool
    assert draw("Bernoulli", [p], version=version, dtype=7).dtype == np.int64


@each("version", [7, 22])
def test_multinomial(version: int) -> None:
    logits = np.log(np.array([[1, 2, 5], [8, 0, 0]], F) + F(1e-30))
    x = draw("Multinomial", [logits], "jit", version=version, sample_size=4000)
    assert x.shape == (2, 4000)
    assert x.dtype == np.int32
    np.testing.assert_allclose(np.bincount(x[0], minlength=3) / 4000, [1 / 8, 2 / 8, 5 / 8], atol=0.03)
    assert not x[1].any()
    assert draw("Multinomial", [logits], version=version, dtype=7).dtype == np.int64
    with pytest.raises(OnnxError, match="dtype 1 is float32, and classes are int32 or int64"):
        draw("Multinomial", [logits], version=version, dtype=1)
