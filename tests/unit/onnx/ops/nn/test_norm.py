"""Norms within an item: types, gradients, what is refused, and one against ONNX Runtime."""

from typing import Any

import jax
import numpy as np
import pytest
from onnx import helper

from tests.together import compiled, each
from tests.unit.onnx.ops.agree import agrees, agrees_with_onnxruntime, values
from tests.unit.onnx.ops.one_node import prepared, run_node
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph

F = np.float32
X = values(2, 4, 3, 5)
SCALE, BIAS = values(4, seed=1), values(4, seed=2)


def test_the_first_stage_is_in_32_bits() -> None:
    x = np.full((1, 1000), 200, np.float16)
    x[0, ::2] = 100
    expected = np.where(x == 200, 1, -1).astype(np.float16)
    one = np.ones(1000, np.float16)
    agrees([expected], "LayerNormalization", [x, one], version=17, rtol=1e-3)  # in 16 bits the sum would be beyond 65,504


def test_groups_divide_the_channels() -> None:
    with pytest.raises(OnnxError, match="num_groups is 3, and must divide the 4 channels"):
        run_node("GroupNormalization", [X, SCALE, BIAS], version=21, num_groups=3)


def test_local_response_norm_is_onnxruntimes() -> None:
    agrees_with_onnxruntime("LRN", [X], version=7, size=3, alpha=0.5, beta=0.6, bias=2.0)


def test_lp_norm_has_two_orders() -> None:
    with pytest.raises(OnnxError, match="p is 3, and may be 1 or 2"):
        run_node("LpNormalization", [X], version=1, p=3)


@each("op_type, attributes", [("LpNormalization", {"p": 2}), ("MeanVarianceNormalization", {})])
def test_equal_numbers_have_a_gradient(op_type: str, attributes: dict[str, Any]) -> None:
    graph = prepared([helper.make_node(op_type, ["x"], ["y"], **attributes)], ["x"], ["y"], {"": 13})

    def check(gradient: Any) -> None:
        assert np.isfinite(gradient).all()

    compiled(jax.grad(lambda x: run_graph(graph, [x], GraphRun())[0].sum()), np.zeros((1, 1, 2, 2), F), check)
