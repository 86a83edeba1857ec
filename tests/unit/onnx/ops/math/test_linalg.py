"""Matrix products of old versions, integers, and what doesn't fit."""

import jax
import numpy as np
import pytest
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, values
from tests.unit.onnx.ops.one_node import QUICK_WAYS, prepared, run_node, run_nodes
from tilestep.onnx.errors import OnnxError

F = np.float32
A, B = values(3, 4), values(4, 2, seed=1)


def test_known_integers_are_multiplied_in_64_bits() -> None:
    big = np.array([[1 << 40]], np.int64)
    assert run_node("MatMul", [big, np.array([[3]], np.int64)], "known", version=9)[0].tolist() == [[3 << 40]]


@each("factor, expected", [(2.0, [[8]]), (1.0, [[5]])])
def test_gemm_of_integers_takes_whole_factors(factor: float, expected: list[list[int]]) -> None:
    one = np.array([[1]], np.int32)
    agrees([np.array(expected, np.int32)], "Gemm", [3 * one, one, one * 2], version=9, alpha=factor)


def test_gemm_of_integers_refuses_fractions() -> None:
    one = np.array([[1]], np.int32)
    with pytest.raises(OnnxError, match=r"alpha is 0\.5, and for integers it must be a whole number"):
        run_node("Gemm", [one, one], version=11, alpha=0.5)


def test_gemms_third_input_may_not_widen_the_product() -> None:
    with pytest.raises(OnnxError, match=r"C has shape \[4, 3, 2\], which doesn't broadcast to \[3, 2\]"):
        run_node("Gemm", [A, B, values(4, 3, 2)], version=11)


def test_gemm_is_one_product_without_a_transposition() -> None:
    graph = prepared([helper.make_node("Gemm", ["a", "b", "c"], ["y"], transA=1, transB=1)], ["a", "b", "c"], ["y"], {"": 13})
    jaxpr = str(jax.make_jaxpr(lambda *inputs: run_nodes(graph, inputs))(A.T, B.T, values(2)))
    assert jaxpr.count("dot_general") == 1
    assert "transpose[" not in jaxpr


def test_a_product_of_two_known_vectors_may_be_too_large_to_be_known() -> None:
    column = np.ones((1 << 13, 1), F)
    y = run_node("MatMul", [column, column.T], "known", version=13)[0]
    assert not isinstance(y, np.ndarray)
    assert y.shape == (1 << 13, 1 << 13)


@each("way", QUICK_WAYS)
def test_matrices_that_dont_fit_are_named(way: str) -> None:
    with pytest.raises(OnnxError, match="the_node"):
        run_node("MatMul", [A, A], way, version=13)
