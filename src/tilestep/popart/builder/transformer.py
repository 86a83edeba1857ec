"""GraphTransformer: changes of a whole model, as of its types."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from typing import Any, Final, TypeVar, final

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import numpy_helper

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder import external
from tilestep.popart.builder.graph.graph_walk import graphs_of, tensors_of
from tilestep.popart.builder.loading import check_model, checked_model
from tilestep.popart.builder.opsets.signatures import BOOL, IDS, STR, SignatureParameter, overloaded
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of_onnx, is_fixed_point, numpy_dtype, typed_tensor

_IDS: Final = SignatureParameter("ids", IDS)
_BATCH_NORMALIZATION_OUTPUTS: Final = 5  # y, mean, variance, saved mean, saved variance
_added_numbers: Final = itertools.count()  # process-wide
_Type: Final = onnx.TensorProto


def _conversion(name: str, old: int, new: int, what: str) -> Callable[[GraphTransformer], None]:
    """A method of that name. It changes initialisers, constants, and the types of inputs and outputs. Args: what: changes into what."""

    def convert(self: GraphTransformer) -> None:
        self._convert(old, new)

    convert.__name__, convert.__qualname__, convert.__doc__ = name, f"GraphTransformer.{name}", f"Makes all {what}."
    return convert


@final
class GraphTransformer:
    """Changes a model.

    Args: modelProtoOrFilename: the model in bytes, or the name of its file.
    Raises: popart_exception if it is no model, or breaks ONNX's rules.
    """

    def __init__(self, modelProtoOrFilename: str | bytes) -> None:
        self._model = checked_model(modelProtoOrFilename)

    def getModelProto(self) -> bytes:
        """The model so far."""
        return self._model.SerializeToString()

    convertFloatsToHalfs = _conversion("convertFloatsToHalfs", _Type.FLOAT, _Type.FLOAT16, "floats 16-bit floats")
    convertDoublesToHalfs = _conversion("convertDoublesToHalfs", _Type.DOUBLE, _Type.FLOAT16, "doubles 16-bit floats")
    convertDoublesToFloats = _conversion("convertDoublesToFloats", _Type.DOUBLE, _Type.FLOAT, "doubles 32-bit floats")
    convertBFloats16ToFloat32 = _conversion("convertBFloats16ToFloat32", _Type.BFLOAT16, _Type.FLOAT, "bfloat16 32-bit floats")
    convertUINT8ToINT32 = _conversion("convertUINT8ToINT32", _Type.UINT8, _Type.INT32, "8-bit unsigned integers signed ones of 32 bits")
    convertUINT16ToINT32 = _conversion("convertUINT16ToINT32", _Type.UINT16, _Type.INT32, "16-bit unsigned integers signed ones of 32 bits")
    convertINT8ToINT32 = _conversion("convertINT8ToINT32", _Type.INT8, _Type.INT32, "8-bit integers 32-bit ones")
    convertINT16ToINT32 = _conversion("convertINT16ToINT32", _Type.INT16, _Type.INT32, "16-bit integers 32-bit ones")

    @overloaded((SignatureParameter("clip", BOOL, False),))
    def convertINT64ToINT32(self, clip: bool) -> None:
        """Makes all 64-bit integers 32-bit ones.

        Args: clip: whether numbers beyond 32 bits become the nearest one.
        Raises: popart_exception for a number beyond 32 bits, if they are not clipped.
        """
        self._convert(_Type.INT64, _Type.INT32, clip=clip)

    @overloaded((_IDS,))
    def convertInitializersToConstants(self, ids: list[str]) -> None:
        """Makes variables constants. Raises: popart_exception if one is no initialiser."""
        graph = self._model.graph
        initializers = {tensor.name: tensor for tensor in graph.initializer}
        for id in ids:
            if id not in initializers:
                raise popart_exception(f"TensorId {id} not in the model initalizers")
        chosen = set(ids)
        constants = [onnx.helper.make_node("Constant", [], [id], name=id, value=initializers[id]) for id in ids]
        _replace(graph.node, [*constants, *graph.node])
        _replace(graph.initializer, [tensor for tensor in graph.initializer if tensor.name not in chosen])
        _replace(graph.input, [info for info in graph.input if info.name not in chosen])
        check_model(self._model)

    def convertAllFixedPointInitializersToConstants(self) -> None:
        """Makes variables of integers and booleans constants."""
        fixed = [tensor.name for tensor in self._model.graph.initializer if is_fixed_point(data_type_of_onnx(tensor.data_type))]
        self.convertInitializersToConstants(fixed)

    def removeUnusedInputs(self) -> None:
        """Removes inputs and initialisers that nothing reads."""
        graph = self._model.graph
        read = set(_read(graph))
        _replace(graph.input, [info for info in graph.input if info.name in read])
        _replace(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read])

    def prepareNodesForTraining(self) -> None:
        """Gives batch norms the outputs that they have in training."""
        for node in self._model.graph.node:
            if node.op_type == "BatchNormalization":
                for position in range(len(node.output), _BATCH_NORMALIZATION_OUTPUTS):
                    node.output.append(f"{node.op_type}_{node.name}_oi{position}_{next(_added_numbers)}")

    @overloaded((_IDS, SignatureParameter("filename", STR)))
    def saveInitializersExternally(self, ids: list[str], filename: str) -> None:
        """Moves initialisers into a file, of which the model keeps the name. Raises: popart_exception as the builder's does."""
        external.save(self._model, ids, filename)

    def _convert(self, old: int, new: int, *, clip: bool = False) -> None:
        for tensor in tensors_of(self._model.graph):
            if tensor.data_type == old:
                _convert_tensor(tensor, new, clip=clip)
        for graph in graphs_of(self._model.graph):
            for info in (*graph.input, *graph.output, *graph.value_info):
                if info.type.tensor_type.elem_type == old:
                    info.type.tensor_type.elem_type = new
            for node in graph.node:
                _convert_targets(node, old, new)


