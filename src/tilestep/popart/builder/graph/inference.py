"""Types of a new node's outputs: by ONNX's own inference, by rules for ai.graphcore and for what ONNX has no rule for, and by handlers.

An operator of another domain has what its handler gives, which `jax.eval_shape` finds without computing it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

import jax
import numpy as np
import onnx
from onnx import checker, defs, helper, shape_inference

from tilestep.onnx import OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.interpreter.registry import find
from tilestep.onnx.interpreter.values import jax_dtype
from tilestep.onnx.reading.load import load
from tilestep.onnx.reading.specs import specs_of
from tilestep.popart.builder.graph.model import GraphModel
from tilestep.popart.exceptions import popart_exception, popart_internal_exception
from tilestep.train.untyped import jax as _jax

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The type of a tensor. Attributes: kind: TensorProto's number."""

    kind: int
    shape: Shape


Inputs = Sequence[Typed | None]  # None is an absent input
Results = Sequence[Typed | None]
Rule = Callable[[Inputs, Mapping[str, Any], int], Results]  # inputs, attributes, number of outputs -> outputs


def _first(inputs: Inputs, position: int = 0) -> Typed:
    given = inputs[position] if position < len(inputs) else None
    if given is None:
        raise popart_internal_exception(f"input {position} of an operator of ai.graphcore is absent")
    return given


