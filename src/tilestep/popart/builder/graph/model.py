"""A graph under construction: the proto itself, with its names, nodes, types and attributes at hand."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder.graph.attribute_names import NAME_DELIMITER
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of_numpy, name_lcase, numpy_dtype, typed_tensor

AttributeValue = bool | int | float | str | Sequence[int] | Sequence[float] | Sequence[str] | Array | onnx.GraphProto


def tensor_of(array: Array, name: str) -> onnx.TensorProto:
    """An initialiser or a tensor of an attribute.

    Raises: popart_exception for elements that a model can't hold as data: doubles, and what ONNX has no type for.
    """
    kind = data_type_of_numpy(array.dtype)
    if array.dtype.names is not None or name_lcase(kind) == "float64":
        raise popart_exception(f"No numpy type {array.dtype} registered in map to DataType: convert '{name}' to float32")
    if array.dtype != numpy_dtype(kind):
        array = array.astype(numpy_dtype(kind))  # bytes may have the other order
    return typed_tensor(array, name)


def written(name: str, value: AttributeValue) -> onnx.AttributeProto:
    """The attribute `name`. A list of no items is one of integers.

    Raises: popart_exception for a value that no attribute can hold.
    """
    given: Any = value
    if isinstance(value, np.ndarray):
        given = tensor_of(value, name)
    elif isinstance(value, int):
        given = _wrapped(int(value))
    elif not isinstance(value, float | str | onnx.GraphProto):
        given = [_wrapped(int(item)) if isinstance(item, int) else item for item in value]
    try:
        return helper.make_attribute(name, given, attr_type=onnx.AttributeProto.INTS if given == [] else None)
    except (TypeError, ValueError):
        raise popart_exception(f"Unsupported attribute value type of '{name}': {given!r}") from None


def _wrapped(number: int) -> int:
    """An unsigned 64-bit number as the signed one with its bits, which is what attributes hold."""
    return number - (1 << 64) if number >= 1 << 63 else number


def read(attribute: onnx.AttributeProto, kind: int, wanted: str) -> Any:
    """The value of an attribute that should be of a kind.

    Args: kind: of AttributeProto's types; wanted: in words, with its article, as "an integer".
    Raises: popart_exception if it is of another kind.
    """
    if attribute.type != kind:
        raise popart_exception(f"Attribute {attribute.name} is not {wanted}.")
    value = onnx.helper.get_attribute_value(attribute)
    if kind == onnx.AttributeProto.STRING:
        return value.decode()
    if kind == onnx.AttributeProto.STRINGS:
        return [item.decode() for item in value]
    return value if kind in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT) else list(value)


_graph_numbers: Final = itertools.count()  # process-wide, as graphs' names must differ
_DEFAULT_IR_VERSION: Final = 4
_LAST_OPSET_OF_IR_3: Final = 8


class GraphModel:
    """A graph under construction, of a whole model or of a subgraph.

    Attributes:
        proto: the model so far.
        scope: name scopes that are open, outermost first.
        attributes: those that each new node gets.
        opsets: versions of the domains that are in use; ONNX's own is "ai.onnx".
        initializers: by id.
        constants: what Constant nodes give, by id: shapes are inferred from them.
    """

    def __init__(self, parent: GraphModel | None = None, proto: onnx.ModelProto | None = None) -> None:
        self.parent = parent
        self.proto = proto or onnx.ModelProto(ir_version=_DEFAULT_IR_VERSION, graph=onnx.GraphProto(name=_unique_name("BuilderGraph")))
        self.scope: list[str] = []
        self.attributes: dict[str, AttributeValue] = {}
        self.opsets: dict[str, int] = {imported.domain or "ai.onnx": imported.version for imported in self.proto.opset_import}
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.constants: dict[str, onnx.TensorProto] = {}
        self._children: list[GraphModel] = []
        self._ids: set[str] = set()  # taken
        self._numbers: dict[str, int] = {}  # name -> the first number that may be free
        self._infos: dict[str, onnx.ValueInfoProto] = {}
        self._nodes: dict[frozenset[str], onnx.NodeProto] = {}
        if parent is not None:
            parent._children.append(self)
        self._read()

    def _read(self) -> None:
        graph = self.proto.graph
        for info in (*graph.value_info, *graph.output, *graph.input):
            self._infos[info.name] = info
        for tensor in graph.initializer:  # need not be inputs since version 4 of the file's form
            self.initializers[tensor.name] = tensor
            self._infos.setdefault(tensor.name, helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        for node in graph.node:
            self.note_node(node)
        self._ids.update(self._infos, self.initializers)

    def set_name(self, name: str) -> None:
        """Names the graph; the empty name is replaced by one that no other graph has."""
        self.proto.graph.name = name or _unique_name(name)

    def scoped(self, name: str) -> str:
        """The name behind the open name scopes."""
        return NAME_DELIMITER.join([*self.scope, name])

    def new_id(self, name: str, output: int | None = None) -> str:
        """An id that no tensor of this graph, of graphs around it or inside it has: `scope/name:output`, with `/1`, `/2`... if needed."""
        base = self.scoped(name) + ("" if output is None else f":{output}")
        for number in itertools.count(self._numbers.get(base, 0)):  # ids are never given back, so that smaller numbers stay taken
            proposed = f"{base}{NAME_DELIMITER}{number}" if number else base
            if not self._is_taken(proposed):
                self._numbers[base] = number + 1
                self._ids.add(proposed)
                return proposed
        raise AssertionError("numbers do not end")

    def _is_taken(self, id: str) -> bool:
        return any(id in graph._ids for graph in (self, *self.around(), *self._inside()))

    def around(self) -> Iterator[GraphModel]:
        """Graphs that this one is in, innermost first."""
        graph = self.parent
        while graph is not None:
            yield graph
            graph = graph.parent

    def _inside(self) -> Iterator[GraphModel]:
        for child in self._children:
            yield child
            yield from child._inside()

    def is_around(self, id: str) -> bool:
        """Whether a graph around this one has made `id`."""
        return any(id in graph._ids for graph in self.around())

    # --- tensors ---

    def add_input(self, id: str, type: onnx.TypeProto | None = None) -> None:
        """Adds an input of the graph. Args: type: None if it is not known."""
        info = self.proto.graph.input.add(name=id)
        if type is not None:
            info.type.CopyFrom(type)
        self._infos[id] = info

    def add_initializer(self, tensor: onnx.TensorProto) -> None:
        """Adds the values of an input."""
        added = self.proto.graph.initializer.add()
        added.CopyFrom(tensor)
        self.initializers[tensor.name] = added

    def add_output(self, id: str) -> None:
        """Declares a tensor an output of the graph."""
        output = self.proto.graph.output.add(name=id)
        info = self.info(id)
        if info is not None and info.HasField("type"):
            output.type.CopyFrom(info.type)
        self._infos.setdefault(id, output)

    def add_type(self, id: str, type: onnx.TypeProto | None) -> None:
        """Notes the type of a node's output. Args: type: None if it is not known."""
        info = self.proto.graph.value_info.add(name=id)
        if type is None:
            info.type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
        else:
            info.type.CopyFrom(type)
        self._infos[id] = info

    def own_info(self, id: str) -> onnx.ValueInfoProto | None:
        """What this graph says about a tensor."""
        return self._infos.get(id)

    def info(self, id: str) -> onnx.ValueInfoProto | None:
        """What this graph or one around it says about a tensor. An input that has no type here has the type that it has outside."""
        found = self._infos.get(id)
        if (found is None or not found.HasField("type")) and self.parent is not None:
            return self.parent.info(id) or found
        return found

    def type_of(self, id: str) -> onnx.TypeProto | None:
        """The type of a tensor of this graph or of one around it; None if it is not known."""
        info = self.info(id)
        if info is None or info.type.tensor_type.elem_type == onnx.TensorProto.UNDEFINED:
            return None
        return info.type

    def shape_of(self, id: str) -> list[int] | None:
        """The shape of a tensor of this graph or of one around it; None if one of its sizes is not known."""
        type = self.type_of(id)
        if type is None or not type.tensor_type.HasField("shape"):
            return None
        sizes = type.tensor_type.shape.dim
        return [size.dim_value for size in sizes] if all(size.HasField("dim_value") for size in sizes) else None

    def constant(self, id: str) -> onnx.TensorProto | None:
        """The values of a tensor that is a constant or an initialiser, here or in a graph around."""
        for graph in (self, *self.around()):
            found = graph.constants.get(id) or graph.initializers.get(id)
            if found is not None:
                return found
        return None

    def types(self) -> dict[str, onnx.TypeProto]:
        """The types of all tensors that nodes of this graph may read."""
        types: dict[str, onnx.TypeProto] = {} if self.parent is None else self.parent.types()
        types.update((id, type) for id in self._infos if (type := self.type_of(id)) is not None)
        return types

    def readable(self) -> Collection[str]:
        """Ids that nodes of this graph may read."""
        ids = set[str]().union(*(graph._infos for graph in (self, *self.around())))
        return ids.union(*(outputs for graph in (self, *self.around()) for outputs in graph._nodes))

    def may_read(self, id: str) -> bool:
        """Whether nodes of this graph may read `id`."""
        return any(id in graph._infos for graph in (self, *self.around()))

    # --- nodes ---

    def note_node(self, node: onnx.NodeProto) -> None:
        """Takes a node of the graph into the tables."""
        self._nodes[frozenset(node.output)] = node
        self._ids.update(node.output)
        for id in node.output:
            self._infos.setdefault(id, onnx.ValueInfoProto(name=id))
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            for attribute in node.attribute:
                if attribute.name == "value":
                    self.constants[node.output[0]] = attribute.t

    def node_of(self, outputs: Collection[str]) -> onnx.NodeProto:
        """The node that has exactly these outputs. Raises: popart_exception if there is none."""
        node = self._nodes.get(frozenset(outputs))
        if node is None:
            names = " ,".join(sorted(outputs))
            raise popart_exception(f"Could not find a node with outputs {names}. Must specify all outputs of a node")
        return node

    def maker_of(self, id: str) -> onnx.NodeProto | None:
        """The node that has this output; None if there is none in this graph."""
        return next((node for outputs, node in self._nodes.items() if id in outputs), None)

    def set_attribute(self, node: onnx.NodeProto, name: str, value: AttributeValue) -> None:
        """Adds an attribute. Raises: popart_exception if the node has it."""
        if any(attribute.name == name for attribute in node.attribute):
            raise popart_exception(f"Node already has attribute {name}.")
        node.attribute.append(written(name, value))

    def use_opset(self, domain: str, version: int) -> None:
        """Notes the version of a domain; ONNX's own decides the version of the file's form.

        Raises: popart_exception if the graph uses another version of it.
        """
        if domain in self.opsets:
            if self.opsets[domain] != version:
                raise popart_exception(
                    f"Invalid opset {version} used to add an operation. Opset for domain {domain} already defined as {self.opsets[domain]}"
                )
            return
        self.opsets[domain] = version
        self.proto.opset_import.add(domain="" if domain == "ai.onnx" else domain, version=version)
        if domain == "ai.onnx":
            self.proto.ir_version = 3 if version <= _LAST_OPSET_OF_IR_3 else _DEFAULT_IR_VERSION

    def note_metadata(self, key: str, value: Any) -> None:
        """Adds an entry to the model's metadata."""
        self.proto.metadata_props.add(key=key, value=str(value))


def _unique_name(name: str) -> str:
    return f"{name}_{next(_graph_numbers)}"
