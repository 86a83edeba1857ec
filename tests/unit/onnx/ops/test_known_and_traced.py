"""Known inputs of 64 bits beside traced ones, whose type JAX makes 32 bits: no warning, and the same values. Empty batches."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import values
from tests.unit.onnx.ops.one_node import check_node, run_node
from tilestep.onnx.interpret import GraphRun

D = np.float64
IMAGE, GRID = values(1, 2, 4, 4, dtype=D), values(1, 3, 3, 2, dtype=D)
C = values(2, dtype=D)
POSITIVE = np.abs(C) + 1
ROI = np.array([[0, 0, 2, 2]], D)
HEADS = values(1, 2, 3, 4, dtype=D)
CASES: list[tuple[str, int, list[Any], int, dict[str, Any]]] = [
    ("MatMul", 13, [IMAGE, IMAGE], 1, {}),
    ("Gemm", 13, [GRID[0, 0], GRID[0, 0].T, C[:1]], 1, {"alpha": 0.5, "beta": 2.0}),
    ("Einsum", 12, [IMAGE, IMAGE], 1, {"equation": "abcd,abde->abce"}),
    ("Conv", 11, [IMAGE, values(2, 2, 2, 2, dtype=D), C], 1, {}),
    ("ConvTranspose", 11, [IMAGE, values(2, 2, 2, 2, dtype=D), C], 1, {}),
    ("DeformConv", 19, [IMAGE, values(2, 2, 2, 2, dtype=D), values(1, 8, 3, 3, dtype=D), C], 1, {}),
    ("MaxUnpool", 11, [IMAGE, np.arange(32).reshape(1, 2, 4, 4) * 4], 1, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("BatchNormalization", 9, [IMAGE, C, C, C, POSITIVE], 1, {}),
    ("BatchNormalization", 15, [IMAGE, C, C, C, POSITIVE], 3, {"training_mode": 1}),
    ("InstanceNormalization", 6, [IMAGE, C, C], 1, {}),
    ("LayerNormalization", 17, [HEADS, values(4, dtype=D), values(4, dtype=D)], 3, {"stash_type": 11}),
    ("RMSNormalization", 23, [HEADS, values(4, dtype=D)], 1, {}),
    ("GroupNormalization", 18, [IMAGE, C, C], 1, {"num_groups": 2}),
    ("GroupNormalization", 21, [IMAGE, C, C], 1, {"num_groups": 2}),
    ("NegativeLogLikelihoodLoss", 13, [IMAGE, np.ones((1, 4, 4), np.int64), C], 1, {"ignore_index": 0}),
    ("SoftmaxCrossEntropyLoss", 13, [IMAGE, np.ones((1, 4, 4), np.int64), C], 2, {}),
    ("GridSample", 16, [IMAGE, GRID], 1, {}),
    ("AffineGrid", 20, [values(1, 2, 3, dtype=D), np.array([1, 1, 2, 3])], 1, {}),
    ("RoiAlign", 16, [IMAGE, ROI, np.array([0])], 1, {"sampling_ratio": 2}),
    ("MaxRoiPool", 1, [IMAGE, np.array([[0, 0, 0, 2, 2]], D)], 1, {"pooled_shape": [2, 2]}),
    ("Attention", 23, [HEADS, HEADS, HEADS, values(3, 3, dtype=D)], 4, {"softmax_precision": 11, "softcap": 2.0}),
    ("RotaryEmbedding", 23, [HEADS, values(1, 3, 2, dtype=D), values(1, 3, 2, dtype=D)], 1, {}),
    ("Resize", 13, [IMAGE, None, np.array([1, 1, 2, 2], np.float32)], 1, {"mode": "linear"}),
    ("Dropout", 7, [IMAGE], 2, {}),
]

BATCHED = {  # positions of the inputs that have a batch, or a region, as their first axis; of others only the first one
    "MatMul": (0, 1),
    "Einsum": (0, 1),
    "DeformConv": (0, 2),
    "MaxUnpool": (0, 1),
    "NegativeLogLikelihoodLoss": (0, 1),
    "SoftmaxCrossEntropyLoss": (0, 1),
    "GridSample": (0, 1),
    "RoiAlign": (1, 2),
    "MaxRoiPool": (1,),
    "Attention": (0, 1, 2),
    "RotaryEmbedding": (0, 1, 2),
}


@pytest.mark.slow
@each("op_type, version, inputs, outputs, attributes", CASES)
def test_one_input_is_traced(op_type: str, version: int, inputs: list[Any], outputs: int, attributes: dict[str, Any]) -> None:
    options: dict[str, Any] = {"version": version, "outputs": outputs, **attributes}
    run = GraphRun(training=op_type == "Dropout", key=jax.random.key(0))
    found: list[list[Any]] = []

    def check(way: str, results: list[Any]) -> None:
        found.append([np.asarray(result, D) for result in results])
        if len(found) == 2:
            for narrow, wide in zip(*found, strict=True):
                np.testing.assert_allclose(narrow, wide, 1e-3, 1e-4, err_msg=way)

    check_node(op_type, inputs, check, ("jit",), static=range(1, len(inputs)), run=run, **options)
    check_node(op_type, inputs, check, ("wide",), run=run, **options)
    shapes = [result.shape for result in run_node(op_type, inputs, "shapes", run=run, **options)]
    for traced, x in enumerate(inputs):  # tracing tells types that do not fit
        if x is None or not traced or (op_type, traced) in (("Resize", 2), ("AffineGrid", 1)):
            continue
        static = [position for position in range(len(inputs)) if position != traced]
        assert [result.shape for result in run_node(op_type, inputs, "shapes", static=static, run=run, **options)] == shapes


@each("op_type, version, inputs, outputs, attributes", CASES)
def test_a_batch_may_be_empty(op_type: str, version: int, inputs: list[Any], outputs: int, attributes: dict[str, Any]) -> None:
    batched = BATCHED.get(op_type, (0,))
    empty = [x[:0] if position in batched else x for position, x in enumerate(inputs)]
    run = GraphRun(training=op_type == "Dropout", key=jax.random.key(0))
    y = run_node(op_type, empty, "shapes", version=version, outputs=outputs, run=run, **attributes)[0]
    assert 0 in y.shape or not y.shape  # a loss is a mean
