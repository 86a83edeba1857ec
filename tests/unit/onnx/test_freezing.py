"""A frozen model computes the same with fewer nodes."""

from typing import Any

import jax
import numpy as np
import onnx
import pytest

from tests.unit.onnx.models import model, uniform
from tilestep.onnx import import_onnx

NORM = "BatchNormalization<epsilon = 0.01>"
STATISTICS = {"s": uniform(4) + 2, "o": uniform(4), "m": uniform(4), "v": uniform(4) + 2}
KERNEL, BIAS, X = uniform(4, 3, 3, 3), uniform(4), uniform(2, 3, 6, 6)


def network(body: str, *, opset: int = 17, **more: Any) -> onnx.ModelProto:
    return model(f"(float[2,3,6,6] x) => (float[N,C,H,W] y) {{ {body} }}", opset=opset, w=KERNEL, **{**STATISTICS, **more})


def operators(found: Any) -> list[str]:
    return [node.op_type for node in found.graph.nodes]


def agree(proto: onnx.ModelProto, x: Any) -> list[str]:
    """Operators of the frozen model, which gives what the model gives."""
    plain = import_onnx(proto)
    frozen = plain.frozen()
    (expected,), (y,), (eager,) = jax.jit(plain.fn)(plain.params, x), jax.jit(frozen.fn)({}, x), frozen(x)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(eager, expected, rtol=1e-5, atol=1e-5)
    return operators(frozen)


@pytest.mark.parametrize("opset", [7, 9, 14, 17])
@pytest.mark.parametrize("bias", [False, True])
def test_a_norm_goes_into_the_convolution_before_it(opset: int, bias: bool) -> None:
    convolution = "c = Conv(x, w, b)" if bias else "c = Conv(x, w)"
    body = f"{convolution} n = {NORM}(c, s, o, m, v) y = Relu(n)"
    assert agree(network(body, opset=opset, **({"b": BIAS} if bias else {})), X) == ["Conv", "Relu"]


def test_weights_that_nodes_give_are_weights() -> None:
    # Paddle's exporter writes no initialisers: a frozen model was the same program as one that is not.
    arrays = {"k": KERNEL, "f": uniform(4) + 2}
    nodes = [onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array)) for name, array in arrays.items()]
    proto = network(f"c = Conv(x, k) n = {NORM}(c, f, o, m, v) y = Relu(n)")
    whole = [*nodes, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(whole)
    assert agree(proto, X) == ["Conv", "Relu"]


@pytest.mark.parametrize(
    "body",
    [
        f"c = Conv(x, w) n = {NORM}(c, s, o, m, v) y = Add(n, c)",  # the convolution's result is read elsewhere
        f"c = Conv(x, w) r = Relu(c) y = {NORM}(r, s, o, m, v)",
        f"k = Mul(w, x0) c = Conv(x, k) y = {NORM}(c, s, o, m, v)",  # its weights are computed
        f"c = Conv(x, w) k = Abs(s) y = {NORM}(c, k, o, m, v)",
    ],
)
def test_other_norms_stay(body: str) -> None:
    proto = network(body, x0=np.float32(2))
    assert agree(proto, X) == [node.op_type for node in proto.graph.node]


def test_a_norm_whose_factors_the_type_cannot_hold_stays() -> None:
    def of(number: float) -> Any:
        return np.full(4, number, np.float16)

    statistics = {"s": of(30), "o": of(0), "m": of(0), "v": of(0)}
    body = "c = Conv(x, w) y = BatchNormalization<epsilon = 0.00001>(c, s, o, m, v)"
    proto = model(f"(float16[1,3,2,2] x) => (float16[N,C,H,W] y) {{ {body} }}", w=np.full((4, 3, 1, 1), 30, np.float16), **statistics)
    frozen = import_onnx(proto).frozen()
    assert operators(frozen) == ["Conv", "BatchNormalization"]
    assert np.isfinite(frozen(np.full((1, 3, 2, 2), 1e-3, np.float16))[0]).all()


def test_a_norm_of_the_batch_stays() -> None:
    frozen = import_onnx(network("c = Conv(x, w) y, a, b = BatchNormalization<training_mode = 1>(c, s, o, m, v)")).frozen()
    assert operators(frozen) == ["Conv", "BatchNormalization"]


@pytest.mark.parametrize("opset", [9, 12, 13, 18])
def test_products_of_one_array_become_one(opset: int) -> None:
    body = "q = MatMul(x, a) k = MatMul(x, b) s = Add(q, k) v = MatMul(x, c) t = MatMul(s, a) y = Concat<axis = 2>(s, v, t)"
    weights = {"a": uniform(4, 4), "b": uniform(4, 4), "c": uniform(4, 6)}
    proto = model(f"(float[2,3,4] x) => (float[2,3,N] y) {{ {body} }}", opset=opset, **weights)
    assert agree(proto, uniform(2, 3, 4)) == ["MatMul", "Split", "Add", "MatMul", "Concat"]


def test_a_frozen_model_is_cut_into_stages() -> None:
    body = f"c = Conv(x, w) n = {NORM}(c, s, o, m, v) y = Relu(n)"
    frozen = import_onnx(network(body)).frozen()
    stages = frozen.stages(["n"]).stages
    np.testing.assert_allclose(stages[1]({}, stages[0]({}, X)[0]), frozen(X)[0], rtol=1e-5, atol=1e-5)
