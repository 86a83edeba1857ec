"""What an operator costs when a model is shared out among IPUs or phases: the bytes of weights that it reads and of what it keeps.

Source: PopART's costFn in transforms/auto_virtual_graph.cpp and in transforms/streamingmemory.cpp, and what each operator's gradient reads.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tilestep.popart.session.analysis import Analysis
from tilestep.popart.session.graph import SessionGraph
from tilestep.popart.session.staging.placement import Operator

_KEEP_NOTHING: Final = frozenset(
    {
        *("Add", "Sub", "Sum", "Mean", "Neg", "Identity", "Nop", "Detach", "Scale", "Cast", "PrintTensor", "AddBias", "TensorRemap"),
        *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice", "Subsample", "Pad", "Expand", "Reverse"),
        *("ReduceSum", "ReduceMean", "Resize", "Upsample", "IdentityLoss", "ReplicatedAllReduce", "ReplicatedAllGather"),
        *("ReplicatedReduceScatter", "If", "Call", "Loop", "Scan", "Shape", "Size", "Constant"),
    }
)
_KEEP_RESULTS: Final = frozenset({"Relu", "LeakyRelu", "Clip", "Exp", "Expm1", "Sigmoid", "Tanh", "Sqrt", "Softmax", "ReduceLogSum"})
_KEEP_BOTH: Final = frozenset(
    {
        *("AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization", "GroupNormalization", "LSTM", "GRU", "RNN"),
        *("InstanceNormalization", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "CtcLoss", "Ctc"),
    }
)


def cost_of(operator: Operator, graph: SessionGraph, analysis: Analysis, *, training: bool, weight: float = 1.0) -> float:
    """Bytes of an operator.

    Args:
        training: whether what its gradient reads is kept, and counts too.
        weight: how often a byte of weights counts.
    """
    node = operator.node
    needed = frozenset[int]() if node.operator is None else node.operator.needs
    inputs = dict.fromkeys(name for position, name in enumerate(node.inputs) if name and position not in needed)
    held = {name for name in inputs if name in graph.variables or name in graph.constants or name in analysis.values}
    total = weight * sum(_bytes(name, analysis) for name in held)
    if training:
        total += sum(_bytes(name, analysis) for name in _kept(operator, list(inputs)) if name not in held)
    return total


def _kept(operator: Operator, inputs: list[str]) -> list[str]:
    """Tensors that the gradient of an operator reads."""
    kind, results = operator.node.op_type, [name for name in operator.node.outputs if name]
    if kind in _KEEP_NOTHING:
        return []
    if kind in _KEEP_RESULTS:
        return results
    return [*inputs, *results] if kind in _KEEP_BOTH else inputs


def _bytes(name: str, analysis: Analysis) -> int:
    kind = analysis.types.get(name)
    return 0 if kind is None else int(np.prod(kind.shape, dtype=np.int64)) * kind.dtype.itemsize
