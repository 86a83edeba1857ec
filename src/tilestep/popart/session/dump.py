"""Writes a session's graph as JSON, where the environment variable POPART_IR_DUMP asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import onnx

from tilestep.files import write_file
from tilestep.popart.builder import attribute_names as names
from tilestep.popart.environment import read_environment
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.log import Level, log
from tilestep.popart.session.plan import Plan

_MAIN: Final = "maingraph"
_BUILDERS: Final = "BuilderGraph_"  # how the names of graphs begin that a builder has named itself


def dump_graph(plan: Plan) -> None:
    """Writes the operators of a session's model to the file that the process's environment names; does nothing if it names none.

    Raises: popart_exception if the file can't be written.
    """
    path = read_environment().ir_dump
    if path is None:
        return
    log("ir", Level.INFO, f"Writing ir to {path}")
    try:
        write_file(Path(path).expanduser(), graph_json(plan))
    except OSError as error:
        raise popart_exception(f"Failed to open file {path} to dump ir, as POPART_IR_DUMP asks for: {error}") from error


def graph_json(plan: Plan) -> str:
    """A JSON object: name of a graph -> its operators in order, each with type, name, inputs, outputs and attributes.

    The form is the original's, the operators are the model's own: there are no backward ones, because JAX differentiates. Where a session
    has several stages, the operators' attributes say where the session runs them.
    """
    graph = plan.graph.proto.graph
    types = {name: kind for name in _names(graph) if (kind := plan.type_of(name)) is not None}
    found: dict[str, list[dict[str, Any]]] = {}
    _add(graph, _MAIN if not graph.name or graph.name.startswith(_BUILDERS) else graph.name, types, found)
    places = _places(plan)
    for operator in next(iter(found.values())):
        for output in operator["outputs"]:
            operator["attributes"] |= places.get(output["name"], {})
    return json.dumps(found, indent=1)


def _places(plan: Plan) -> dict[str, dict[str, int]]:
    """A tensor -> attributes that say where the operator that makes it runs."""
    kind, found = plan.staging.kind, dict[str, dict[str, int]]()
    for stage in plan.staging.stages if kind != "one" else ():
        place = {names.VIRTUAL_GRAPH: stage.ipu}
        if kind == "pipelined":
            place[names.PIPELINE_STAGE] = stage.number
        if stage.phase is not None:
            place[names.EXECUTION_PHASE] = stage.phase
        found |= {name: place for position in stage.nodes for name in plan.graph.graph.nodes[position].outputs}
    return found


def _names(graph: onnx.GraphProto) -> set[str]:
    return {name for node in graph.node for name in (*node.input, *node.output)}


def _add(graph: onnx.GraphProto, name: str, types: Mapping[str, jax.ShapeDtypeStruct], found: dict[str, list[dict[str, Any]]]) -> None:
    """Adds a graph and those inside of its nodes."""
    operators = found.setdefault(name, [])
    for node in graph.node:
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                inner = attribute.g.name or f"{name}/{node.name}/{attribute.name}"
                attributes[attribute.name] = inner
                _add(attribute.g, inner, {}, found)
            else:
                attributes[attribute.name] = _plain(onnx.helper.get_attribute_value(attribute))
        operators.append(
            {
                "type": node.op_type,
                "domain": node.domain or "ai.onnx",
                "name": node.name,
                "inputs": _tensors(node.input, types),
                "outputs": _tensors(node.output, types),
                "attributes": attributes,
            }
        )


def _tensors(tensors: Iterable[str], types: Mapping[str, jax.ShapeDtypeStruct]) -> list[dict[str, Any]]:
    return [_tensor(name, types.get(name)) for name in tensors]


def _tensor(name: str, kind: jax.ShapeDtypeStruct | None) -> dict[str, Any]:
    return {"name": name} if kind is None else {"name": name, "type": np.dtype(kind.dtype).name.upper(), "shape": list(kind.shape)}


def _plain(value: Any) -> Any:
    """What JSON has for an attribute's value; a tensor is its type and shape."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return {"type": onnx.TensorProto.DataType.Name(value.data_type), "shape": list(value.dims)}
    if isinstance(value, int | float | str):
        return value
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else str(value)
