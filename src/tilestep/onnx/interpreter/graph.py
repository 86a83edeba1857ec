"""A graph of an ONNX model, prepared for the interpreter: implementations are found and attributes are read, once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from tilestep.messages import shown
from tilestep.onnx.errors import OnnxError, UnsafeModelError, UnsupportedOpError
from tilestep.onnx.interpreter.registry import Operator, find, plain_domain
from tilestep.onnx.interpreter.values import Array

MOST_NESTED_LEVELS: Final = 64  # subgraphs and calls of functions are levels
_SHOWN_NODES_OF_MISSING: Final = 3
_SHOWN_MISSING_OPERATORS: Final = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """A node, ready to run.

    Attributes:
        number: of the node in its model, in the order of reading; it tells nodes' random numbers apart.
        version: of the node's domain that its graph imports.
        inputs, outputs: names; "" is an absent one.
        attributes: by name, with the schema's defaults; graphs are prepared.
        given: names of those that stand in the file.
        operator: its implementation; None if it is a function.
        function: the prepared body of a function of the model; None for others.
        proto: as it stands in the file, with the caller's attributes in a function.
        ended: values that nobody reads after this node.
    """

    number: int
    op_type: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    given: frozenset[str]
    operator: Operator | None
    function: Graph | None
    proto: onnx.NodeProto
    ended: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The node in words, for errors."""
        where = f"{self.domain}." if self.domain else ""
        named = f"'{self.name}' " if self.name else ""
        return f"node {named}({where}{self.op_type}-{self.version}, which makes {', '.join(filter(None, self.outputs)) or 'nothing'})"

    @property
    def subgraphs(self) -> tuple[Graph, ...]:
        """Graphs among its attributes."""
        return tuple(value for value in self.attributes.values() if isinstance(value, Graph))


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A graph or a function's body, ready to run.

    Attributes:
        inputs, outputs: names, in order; initialisers are no inputs.
        initializers: by name; arrays of the main graph may be read by the interpreter's caller instead.
        outer: names that its nodes read from the graph around it.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    initializers: Mapping[str, Array]
    outer: frozenset[str]


