"""Random numbers and dropouts: their distribution, and which keys make the same ones."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.together import each, one_program
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import check_node, model, run_node, run_nodes
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun

F = np.float32
RUN = GraphRun(key=jax.random.key(7))
MANY = [100, 100]


def draw(name: str, inputs: list[Any], way: str = "eager", run: GraphRun = RUN, version: int = 22, **options: Any) -> Any:
    return np.asarray(run_node(name, inputs, way, version=version, run=run, **options)[0])


@pytest.mark.slow
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


@pytest.mark.parametrize("way", ["known", "jit"])
def test_keys_seeds_and_nodes_tell_numbers_apart(way: str) -> None:
    found: list[tuple[float, ...]] = []

    def keep(_: str, outputs: list[Any]) -> None:
        found.append(tuple(outputs[0].tolist()))

    with one_program():
        for seed, key in ((None, 0), (None, 0), (None, 1), (0.0, 0), (0.0, 1), (1.5, 0), (1.5, 1)):
            options = {} if seed is None else {"seed": seed}
            run = GraphRun(key=jax.random.key(key))
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
        draw("RandomNormal", [], run=GraphRun(), shape=[2])


X = np.ones((40, 50), F)
RATIO = np.array(0.25, F)


def old(version: int) -> dict[str, Any]:
    return {"consumed_inputs": [0]} if version == 1 else {}


def training(seed: int = 0) -> GraphRun:
    return GraphRun(training=True, key=jax.random.key(seed))


@each("version", [1, 6])
def test_a_training_run_trains_whatever_the_file_says(version: int) -> None:
    y = run_node("Dropout", [X], version=version, run=training(), is_test=1, **old(version))[0]
    assert (np.asarray(y) == 0).any()


@each("ratio", [-0.1, 1.0])
def test_a_ratio_has_bounds(ratio: float) -> None:
    with pytest.raises(OnnxError, match="must be at least 0 and below 1"):
        run_node("Dropout", [X, np.array(ratio, F)], "known", version=12, run=training())


def test_a_ratio_of_zero_draws_nothing() -> None:
    agrees([X], "Dropout", [X], version=7, ratio=0.0, run=GraphRun(training=True))


def test_half_precision_stays() -> None:
    y = run_node("Dropout", [X.astype(np.float16), RATIO], version=13, run=training())[0]
    assert y.dtype == np.float16
