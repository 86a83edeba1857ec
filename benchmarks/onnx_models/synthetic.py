"""Models that ask one question of an importer: many nodes that compute shapes, or much data beside the model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.onnx_models.writer import Writer

_NODES_OF_A_STEP: Final = 5
_WIDTH: Final = 4096


def shape_nodes(count: int) -> onnx.ModelProto:
    """float32[batch, 8, 6] in, as many out, through `count` nodes that compute shapes and use them."""
    to = Writer(opset=17)
    x = "x"
    for _ in range(count // _NODES_OF_A_STEP):
        batch = to.node("Gather", to.node("Shape", x), to.weight(np.int64(0), f"first_{x}"), axis=0)
        rows = to.node("Unsqueeze", batch, to.weight(np.int64([0]), f"axis_{x}"))
        x = to.node("Reshape", x, to.node("Concat", rows, to.weight(np.int64([-1, 6]), f"rest_{x}"), axis=0))
    return to.model("shapes", [("x", np.float32, ("batch", 8, 6))], [x])


def write_large(folder: Path, num_bytes: int) -> Path:
    """A chain of products with `num_bytes` of float32 matrices in a file beside the model. Returns: the model's path."""
    to = Writer(opset=17)
    matrix = np.random.default_rng(0).standard_normal((_WIDTH, _WIDTH), np.float32) / 64
    count = -(-num_bytes // matrix.nbytes)
    x = "x"
    for number in range(count):
        x = to.node("MatMul", x, f"weight_{number}")
    proto = to.model("large", [("x", np.float32, (1, _WIDTH))], [x])
    with (folder / "large.data").open("wb") as file:
        for number in range(count):
            tensor = TensorProto(name=f"weight_{number}", data_type=TensorProto.FLOAT, dims=matrix.shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "large.data"), ("offset", file.tell()), ("length", matrix.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            proto.graph.initializer.append(tensor)
            file.write(matrix)
    path = folder / "large.onnx"
    onnx.save(proto, str(path))
    return path
