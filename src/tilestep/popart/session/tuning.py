"""How single operators of a model are planned, by their attributes, else the session's options for their type; and their lines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, cast

import onnx
from onnx import helper

from tilestep.errors import SettingsError
from tilestep.messages import shown
from tilestep.onnx.graph import Node
from tilestep.options import PREFIX, PlanOptions
from tilestep.popart.builder.graph_walk import nodes_of
from tilestep.popart.builder.origins import Origin, made_at
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions, tuning_of
from tilestep.train import tuned

_ATTRIBUTES: Final = {"__available_memory": "available_memory_proportion", "__partials_type": "partials_type"}

Tuning = Mapping[str, Mapping[str, Any]]  # an operator's first output -> arguments of `tuned`


def tuning_by_output(proto: onnx.ModelProto, options: SessionOptions) -> Tuning:
    """The operators that are planned in a way of their own.

    Raises: popart_exception for an attribute with a value that is not allowed.
    """
    known: dict[str, dict[str, str | float]] = {}
    found: dict[str, Mapping[str, Any]] = {}
    for node in nodes_of(proto.graph):
        if node.op_type not in known:
            known[node.op_type] = _by_type(node, options)
        own = {each.name: helper.get_attribute_value(each) for each in node.attribute if each.name in _ATTRIBUTES}
        if stated := {**known[node.op_type], **own}:
            found[next((name for name in node.output if name), "")] = _checked(node, stated)
    return found


def around(tuning: Tuning, origins: Mapping[str, Origin]) -> Callable[[Node], AbstractContextManager[None]]:
    """What is entered around each operator while the program is traced. Args: origins: as `origins_of` gives them."""

    @contextlib.contextmanager
    def enter(node: Node) -> Iterator[None]:
        name = next(filter(None, node.outputs), "")
        options, origin = tuning.get(name), origins.get(name)
        planned = tuned(**options) if options else contextlib.nullcontext()
        with planned, contextlib.nullcontext() if origin is None else made_at(origin):
            yield

    return enter


def _by_type(node: onnx.NodeProto, options: SessionOptions) -> dict[str, str | float]:
    """What the options say of a type of operators; a wrong value of theirs is named by prepareDevice, as the original does it."""
    with contextlib.suppress(popart_exception, ValueError):
        stated = tuning_of(options, node.op_type)
        _checked(node, stated)
        return stated
    return {}


def _checked(node: onnx.NodeProto, stated: Mapping[str, Any]) -> Mapping[str, Any]:
    values = {_ATTRIBUTES[name]: _value(value) for name, value in stated.items()}
    try:
        PlanOptions().of_operation({PREFIX + name: value for name, value in values.items()})
    except SettingsError as error:
        raise popart_exception(f"Operator {node.op_type} {shown(node.name or next(iter(node.output), ''))}: {error}") from None
    return values


def _value(value: Any) -> Any:
    """A value of `tuned`. A MultiConv has one for each of its convolutions: the smallest proportion and the widest type hold for all."""
    if isinstance(value, list) and value:
        each = [_value(one) for one in cast("list[Any]", value)]
        return "float" if "float" in each else min(each)
    return value.decode(errors="replace").lower() if isinstance(value, bytes) else value
