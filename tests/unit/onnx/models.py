"""Small models, written as ONNX's text."""

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

RNG = np.random.default_rng(0)


def model(graph: str, *, opset: int = 17, imports: str = "", functions: str = "", ir: int = 10, **initializers: Any) -> onnx.ModelProto:
    """A model of `graph`, such as "(float[N,3] x) => (float[N,4] y) { y = MatMul(x, w) }".

    Args:
        imports: of other domains, such as ', "local": 1'.
        functions: after the graph.
        initializers: arrays by name.
    """
    made = parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}{imports}]> net {graph}\n{functions}')
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in initializers.items())
    return made


def uniform(*shape: int) -> np.ndarray[Any, Any]:
    """float32, from -1 to 1."""
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def linear() -> onnx.ModelProto:
    """y = x w + b of [N, 3] and [N, 4], with a shape from Shape. It is the same at each call."""
    return model(
        "(float[N,3] x) => (float[N,4] y) { m = MatMul(x, w)  a = Add(m, b)  s = Shape(a)  y = Reshape(a, s) }",
        w=np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4),
        b=np.float32([0.5, -0.25, 3, 1]),
    )