@dataclass
class Preparation:
    """What is collected while a model is prepared.

    Attributes:
        functions: of the model, by (domain, name, overload).
        missing: (domain, name, version) -> nodes that need it.
        left: nodes that may still be read.
        dialect: whose implementations come before the importer's own.
    """

    functions: Mapping[tuple[str, str, str], onnx.FunctionProto]
    left: int
    dialect: str = ""
    missing: dict[tuple[str, str, int], list[str]] = field(default_factory=dict[tuple[str, str, int], list[str]])
    numbers: int = 0
    calls: tuple[tuple[str, str, str], ...] = ()  # functions that are being prepared, outermost first

    def graph(
        self,
        graph: onnx.GraphProto,
        opsets: Mapping[str, int],
        *,
        initializers: Mapping[str, Array] | None = None,
        depth: int = 0,
    ) -> Graph:
        """Prepares a graph.

        Args:
            opsets: versions of the domains.
            initializers: those of the graph, where they have been read; they are read here if not given.

        Raises: OnnxError for a damaged node, UnsafeModelError for too many nodes or too deep ones.
        """
        if initializers is None:
            initializers = {tensor.name: array_of(tensor) for tensor in graph.initializer}
        inputs = tuple(value.name for value in graph.input if value.name not in initializers)
        outputs = tuple(value.name for value in graph.output)
        return self.body(graph.name, graph.node, inputs, outputs, opsets, initializers, depth=depth)

    def body(
        self,
        name: str,
        nodes: Iterable[onnx.NodeProto],
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        opsets: Mapping[str, int],
        initializers: Mapping[str, Array],
        *,
        given: Mapping[str, onnx.AttributeProto] | None = None,
        depth: int,
    ) -> Graph:
        """Prepares the nodes of a graph or, with the attributes `given`, of a function."""
        if depth > MOST_NESTED_LEVELS:
            raise UnsafeModelError(f"graph '{name}' is more than {MOST_NESTED_LEVELS} graphs and functions deep")
        prepared: list[Node] = []
        for proto in nodes:
            node = self.node(proto, opsets, given, depth)
            if (node.domain, node.op_type) == ("ai.onnx.preview.training", "Gradient"):
                node = replace(node, attributes={**node.attributes, "graph": _between(node, prepared)})
            prepared.append(node)
        made = {*inputs, *initializers}
        outer: set[str] = set()
        for node in prepared:
            outer.update(read for read in reads(node) if read not in made)
            made.update(node.outputs)
        outer.update(output for output in outputs if output not in made)
        ordered = with_ends(prepared, {*outputs, *outer})
        return Graph(name=name, inputs=inputs, outputs=outputs, nodes=ordered, initializers=initializers, outer=frozenset(outer))

    def node(self, proto: onnx.NodeProto, opsets: Mapping[str, int], given: Mapping[str, onnx.AttributeProto] | None, depth: int) -> Node:
        """Prepares one node. Args: given: the attributes of the function that the node is in; None outside of functions."""
        self.left -= 1
        if self.left < 0:
            raise UnsafeModelError("the model has more nodes than are allowed, with those of its functions counted at each call")
        number, self.numbers = self.numbers, self.numbers + 1
        domain = plain_domain(proto.domain)
        place = f"node '{proto.name}' ({proto.op_type})"
        if domain not in opsets:
            raise OnnxError(f"{place}: its domain '{domain or 'ai.onnx'}' has no version in the model's opset_import")
        version = opsets[domain]
        schema = schema_of(domain, proto.op_type, version)
        written = [bound for attribute in proto.attribute if (bound := _bound(attribute, given)) is not None]
        if schema is not None:  # PopART's attributes say where and how a node of ONNX runs, not what it computes
            written = [each for each in written if each.name in schema.attributes or not each.name.startswith("__")]
        attributes = {} if schema is None else dict(_defaults(schema))
        for attribute in written:
            attributes[attribute.name] = self.value(attribute, opsets, given, depth, place)
            _require_type(place, attribute, schema)
        function = operator = None
        key = domain, proto.op_type, proto.overload
        if key in self.functions:
            function = self.function(key, {attribute.name: attribute for attribute in written}, depth)
        else:
            operator = find(domain, proto.op_type, version, dialect=self.dialect)
            if operator is None and (schema is None or not has_body(schema)):
                self.missing.setdefault((domain, proto.op_type, version), []).append(proto.name or next(iter(proto.output), "?"))
            _require_names(place, written, schema, operator)
        if schema is not None and schema.deprecated and (operator is None or operator.since < schema.since_version):
            raise OnnxError(f"{place}: the operator is gone since version {schema.since_version}, and the model has version {version}")
        if schema is not None and not schema.min_input <= len(proto.input) <= schema.max_input:
            raise OnnxError(f"{place} has {len(proto.input)} inputs, and takes {schema.min_input} to {schema.max_input}")
        return Node(
            number=number,
            op_type=proto.op_type,
            domain=domain,
            version=version,
            name=proto.name,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=attributes,
            given=frozenset(attribute.name for attribute in written),
            operator=operator,
            function=function,
            proto=_bound_proto(proto, written),
        )

    def function(self, key: tuple[str, str, str], given: Mapping[str, onnx.AttributeProto], depth: int) -> Graph:
        """Prepares a function of the model for a call with the attributes `given`."""
        if key in self.calls:
            raise UnsafeModelError(f"function {key[0]}.{key[1]} calls itself")
        proto = self.functions[key]
        calls, self.calls = self.calls, (*self.calls, key)
        defaults = {attribute.name: attribute for attribute in proto.attribute_proto}
        opsets = versions_of(proto.opset_import)
        body = self.body(
            key[1], proto.node, tuple(proto.input), tuple(proto.output), opsets, {}, given={**defaults, **given}, depth=depth + 1
        )
        self.calls = calls
        return body

    def value(
        self,
        attribute: onnx.AttributeProto,
        opsets: Mapping[str, int],
        given: Mapping[str, onnx.AttributeProto] | None,
        depth: int,
        place: str,
    ) -> Any:
        """The value of an attribute, as handlers get it."""
        kind = attribute.type
        if kind == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            initializers = {tensor.name: array_of(tensor) for tensor in graph.initializer}
            inputs = tuple(value.name for value in graph.input)
            outputs = tuple(value.name for value in graph.output)
            return self.body(graph.name, graph.node, inputs, outputs, opsets, initializers, given=given, depth=depth + 1)
        return plain_value(attribute, place)

    def require_all(self) -> None:
        """Raises: UnsupportedOpError that names all operators that are missing."""
        if not self.missing:
            return
        lines = []
        for (domain, name, version), nodes in sorted(self.missing.items()):
            shown = ", ".join(f"'{node}'" for node in nodes[:_SHOWN_NODES_OF_MISSING])
            more = f" and {len(nodes) - _SHOWN_NODES_OF_MISSING} more" if len(nodes) > _SHOWN_NODES_OF_MISSING else ""
            lines.append(f"  {domain or 'ai.onnx'}.{name} of version {version}: node{'s'[: len(nodes) > 1]} {shown}{more}")
        ways = "Register each with tilestep.onnx.register_op, or export the model without it. `tilestep onnx --ops` lists what there is."
        more = [f"  and {len(lines) - _SHOWN_MISSING_OPERATORS:,} more"] if len(lines) > _SHOWN_MISSING_OPERATORS else []
        shown = [*lines[:_SHOWN_MISSING_OPERATORS], *more]
        raise UnsupportedOpError("no implementation of these operators:", *shown, ways, operators=tuple(sorted(self.missing)))


