"""Which of onnx's tests of operators a tensor program of an accelerator can mean."""

from collections.abc import Iterator

import onnx

_RANDOM = frozenset({"Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"})


def is_for_accelerators(model: onnx.ModelProto) -> bool:
    """Whether it has only tensors of numbers, and operators of ONNX's own domain that are neither random nor read images."""
    nodes = [*_nodes(model.graph.node), *(node for function in model.functions for node in _nodes(function.node))]
    values = [*model.graph.input, *model.graph.output, *(value for graph in _graphs(nodes) for value in (*graph.input, *graph.output))]
    return not (
        any(_is_text_or_no_tensor(value.type) for value in values)
        or any(node.domain in ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training") for node in nodes)
        or any(node.op_type in _RANDOM or node.op_type.startswith(("Image", "Sequence", "Optional")) for node in nodes)
    )


def _is_text_or_no_tensor(declared: onnx.TypeProto) -> bool:
    kind = declared.WhichOneof("value")
    return kind not in (None, "tensor_type") or declared.tensor_type.elem_type == onnx.TensorProto.STRING


def _nodes(nodes: object) -> Iterator[onnx.NodeProto]:
    for node in nodes:  # protobuf's lists have no type
        yield node
        for graph in _graphs([node]):
            yield from _nodes(graph.node)


def _graphs(nodes: list[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    for node in nodes:
        yield from (attribute.g for attribute in node.attribute if attribute.HasField("g"))
