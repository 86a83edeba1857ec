"""Writes ONNX models node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


class Writer:
    """A graph in the making. Values are named by their operator and a number, as in PyTorch's exports."""

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def weight(self, array: Any, name: str) -> str:
        """Adds an initialiser. Returns: its name."""
        self._initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Adds a node that makes a constant. Returns: the constant's name."""
        return self.node("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node of one output. Returns: the output's name."""
        (output,) = self.nodes(op, 1, *inputs, **attributes)
        return output

    def nodes(self, op: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds a node of `count` outputs. Returns: their names."""
        name = f"/{op}_{len(self._nodes)}"
        outputs = [f"{name}_output_{number}" for number in range(count)]
        self._nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **attributes))
        return outputs

    def model(self, name: str, inputs: Sequence[tuple[str, Any, Sequence[int | str]]], outputs: Sequence[str]) -> onnx.ModelProto:
        """The whole model. Args: inputs: (name, dtype, shape); outputs: names of float32 values."""
        made = [helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape) for each, kind, shape in inputs]
        results = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in outputs]
        graph = helper.make_graph(self._nodes, name, made, results, initializer=self._initializers)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self._opset)], ir_version=8, producer_name="tilestep-benchmarks"
        )
