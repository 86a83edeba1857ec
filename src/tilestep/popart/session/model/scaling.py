"""The loss' scale: automatic, with the anchor `finalLossScale`; and a loss of float16 whose gradient begins in float32.

So its scale may exceed float16's largest number. The loss stays as it is. Beside it stands a copy in float32 of the last operators: back
to the first that is more than a view or a scaling of one tensor, that one included. The copy is differentiated; its float16 inputs are
cast, so that their gradients are of float16 again.
Source: PopART's transforms/ensurefp32lossscale.cpp, which changes the same operators' gradients.
"""

from collections.abc import Collection
from typing import Final

import jax
import numpy as np
import onnx
from onnx import helper

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers import AutomaticLossScaling, ForwardNode, tracked_tensors
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.model.analysis import Analysis
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.model.replication import Replication, sum_over

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


FINAL_SCALE: Final = "finalLossScale"  # the optimiser's loss scaling times what has become of it
FINAL_SCALE_TYPE: Final = jax.ShapeDtypeStruct((), np.dtype(np.float32))


def automatic_scaling(options: SessionOptions, *, accumulation: int, replication: Replication) -> AutomaticLossScaling | None:
    """How the loss scaling of a session follows its gradients; None if it doesn't."""
    if not options.automaticLossScalingSettings.enabled:
        return None
    reduce = None if replication.count == 1 else sum_over(None)
    return AutomaticLossScaling.of(options.automaticLossScalingSettings, accumulation=accumulation, reduce=reduce)


def observed(options: SessionOptions, graph: SessionGraph, analysis: Analysis) -> tuple[str, ...]:
    """The tensors whose gradients automatic loss scaling looks at; none if it is off.

    Raises: popart_exception if there are none to look at, or one that is named has no gradient of float16.
    """
    settings = options.automaticLossScalingSettings
    if not settings.enabled:
        return ()
    halves = {name for name in analysis.differentiable if analysis.types[name].dtype == np.float16}
    nodes = [ForwardNode(op_type=node.op_type, inputs=tuple(node.input), outputs=tuple(node.output)) for node in graph.proto.graph.node]
    backward = halves & _after_variables(graph)
    names = tracked_tensors(settings, nodes, variables=graph.variables, float16_gradients=backward)
    for name in names:
        if name not in halves:
            raise popart_exception(
                f"[AutomaticLossScale transform] Unsupported data type for to-track tensor '{name}': it has no gradient of float16"
            )
    return names


def _after_variables(graph: SessionGraph) -> set[str]:
    """The variables and what is computed with them: no other gradient is needed for an update, so the original computes no other."""
    found = set(graph.variables)
    for node in graph.proto.graph.node:
        if not found.isdisjoint(node.input):
            found.update(node.output)
    return found
