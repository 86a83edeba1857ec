"""Imported networks are those written by hand: in their values and in XLA's operations."""

from __future__ import annotations

import pytest

from benchmarks import onnx_import
from benchmarks.onnx_models import cases
from benchmarks.onnx_models.cases import Case


@pytest.fixture(scope="module", params=list(cases.SMALL))
def case(request: pytest.FixtureRequest) -> Case:
    return cases.SMALL[request.param]()


def test_xla_has_no_more_products_and_transpositions(case: Case) -> None:
    programs = onnx_import.programs(case, frozen=False)
    ours, theirs = (onnx_import.counts(*programs[name]) for name in ("imported", "by_hand"))
    if "ResNet" in case.name:  # products for convolutions of one element; kernels in the file's layout are transposed
        assert ours["dot"] + ours["convolution"] == theirs["dot"] + theirs["convolution"]
        few_windows = 2  # convolutions that are products with channels first: of their windows and their results
        assert ours["transpose"] == ours["convolution"] + 1 + 2 * few_windows  # and the images
    else:
        assert all(ours[opcode] <= theirs[opcode] for opcode in theirs)


def test_the_file_of_a_network_has_no_operator_that_hides_a_pattern(case: Case) -> None:
    found = {node.op_type for node in case.proto.graph.node}
    assert found.isdisjoint({"LayerNormalization", "Gelu", "Attention"})
