"""Tuning of single nodes: which options of the planner each one has, and how its operator is traced with them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Final

import onnx

from tilestep.errors import SettingsError
from tilestep.onnx.graph import Node
from tilestep.popart.builder.attribute_names import AVAILABLE_MEMORY, PARTIALS_TYPE
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions, tuning_of
from tilestep.train.tuned import tuned

_NOTE: Final = "tilestep.tuning"  # metadata of a node, which the importer hands on as it is
_TUNED: Final = (AVAILABLE_MEMORY, PARTIALS_TYPE)
_PARTIALS: Final = {"float": "float", "half": "half"}


def note_tuning(graph: onnx.GraphProto, options: SessionOptions) -> bool:
    """Writes each node's tuning into its metadata: its own attributes, or what the options say of its type.

    Returns: whether a node has any.
    Raises: popart_exception for a value that is not allowed.
    """
    found = False
    for node in graph.node:
        others = [entry for entry in node.metadata_props if entry.key != _NOTE]
        del node.metadata_props[:]
        node.metadata_props.extend(others)
        stated = {**_by_type(node, options), **_checked(node, _own(node.attribute))}
        if stated:
            found = True
            node.metadata_props.add(key=_NOTE, value=json.dumps(stated))
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found = note_tuning(inner, options) or found
    return found


def _by_type(node: onnx.NodeProto, options: SessionOptions) -> dict[str, str | float]:
    with contextlib.suppress(popart_exception, ValueError):  # prepareDevice names an option with a value that is not allowed
        return _checked(node, tuning_of(options, node.op_type))
    return {}


def _own(attributes: Iterable[onnx.AttributeProto]) -> dict[str, str | float]:
    stated: dict[str, str | float] = {}
    for attribute in attributes:
        if attribute.name in _TUNED:
            value = onnx.helper.get_attribute_value(attribute)
            stated[attribute.name] = value.decode() if isinstance(value, bytes) else value
    return stated


def _checked(node: onnx.NodeProto, stated: dict[str, str | float]) -> dict[str, str | float]:
    """Options of `tuned`. Raises: popart_exception for a value that is not allowed."""
    given: dict[str, str | float] = {}
    where = f"node '{node.name or next(iter(node.output), '')}' ({node.op_type})"
    partials = stated.get(PARTIALS_TYPE)
    if partials is not None:
        if not isinstance(partials, str) or partials.lower() not in _PARTIALS:
            raise popart_exception(
                f"Unable to get option '{PARTIALS_TYPE}' from string '{partials}'. Possible values are 'float' and 'half' in any letter case. "
                f"It stands at {where}."
            )
        given["partials_type"] = _PARTIALS[partials.lower()]
    proportion = stated.get(AVAILABLE_MEMORY)
    if proportion is not None:
        if not isinstance(proportion, int | float) or not 0 < proportion <= 1:
            raise popart_exception(f"availableMemoryProportion must be in (0,1], and is {proportion} at {where}")
        given["available_memory_proportion"] = proportion
    return given


def tuned_node(node: Node) -> contextlib.AbstractContextManager[None]:
    """Traces a node's operator with its options. Raises: popart_exception for one that the planner does not take."""
    for entry in node.proto.metadata_props:
        if entry.key == _NOTE:
            try:
                return tuned(**json.loads(entry.value))
            except SettingsError as error:
                raise popart_exception(f"{node.place}: {error}") from error
    return contextlib.nullcontext()