def versions_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Versions by domain, of a model's or a function's `opset_import`."""
    return {plain_domain(entry.domain): entry.version for entry in imports}


def array_of(tensor: onnx.TensorProto) -> Array:
    """The array of a tensor that stands in the model itself. Raises: OnnxError if it is damaged, or stands elsewhere."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise OnnxError(f"tensor '{tensor.name}' stands in another file, which only initialisers of the main graph may do")
    if any(size < 0 for size in tensor.dims):  # NumPy would take -1 for whatever is left
        raise OnnxError(f"tensor '{tensor.name}' is damaged: its dimensions are {list(tensor.dims)}")
    try:
        return numpy_helper.to_array(tensor)
    except Exception as error:  # whatever a stranger's bytes bring
        raise OnnxError(f"tensor '{tensor.name}' is damaged: {error}") from error


def plain_value(attribute: onnx.AttributeProto, place: str) -> Any:
    """The value of an attribute that is no graph: numbers, text, tuples of them, arrays; types stay protobufs."""
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.TENSOR:
            return array_of(attribute.t)
        case kinds.TENSORS:
            return tuple(array_of(tensor) for tensor in attribute.tensors)
        case kinds.STRING:
            return attribute.s.decode("utf-8", "replace")
        case kinds.STRINGS:
            return tuple(text.decode("utf-8", "replace") for text in attribute.strings)
        case kinds.GRAPHS | kinds.SPARSE_TENSORS | kinds.UNDEFINED:
            raise OnnxError(f"{place}: attribute '{attribute.name}' has a type that no operator takes")
        case _:
            value = helper.get_attribute_value(attribute)
            return tuple(value) if attribute.type in (kinds.INTS, kinds.FLOATS, kinds.TYPE_PROTOS) else value


@functools.cache
def schema_of(domain: str, name: str, version: int) -> defs.OpSchema | None:
    """The schema of an operator; None if ONNX has none. A version that is newer than the installed onnx gives the newest one."""
    try:
        return defs.get_schema(name, min(version, defs.onnx_opset_version()) if not domain else version, domain)
    except (defs.SchemaError, TypeError):  # TypeError for a version beyond 32 bits
        return None


def has_body(schema: Any) -> bool:
    """Whether ONNX defines the operator by other operators."""
    return schema.has_function or schema.has_context_dependent_function


@functools.cache
def _defaults(schema: defs.OpSchema) -> Mapping[str, Any]:
    return {
        name: plain_value(attribute.default_value, name) for name, attribute in schema.attributes.items() if attribute.default_value.name
    }


def _require_type(place: str, attribute: onnx.AttributeProto, schema: defs.OpSchema | None) -> None:
    """Raises: OnnxError for an attribute whose type is not that of its schema."""
    known: Any = None if schema is None else schema.attributes.get(attribute.name)  # its type is an enum, of which the stubs know nothing
    if known is not None and attribute.type != known.type.value:
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        raise OnnxError(
            f"{place}: attribute '{attribute.name}' is {_attribute_text(attribute)} of type {kind}, and must be of type {known.type.name}"
        )


