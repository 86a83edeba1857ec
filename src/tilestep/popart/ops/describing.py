"""Shapes, types and nodes in the words of PopART's messages, which programs and tests compare."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from tilestep.onnx.interpreter.graph import Node, schema_of

DOMAIN: Final = "ai.graphcore"
_NAMES: Final = {"float32": "FLOAT", "float64": "DOUBLE"}  # others have NumPy's name in capitals
_TYPE_WIDTH: Final = 8
_HALVES: Final = {"INT64": "INT32", "UINT64": "UINT32"}


def shape_text(shape: Iterable[int]) -> str:
    """[2 3], as PopART writes it."""
    return f"[{' '.join(map(str, shape))}]"


def type_text(dtype: Any) -> str:
    """FLOAT for float32, INT32 for int32."""
    name = np.dtype(dtype).name
    return _NAMES.get(name, name.upper())


def info_text(x: Any) -> str:
    """The type and the shape of an array, as PopART writes a TensorInfo."""
    name = type_text(x.dtype)
    return f"{_HALVES.get(name, name):<{_TYPE_WIDTH}}{shape_text(x.shape)}"


def kind_text(node: Node) -> str:
    """A node's operator with its version, which is that of its schema: ai.onnx.Add:7."""
    schema = schema_of(node.domain, node.op_type, node.version)
    return f"{node.domain or 'ai.onnx'}.{node.op_type}:{node.version if schema is None else schema.since_version}"


def op_text(node: Node) -> str:
    """A node, as PopART writes an operator: Op(ai.onnx.Add:7, inputs=[a, b], outputs=[c])."""
    named = f"{node.name} ({kind_text(node)})" if node.name else kind_text(node)
    return f"Op({named}, inputs=[{', '.join(node.inputs)}], outputs=[{', '.join(node.outputs)}])"
