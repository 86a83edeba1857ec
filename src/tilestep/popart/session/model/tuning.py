"""What attributes of single nodes and options for their type say: how each is planned, its line, and what must have a meaning."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, cast

import jax
import onnx
from onnx import helper

from tilestep.errors import SettingsError
from tilestep.messages import shown
from tilestep.onnx.interpreter.graph import Node
from tilestep.options import PREFIX, PlanOptions
from tilestep.popart.builder.graph import attribute_names as names
from tilestep.popart.builder.graph.graph_walk import nodes_of
from tilestep.popart.builder.graph.origins import Origin, made_at
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions, tuning_of
from tilestep.popart.patterns import require_pattern_name
from tilestep.train import tuned

_CHECKED: Final = frozenset({names.EXCLUDE_PATTERNS, names.SERIALIZE_MATMUL_MODE, names.SERIALIZE_MATMUL_FACTOR})
_DIMENSIONS: Final = {  # mode -> (input, its dimension from the end, words of the original)
    "input_channels": (0, 2, "input channels dim"),
    "reducing_dim": (0, 1, "reducing dimension"),
    "output_channels": (1, 1, "output channels dim"),
}


def require_node_attributes(graph: onnx.GraphProto, type_of: Callable[[str], jax.ShapeDtypeStruct | None]) -> None:
    """Args: type_of: shapes of tensors. Raises: popart_exception for a pattern that does not exist, or a factor that does not divide."""
    for node in graph.node:
        stated: dict[str, Any] = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name in _CHECKED
        }
        for pattern in stated.get(names.EXCLUDE_PATTERNS, ()):
            require_pattern_name(pattern.decode(errors="replace"))
        if names.SERIALIZE_MATMUL_MODE in stated:
            _require_factor(node, stated, type_of)


def _require_factor(node: onnx.NodeProto, stated: Mapping[str, Any], type_of: Callable[[str], jax.ShapeDtypeStruct | None]) -> None:
    mode = stated[names.SERIALIZE_MATMUL_MODE].decode(errors="replace")
    factor = int(stated.get(names.SERIALIZE_MATMUL_FACTOR, 0))
    if mode not in _DIMENSIONS:
        return
    if factor <= 0:
        raise popart_exception(f"Invalid serialisation factor {factor}. Serialisation factor must be a non-zero positive integer.")
    position, from_end, words = _DIMENSIONS[mode]
    kind = type_of(node.input[position])
    if kind is not None and len(kind.shape) >= from_end and kind.shape[-from_end] % factor:
        raise popart_exception(
            f"Invalid serialisation factor {factor} for {words} {kind.shape[-from_end]}. {mode} dim should be a multiple of the "
            "serialisation factor "
        )


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
