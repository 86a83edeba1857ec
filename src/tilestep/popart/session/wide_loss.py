"""A loss of float16 whose gradient begins in float32, so that its scale may exceed float16's largest number.

The loss stays as it is. Beside it stands a copy in float32 of the last operators: back to the first that is more than a view or a scaling
of one tensor, that one included. The copy is differentiated; its float16 inputs are cast, so that their gradients are of float16 again.
Source: PopART's transforms/ensurefp32lossscale.cpp, which changes the same operators' gradients.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import onnx
from onnx import helper

WIDE: Final = "/fp32"  # how the names of the copy's tensors end
_RANDOM: Final = frozenset({"Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniformLike", "ShapedDropout"})
_OTHERS: Final = frozenset({"BatchNormalization", "Cast", "CastLike"})  # they keep statistics, or have a type of their own
_LINEAR_OPERATORS: Final = frozenset(  # the gradient is that of the output, moved or scaled
    {"Flatten", "Identity", "IdentityLoss", "Neg", "ReduceMean", "ReduceSum", "Reshape", "Scale", "Squeeze", "Transpose", "Unsqueeze"}
)


def add_wide_loss(graph: onnx.GraphProto, loss: str, halves: Collection[str]) -> None:
    """Adds the copy to a graph: the tensor to differentiate has the loss' name and WIDE. Args: halves: names of float16 tensors."""
    makers = {name: node for node in graph.node for name in node.output}
    copied: list[onnx.NodeProto] = []
    name = loss
    while (node := makers.get(name)) is not None and _may_be_copied(node):
        copied.append(node)
        if node.op_type not in _LINEAR_OPERATORS or node.input[0] not in halves:
            break
        name = node.input[0]
    made = {each for node in copied for each in node.output}
    read = [each for node in copied for each in node.input] if copied else [loss]
    casts = [each for each in dict.fromkeys(read) if each in halves and each not in made]
    graph.node.extend(helper.make_node("Cast", [each], [each + WIDE], to=onnx.TensorProto.FLOAT) for each in casts)
    for node in reversed(copied):
        twin = graph.node.add()
        twin.CopyFrom(node)
        twin.name = node.name and node.name + WIDE
        twin.input[:] = [each + WIDE if each in made or each in casts else each for each in node.input]
        twin.output[:] = [each and each + WIDE for each in node.output]


def _may_be_copied(node: onnx.NodeProto) -> bool:
    """Whether a copy with other types does what the operator itself does."""
    return node.op_type not in _RANDOM | _OTHERS and not any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)
