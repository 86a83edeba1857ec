"""Graphs as attributes: a child builder's graph, embedded into a node of its parent."""

from typing import Any, Final

import onnx

from tilestep.popart.builder.graph.model import GraphModel
from tilestep.popart.builder.opsets.signatures import ArgumentKind, Mismatch


def _model_of(value: object) -> GraphModel:
    """The graph of a builder, or of its core."""
    inner = getattr(value, "_impl", value)
    model = getattr(inner, "_model", None)
    if not isinstance(model, GraphModel):
        raise Mismatch
    return model


SUBGRAPH: Final = ArgumentKind(label="Builder", convert=_model_of)


def embedded(outer: GraphModel, value: Any) -> Any:
    """A graph for an operator that reads what is around its graphs (If, Loop, Scan); other values are handed back.

    ONNX passes such values by name, so that inputs which the child took from its parent are left out.
    """
    if not isinstance(value, GraphModel):
        return value
    graph = onnx.GraphProto()
    graph.CopyFrom(value.proto.graph)
    kept = [info for info in graph.input if not value.is_around(info.name)]
    del graph.input[:]
    graph.input.extend(kept)
    _adopt_opsets(outer, value)
    return graph


def called(outer: GraphModel, value: GraphModel) -> onnx.GraphProto:
    """A graph for an operator that binds its graph's inputs by position (Call, PackedDataBlock)."""
    graph = onnx.GraphProto()
    graph.CopyFrom(value.proto.graph)
    _adopt_opsets(outer, value)
    return graph


def _adopt_opsets(outer: GraphModel, inner: GraphModel) -> None:
    """Domains that only the inner graph uses become the model's. Where both use one, the outer's version holds, as in the original."""
    for domain, version in inner.opsets.items():
        if domain not in outer.opsets:
            outer.use_opset(domain, version)