def _require_names(place: str, written: Sequence[onnx.AttributeProto], schema: defs.OpSchema | None, operator: Operator | None) -> None:
    """Raises: OnnxError for an attribute that neither the operator's schema has nor its implementation takes."""
    unknown = [each for each in written if schema is None or each.name not in schema.attributes]
    taken = inspect.signature(operator.handler).parameters if operator is not None and unknown else {}
    if schema is None and (operator is None or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())):
        return
    for attribute in unknown:
        if attribute.name not in taken:
            names = [name for name, each in taken.items() if each.kind is inspect.Parameter.KEYWORD_ONLY]
            raise OnnxError(
                f"{place} has an attribute '{attribute.name}', which is {_attribute_text(attribute)}, and the operator takes "
                f"{', '.join(names if schema is None else sorted(schema.attributes)) or 'no attributes'}"
            )


def _attribute_text(attribute: onnx.AttributeProto) -> str:
    """The value of an attribute for an error; the kind of one that is no number and no text."""
    kinds = onnx.AttributeProto
    if attribute.type in (kinds.INT, kinds.INTS, kinds.FLOAT, kinds.FLOATS, kinds.STRING, kinds.STRINGS):
        return shown(plain_value(attribute, ""))
    return f"a {kinds.AttributeType.Name(attribute.type).lower()}"


def _bound(attribute: onnx.AttributeProto, given: Mapping[str, onnx.AttributeProto] | None) -> onnx.AttributeProto | None:
    """An attribute of a function's node, with the caller's value where it refers to one; None if the caller gives none."""
    if not attribute.ref_attr_name:
        return attribute
    source = None if given is None else given.get(attribute.ref_attr_name)
    if source is None:
        return None
    bound = onnx.AttributeProto()
    bound.CopyFrom(source)
    bound.name = attribute.name
    return bound


def _bound_proto(proto: onnx.NodeProto, written: Sequence[onnx.AttributeProto]) -> onnx.NodeProto:
    """A function's node with the attributes of a call."""
    if not any(attribute.ref_attr_name for attribute in proto.attribute):
        return proto
    bound = onnx.NodeProto()
    bound.CopyFrom(proto)
    del bound.attribute[:]
    bound.attribute.extend(written)
    return bound


def is_constant(node: Node) -> bool:
    """Whether a node gives an array that stands in the file."""
    return node.op_type == "Constant" and not node.domain and isinstance(node.attributes.get("value"), np.ndarray)


def reads(node: Node) -> Iterator[str]:
    """Names that a node reads, those of its subgraphs included."""
    yield from filter(None, node.inputs)
    for graph in node.subgraphs:
        yield from graph.outer


def with_ends(nodes: Sequence[Node], kept: Collection[str]) -> tuple[Node, ...]:
    """The nodes with the values that nobody reads after them. Args: kept: values that are read after all nodes."""
    ended = set(kept)
    last: list[Node] = []
    for node in reversed(nodes):
        names = dict.fromkeys([*reads(node), *node.outputs])
        over = tuple(read for read in names if read and read not in ended)
        ended.update(over)
        last.append(replace(node, ended=over))
    return tuple(reversed(last))


def _between(gradient: Node, before: Sequence[Node]) -> Graph:
    """The graph that a Gradient differentiates: the nodes that lead from its `xs` and `zs` to its `y`. It reads all else around it."""
    inputs = (*gradient.attributes.get("xs", ()), *gradient.attributes.get("zs", ()))
    wanted = {gradient.attributes.get("y", "")}
    on_path: list[Node] = []
    reached = set(inputs)
    for node in before:
        if not reached.isdisjoint(reads(node)):
            reached.update(node.outputs)
            on_path.append(node)
    nodes: list[Node] = []
    for node in reversed(on_path):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(reads(node))
            nodes.append(replace(node, ended=()))
    made = {*inputs, *(name for node in nodes for name in node.outputs)}
    outer = frozenset(name for name in wanted if name not in made)
    outputs = (gradient.attributes.get("y", ""),)
    return Graph(name=gradient.name, inputs=inputs, outputs=outputs, nodes=tuple(reversed(nodes)), initializers={}, outer=outer)