def _as_first(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    return [_first(inputs)]


def _broadcast(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    left, right = _first(inputs), _first(inputs, 1)
    pairs = list(zip_longest(reversed(left.shape), reversed(right.shape), fillvalue=1))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return [None]
    return [replace(left, shape=tuple(b if a == 1 else a for a, b in reversed(pairs)))]


def _group_normalization(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """A model has one in each layer, and to trace its handler takes 3 ms."""
    x = _first(inputs)
    statistics = replace(x, shape=(x.shape[0] * attributes["num_groups"],))
    return [x, statistics, statistics]


def _subsample(inputs: Inputs, attributes: Mapping[str, Any], outputs: int) -> Results:
    """Sizes are rounded down, as the original's builder says them, although its programs round up."""
    given, strides = _first(inputs), attributes["strides"]
    if len(strides) != len(given.shape):
        return [None]
    return [replace(given, shape=tuple(size // stride for size, stride in zip(given.shape, strides, strict=True)))]


RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        (
            *("BitwiseNot", "CopyVarUpdate", "Detach", "DynamicAdd", "DynamicUpdate", "DynamicZero", "Expm1", "Gelu", "GeluErf"),
            *(
                "IncrementMod",
                "Log1p",
                "NearbyInt",
                "Nop",
                "PrintTensor",
                "ReplicatedAllReduce",
                "Reverse",
                "Round",
                "Scale",
                "ShapedDropout",
            ),
            *("Swish", "TensorRemap"),
        ),
        _as_first,
    ),
    **dict.fromkeys(("Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXnor", "BitwiseXor", "Fmod", "Remainder", "ScaledAdd"), _broadcast),
    "GroupNormalization": _group_normalization,
    "Subsample": _subsample,
}


_LATEST_IR: Final = 10  # initialisers need not be inputs in it
_GRAPHCORE: Final = "ai.graphcore"
BY_REPLICAS: Final = frozenset({"ReplicatedAllGather", "ReplicatedReduceScatter"})  # their sizes follow from a session's replicas
Types = list[onnx.TypeProto | None]


def infer(model: GraphModel, node: onnx.NodeProto, opset: int) -> Types:
    """The type of each output; None where it can't be known.

    Args: opset: the version of the node's domain.
    Raises: popart_exception for arguments that make no output, such as a Split into unequal parts.
    """
    inputs = [model.type_of(id) if id else None for id in node.input]
    if node.domain == _GRAPHCORE and node.op_type == "Call":
        return _of_graph(model, _graph_of(node, "callee"), inputs)
    if node.domain == _GRAPHCORE and node.op_type == "PackedDataBlock":
        return _of_packed_data_block(model, node, inputs)
    if node.domain == _GRAPHCORE and node.op_type in BY_REPLICAS:
        return [None] * len(node.output)
    if node.domain == _GRAPHCORE and node.op_type in RULES:
        return _by_rule(node, inputs)
    if node.domain in ("", "ai.onnx"):
        if node.op_type == "BatchNormalization" and opset < 14:
            return _of_batch_normalization(inputs, len(node.output))
        if node.op_type == "Split" and opset < 13:
            return _of_split(node, inputs)
        return _by_schema(model, node, opset, inputs)
    return _by_handler(model, node, opset, inputs)


def typed(type: onnx.TypeProto | None) -> Typed | None:
    """A type in short; None if it is not known, or has no known shape."""
    if type is None or not type.tensor_type.HasField("shape"):
        return None
    sizes = type.tensor_type.shape.dim
    if not all(size.HasField("dim_value") for size in sizes):
        return None
    return Typed(kind=type.tensor_type.elem_type, shape=tuple(size.dim_value for size in sizes))


def type_proto(kind: int, shape: tuple[int, ...] | None) -> onnx.TypeProto:
    """A tensor's type. Args: kind: TensorProto's number; shape: None if it is not known."""
    return helper.make_tensor_type_proto(kind, shape)


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def _by_rule(node: onnx.NodeProto, inputs: Types) -> Types:
    rule = RULES[node.op_type]
    known = [typed(type) for type in inputs]
    present = [one for one, id in zip(known, node.input, strict=True) if id]
    if any(one is None for one in present):
        return [None] * len(node.output)
    results = rule(known, _attributes(node), len(node.output))
    return [None if result is None else type_proto(result.kind, result.shape) for result in results]


def _by_handler(model: GraphModel, node: onnx.NodeProto, opset: int, inputs: Types) -> Types:
    """What the handler makes, with the values of those inputs that it needs; unknown without a handler, or where that refuses them."""
    operator = find(node.domain, node.op_type, opset)
    unknown: Types = [None] * len(node.output)
    if operator is None or any(typed(type) is None for type, id in zip(inputs, node.input, strict=True) if id):
        return unknown

    def run(*arrays: Any) -> list[Any]:
        return run_graph(ready, arrays, GraphRun(key=jax.random.key(0)))

    given = {id: type for id, type in zip(node.input, inputs, strict=True) if id and type is not None}
    needed = [node.input[position] for position in operator.needs if position < len(node.input) and node.input[position]]
    values = {id: tensor for id in needed if (tensor := model.constant(id)) is not None}
    graph = onnx.GraphProto(name="one", node=[node])
    kept = [attribute for attribute in node.attribute if not attribute.name.startswith("__")]  # those say where and how it runs
    del graph.node[0].attribute[:]
    graph.node[0].attribute.extend(kept)
    for id, type in given.items():
        if id in values:
            graph.initializer.add().MergeFrom(values[id])
            graph.initializer[-1].name = id
        else:
            graph.input.add(name=id).type.CopyFrom(type)
    graph.output.extend(onnx.ValueInfoProto(name=id) for id in node.output if id)
    imports = [onnx.OperatorSetIdProto(domain=node.domain, version=opset)]
    arrays: list[Any] = [jax.ShapeDtypeStruct(spec.shape, jax_dtype(spec.dtype)) for spec in specs_of(graph.input)]
    try:
        loaded = load(onnx.ModelProto(ir_version=_LATEST_IR, graph=graph, opset_import=imports))
        ready = replace(loaded.graph, initializers=loaded.initializers)
        made = iter(_jax.eval_shape(run, *arrays))
    except OnnxError:
        return unknown
    return [_type_of(next(made)) if id else None for id in node.output]


def _type_of(value: Any) -> onnx.TypeProto | None:
    """The type of an array; None for what is none, such as a sequence."""
    if not hasattr(value, "dtype"):
        return None
    return type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), tuple(value.shape))


def _by_schema(model: GraphModel, node: onnx.NodeProto, opset: int, inputs: Types) -> Types:
    if not defs.has(node.op_type, opset, ""):
        return [None] * len(node.output)
    schema = defs.get_schema(node.op_type, opset, "")
    known = dict.fromkeys(filter(None, node.input), onnx.TypeProto())
    known.update((id, type) for id, type in zip(node.input, inputs, strict=True) if type is not None)
    if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
        known = {**model.types(), **known}
    data = {id: tensor for id in node.input if id and (tensor := model.constant(id)) is not None}
    imports = [
        onnx.OperatorSetIdProto(domain="" if domain == "ai.onnx" else domain, version=version) for domain, version in model.opsets.items()
    ]
    try:
        found = shape_inference.infer_node_outputs(schema, node, known, data, opset_imports=imports, ir_version=model.proto.ir_version)
    except checker.ValidationError:  # an input of a type that the schema lacks, as And of floats: shapes are inferred all the same
        found = _by_small_model(node, known, data, imports)
    except (shape_inference.InferenceError, ValueError, RuntimeError, KeyError):  # as for a model that is read: the type stays unknown
        found = {}
    types = [_useful(found.get(id)) for id in node.output]
    if node.op_type in ("If", "Loop") and any(typed(type) is None for type in types):
        others = _of_control_flow(model, node, inputs)
        types = [type if typed(type) is not None or other is None else other for type, other in zip(types, others, strict=True)]
    return types


def _by_small_model(
    node: onnx.NodeProto,
    known: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
    imports: Sequence[onnx.OperatorSetIdProto],
) -> dict[str, onnx.TypeProto]:
    """Types of a node's outputs, by inference on a model of this node alone, which does not check the inputs' types."""
    graph = onnx.GraphProto(name="one", node=[node], input=[onnx.ValueInfoProto(name=id, type=type) for id, type in known.items()])
    for id, tensor in data.items():
        graph.initializer.add(name=id).MergeFrom(tensor)
        graph.initializer[-1].name = id
    try:
        model = shape_inference.infer_shapes(onnx.ModelProto(ir_version=_LATEST_IR, graph=graph, opset_import=imports))
    except (shape_inference.InferenceError, RuntimeError):
        return {}
    return {info.name: info.type for info in model.graph.value_info}


def _useful(type: onnx.TypeProto | None) -> onnx.TypeProto | None:
    return type if type is not None and type.WhichOneof("value") is not None else None


def _of_batch_normalization(inputs: Types, outputs: int) -> Types:
    """x as the first input; mean and variance, running and saved, as the fourth and fifth."""
    x, mean, variance = ((*inputs, *(None,) * 5)[position] for position in (0, 3, 4))
    return [x, mean, variance, mean, variance][:outputs]


def _of_split(node: onnx.NodeProto, inputs: Types) -> Types:
    """ONNX's own rule for Split before version 13 infers nothing for the attribute `split`."""
    given = typed(inputs[0]) if inputs else None
    count = len(node.output)
    if not count:
        raise popart_exception("Split has an invalid number of outputs 0. Must be 1 or more")
    if given is None:
        return [None] * count
    attributes = _attributes(node)
    rank, axis = len(given.shape), int(attributes.get("axis", 0))
    if not -rank <= axis < rank:
        raise popart_exception(f"Invalid value of attribute 'axis'. Rank={rank} Value={axis}")
    axis %= rank
    size = given.shape[axis]
    parts = list(attributes.get("split", ()))
    if parts and len(parts) != count:
        raise popart_exception(f"Mismatch between number of splits ({len(parts)}) and outputs ({count})")
    if parts and sum(parts) != size:
        raise popart_exception(f"Mismatch between the sum of 'split' ({sum(parts)}) and the split dimension of the input ({size})")
    if not parts and size % count:
        raise popart_exception("The input is not evenly splittable")
    shapes = [(*given.shape[:axis], part, *given.shape[axis + 1 :]) for part in parts or [size // count] * count]
    return [type_proto(given.kind, shape) for shape in shapes]


def _graph_of(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(attribute.g for attribute in node.attribute if attribute.name == name)


def _of_graph(model: GraphModel, graph: onnx.GraphProto, inputs: Sequence[onnx.TypeProto | None]) -> Types:
    """Types of what a graph gives, with the given types for its inputs; values around it have those that they have in the model."""
    inside = GraphModel(proto=onnx.ModelProto(ir_version=model.proto.ir_version, opset_import=model.proto.opset_import))
    for position, info in enumerate(graph.input):
        given = inputs[position] if position < len(inputs) else None
        inside.add_input(info.name, info.type if given is None and info.HasField("type") else given)
    for tensor in graph.initializer:
        inside.add_initializer(tensor)
    own = {info.name for info in graph.input}
    outside = {id: type for id, type in model.types().items() if id not in own}
    for id, type in outside.items():
        inside.add_type(id, type)
    for inner in graph.node:
        inside.note_node(inner)
        domain = inner.domain or "ai.onnx"
        types = infer(inside, inner, model.opsets[domain]) if domain in model.opsets else [None] * len(inner.output)
        for id, type in zip(inner.output, types, strict=True):
            inside.add_type(id, type)
    return [inside.type_of(info.name) for info in graph.output]


def _of_packed_data_block(model: GraphModel, node: onnx.NodeProto, inputs: Types) -> Types:
    """Rows of the result, each of which has the shape of the callback's rows: without batch and length.

    A callback's input has [batch, longest sequence, *a row's shape] of every third input of the node: data, offsets, lengths.
    """
    attributes = _attributes(node)
    given: Types = []
    for rows, longest in zip(inputs[::3], attributes["maxSequenceLengths"], strict=False):
        known = typed(rows)
        shape = None if known is None else (attributes["callbackBatchSize"], longest, *known.shape[1:])
        given.append(None if known is None else type_proto(known.kind, shape))
    result = typed(_of_graph(model, _graph_of(node, "callback"), given)[0])
    return [None if result is None else type_proto(result.kind, (attributes["resultSize"], *result.shape[2:]))]


def _of_control_flow(model: GraphModel, node: onnx.NodeProto, inputs: Types) -> Types:
    """Types of what If and Loop give, where ONNX's own rule finds none: it can't look into operators of other domains."""
    if node.op_type == "If":
        then, other = (_of_graph(model, _graph_of(node, name), []) for name in ("then_branch", "else_branch"))
        return [one if one == two else None for one, two in zip(then, other, strict=True)]
    if node.op_type == "Loop":
        counter, condition = type_proto(onnx.TensorProto.INT64, ()), type_proto(onnx.TensorProto.BOOL, ())
        made = _of_graph(model, _graph_of(node, "body"), [counter, condition, *inputs[2:]])
        state = [  # an entry that changes its shape from turn to turn is left to ONNX's rule
            after if typed(after) == typed(before) else None for before, after in zip(inputs[2:], made[1:], strict=False)
        ]
        return [*state, *[None] * (len(node.output) - len(state))]
    return [None] * len(node.output)
