"""What a graph holds, with the graphs inside of its operators."""

from collections.abc import Iterator

import onnx


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those inside of it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from graphs_of(inner)


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph, and of those inside of it."""
    for inner in graphs_of(graph):
        yield from inner.node


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Initialisers, and tensors that are attributes, of a graph and of those inside of it."""
    for inner in graphs_of(graph):
        yield from inner.initializer
        for node in inner.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
