"""A model in float16 instead of float32, to see what it would take."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilestep.onnx.interpreter.demand import demanded
from tilestep.onnx.interpreter.values import Array
from tilestep.onnx.reading.load import Loaded, prepared

_FLOAT, _HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
_OF_TYPES: Final = frozenset({"to", "dtype", "output_dtype", "output_datatype"})  # attributes that are a type's number
_LARGEST: Final = np.finfo(np.float16).max


def halved(loaded: Loaded) -> Loaded:
    """The model with float16 wherever it has float32, but for weights that shapes depend on, such as scales of Resize.

    Finite numbers beyond float16's become its largest.
    """
    needed = demanded(loaded.graph)
    proto = onnx.ModelProto()
    proto.CopyFrom(loaded.proto)
    _graph(proto.graph)
    for function in proto.functions:
        _nodes(function.node)
    initializers = {name: array if name in needed else _array(array) for name, array in loaded.initializers.items()}
    return prepared(proto, initializers, loaded.path)


def _graph(graph: onnx.GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        _type(value.type)
    for tensor in graph.initializer:  # a graph within the main one has its own
        _tensor(tensor)
    _nodes(graph.node)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        names = {attribute.name for attribute in node.attribute}
        if node.op_type == "ConstantOfShape" and "value" not in names:
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1, np.float16))))
        if node.op_type in ("RandomNormal", "RandomUniform") and "dtype" not in names:
            node.attribute.append(helper.make_attribute("dtype", _HALF))
        for attribute in node.attribute:
            _attribute(attribute, node.op_type)


def _attribute(attribute: onnx.AttributeProto, op_type: str) -> None:
    if attribute.ref_attr_name:
        return
    if attribute.type == onnx.AttributeProto.GRAPH:
        _graph(attribute.g)
    elif attribute.type == onnx.AttributeProto.TENSOR:
        _tensor(attribute.t)
    elif attribute.type == onnx.AttributeProto.INT and attribute.name in _OF_TYPES and attribute.i == _FLOAT:
        attribute.i = _HALF
    elif op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(_array(np.asarray(numbers, np.float32)))))


def _tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == _FLOAT and tensor.data_location != onnx.TensorProto.EXTERNAL:
        tensor.CopyFrom(numpy_helper.from_array(_array(numpy_helper.to_array(tensor)), tensor.name))


def _type(declared: onnx.TypeProto) -> None:
    match declared.WhichOneof("value"):
        case "tensor_type":
            if declared.tensor_type.elem_type == _FLOAT:
                declared.tensor_type.elem_type = _HALF
        case "sequence_type":
            _type(declared.sequence_type.elem_type)
        case "optional_type":
            _type(declared.optional_type.elem_type)
        case _:
            pass


def _array(array: Array) -> Array:
    if array.dtype != np.float32:
        return array
    return np.where(np.isfinite(array), np.clip(array, -_LARGEST, _LARGEST), array).astype(np.float16)