def _convert_targets(node: onnx.NodeProto, old: int, new: int) -> None:
    """A Cast to the type that is no more becomes one to the new type."""
    if node.op_type == "Cast" and node.domain in ("", "ai.onnx"):
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == old:
                attribute.i = new


def _convert_tensor(tensor: onnx.TensorProto, new: int, *, clip: bool) -> None:
    if external.is_external(tensor):
        raise popart_exception(f"Cannot convert tensor '{tensor.name}', as it is stored externally")
    array = numpy_helper.to_array(tensor)
    target = numpy_dtype(data_type_of_onnx(new))
    if array.dtype == np.int64:
        array = _within(array, target, tensor.name, clip=clip)
    with np.errstate(over="ignore"):  # beyond 16-bit floats it is an infinity
        tensor.CopyFrom(typed_tensor(array.astype(target), tensor.name))


def _within(array: Array, target: np.dtype[Any], name: str, *, clip: bool) -> Array:
    bounds = np.iinfo(target)
    if clip:
        return np.clip(array, bounds.min, bounds.max)
    if array.size and (array.min() < bounds.min or array.max() > bounds.max):
        raise popart_exception(
            f"In convertINT64TensorToINT32, cannot cast int64 to int32: number is too large in tensor '{name}'. If you are sure you want "
            "still want to convert your tensor data, you can set 'clip' to 'true'."
        )
    return array


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that nodes read, in graphs inside as well, and that the graph gives."""
    for inner in graphs_of(graph):
        yield from (output.name for output in inner.output)
        for node in inner.node:
            yield from node.input


_Item = TypeVar("_Item", bound=Message)


def _replace(field: MutableSequence[_Item], items: Sequence[_Item]) -> None:
    """Sets a repeated field of a proto."""
    kept = [copy.deepcopy(item) for item in items]
    del field[:]
    field.extend(kept)
