"""Reads a model from a file, bytes or a protobuf, and prepares its graph. What it reads may be a stranger's."""

import functools
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import jax.numpy as jnp
import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from onnx import helper, numpy_helper

from tilestep.files import read_file
from tilestep.onnx.errors import OnnxError, UnsafeModelError
from tilestep.onnx.interpreter.bodies import check_in_child
from tilestep.onnx.interpreter.graph import MOST_NESTED_LEVELS, Graph, Preparation, array_of, versions_of
from tilestep.onnx.interpreter.registry import plain_domain
from tilestep.onnx.interpreter.values import Array
from tilestep.onnx.reading.external import Folder
from tilestep.onnx.reading.sizes import MOST_FILE_BYTES, require_parseable

_SHOWN: Final = 60  # bytes of a text that is none
_WEIGHTS: Final = frozenset({"raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"})


def require_texts(model: onnx.ModelProto) -> None:
    """Raises: OnnxError that names a text which is no UTF-8."""
    waiting: list[Any] = [model]
    while waiting:
        message = waiting.pop()
        texts, messages, lists = _fields(message.DESCRIPTOR)
        for name in texts:
            value = getattr(message, name)
            if not isinstance(value, str) and (wrong := _wrong(value)) is not None:
                kind = message.DESCRIPTOR.name.removesuffix("Proto")
                raise OnnxError(f"a {kind} of the model has a '{name}' that is no UTF-8: {wrong[:_SHOWN]!r}. The file is damaged")
        waiting.extend(getattr(message, name) for name in messages if message.HasField(name))
        for name in lists:
            waiting.extend(getattr(message, name))


def _wrong(value: Any) -> bytes | None:
    """The bytes among texts."""
    return value if isinstance(value, bytes) else next((text for text in value if isinstance(text, bytes)), None)


@functools.cache
def _fields(descriptor: Any) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Names of a message's fields: texts, messages, lists of messages."""
    fields = [field for field in descriptor.fields if field.name not in _WEIGHTS]
    inner = [field for field in fields if field.message_type is not None]
    return (
        tuple(field.name for field in fields if field.type == field.TYPE_STRING),
        tuple(field.name for field in inner if not field.is_repeated),
        tuple(field.name for field in inner if field.is_repeated),
    )


MOST_NODES: Final = 200_000  # with those of functions, counted at each call
MOST_INITIALIZERS_BYTES: Final = 1 << 38  # several initialisers may be the same part of a file
MOST_DENSIFIED_BYTES: Final = 1 << 28
_MOST_CHECKED_INITIALISER_BYTES: Final = 1024
_LFS: Final = b"version https://git-lfs"
_FIRST_IMPORTS: Final = 3  # version of the file format since which a model names its versions of operators

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto
_Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]
_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded:
    """A model that has been read.

    Attributes:
        proto: the model without the initialisers of its main graph.
        graph: ready to run.
        initializers: of the main graph by name, in the file's order; views of files where they stand in files.
        opset: versions by domain; "" is ONNX's own.
        path: of the file; None for a model from memory.
    """

    proto: onnx.ModelProto
    graph: Graph
    initializers: Mapping[str, Array]
    opset: Mapping[str, int]
    path: Path | None


def load(source: Source, *, dialect: str = "", lifting: bool = False) -> Loaded:
    """Reads a model and prepares its graph.

    Args:
        source: a path, the bytes of a file, or a ModelProto, which stays as it is.
        dialect: whose implementations come before the importer's own.
        lifting: whether weights that stand in Constant nodes, as PaddlePaddle's exporter writes all of them, become initialisers.

    Raises:
        OSError: for a file that cannot be read.
        TypeError: for a source of another type.
        OnnxError: for a damaged model; UnsupportedOpError for operators without an implementation; UnsafeModelError for one beyond bounds.
    """
    path: Path | None = None
    if isinstance(source, onnx.ModelProto):
        model = source
    elif isinstance(source, bytes | bytearray | memoryview):
        model = _parsed(bytes(source), "the model")
    elif isinstance(source, str | os.PathLike):  # a caller's mistake
        path = Path(source)
        model = _parsed(_read(path), f"'{path.name}'")
    else:
        raise TypeError(f"source is a {type(source).__name__}: it must be a path, the bytes of a model, or a ModelProto")
    _require_model(model)
    folder = Folder(None if path is None else path.parent)
    initializers = dict(_initializers(model.graph, folder))
    proto = _copy(onnx.ModelProto(), model, ("graph",))
    _copy(proto.graph, model.graph, ("initializer", "sparse_initializer"))
    if lifting and not any(array.size > 1 and jnp.issubdtype(array.dtype, jnp.inexact) for array in initializers.values()):
        initializers.update(_lifted(proto.graph, initializers))
    return prepared(proto, initializers, path, dialect=dialect)


def prepared(proto: onnx.ModelProto, initializers: Mapping[str, Array], path: Path | None, *, dialect: str = "") -> Loaded:
    """A model that is ready to run. Args: proto: without the initialisers of its main graph. Raises: as `load` does."""
    opset = versions_of(proto.opset_import) or {"": 1}
    functions = {(plain_domain(function.domain), function.name, function.overload): function for function in proto.functions}
    if functions and _expanded(proto.graph.node, functions, {}, 0) > MOST_NODES:  # counted first, which takes no time
        raise UnsafeModelError("the model has more nodes than are allowed, with those of its functions counted at each call")
    preparation = Preparation(functions=functions, left=MOST_NODES, dialect=dialect)
    graph = preparation.graph(proto.graph, opset, initializers=initializers)
    preparation.require_all()
    require_sound(graph)
    return Loaded(proto=proto, graph=graph, initializers=initializers, opset=opset, path=path)


def _expanded(nodes: Iterable[onnx.NodeProto], functions: _Functions, known: dict[tuple[str, str, str], int], depth: int) -> int:
    """Nodes with those of functions, counted at each call. What is too deep is left out, because the preparation refuses it.

    Args: known: counts of functions.
    """
    total = 0
    for node in nodes:
        total += 1
        key = plain_domain(node.domain), node.op_type, node.overload
        if key in functions and depth <= MOST_NESTED_LEVELS:
            if key not in known:
                known[key] = 0  # one that calls itself is refused later
                known[key] = _expanded(functions[key].node, functions, known, depth + 1)
            total += known[key]
        if depth <= MOST_NESTED_LEVELS:
            total += sum(
                _expanded(attribute.g.node, functions, known, depth + 1) for attribute in node.attribute if attribute.HasField("g")
            )
    return total


def checked_by_onnx(loaded: Loaded) -> str:
    """What ONNX's own checker finds wrong with a model, in one line; "" if nothing. Weights are inputs to it, because it reads few."""
    proto = onnx.ModelProto()
    proto.CopyFrom(loaded.proto)
    inputs = {value.name for value in proto.graph.input}
    for name, array in loaded.initializers.items():
        if array.nbytes <= _MOST_CHECKED_INITIALISER_BYTES:
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
        elif name not in inputs:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            proto.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    try:
        found = check_in_child(proto.SerializeToString())
    except OnnxError as error:
        found = str(error)
    return "; ".join(line.strip() for line in found.splitlines() if line.strip())


def require_sound(graph: Graph) -> None:
    """Raises: OnnxError for a graph that reads what nothing makes before, or makes a value twice."""
    _require_closed(graph, "graph")
    _require_once(graph)


def _require_closed(graph: Graph, kind: str) -> None:
    if graph.outer:
        made = {name for node in graph.nodes for name in node.outputs}
        name = min(graph.outer)
        late = ": it is made after a node that reads it" if name in made else ""
        raise OnnxError(f"{kind} '{graph.name}' reads '{name}', which no input, initialiser or node before it makes{late}")


def _require_once(graph: Graph, around: tuple[Collection[str], ...] = ()) -> None:
    """Args: around: names of the graphs that the graph is in."""
    for name in graph.initializers:
        if any(name in names for names in around):
            raise OnnxError(f"graph '{graph.name}' has an initialiser '{name}', and a graph around it a value of that name")
    made = {*graph.inputs, *graph.initializers}
    names = {*made, *(name for node in graph.nodes for name in node.outputs)}
    for node in graph.nodes:
        for name in node.outputs:
            if name and name in made:
                raise OnnxError(f"{node.place} makes '{name}' again, which is an input, an initialiser or another node's output")
            made.add(name)
        if node.function is not None:
            _require_closed(node.function, "function")
            _require_once(node.function)
        for inner in node.subgraphs:
            _require_once(inner, (*around, names))


def _read(path: Path) -> bytes:
    if path.stat().st_size > MOST_FILE_BYTES:
        raise UnsafeModelError(f"'{path.name}' is larger than {MOST_FILE_BYTES:,} B, the bound for a model's own file")
    data = read_file(path, most_bytes=MOST_FILE_BYTES)
    if data.startswith(_LFS):
        raise OnnxError(f"'{path.name}' is a pointer of Git LFS, not the model: run `git lfs pull`")
    return data


def _parsed(data: bytes, what: str) -> onnx.ModelProto:
    require_parseable(data)
    try:
        return onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise OnnxError(f"{what} is no ONNX model, or is damaged: {error}") from error


def _require_model(model: onnx.ModelProto) -> None:
    require_texts(model)
    if not model.HasField("graph") or not model.ir_version:
        raise OnnxError("the model has no graph or no version, so it is no ONNX model, or is damaged")
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise OnnxError(
            f"the model has version {model.ir_version} of the file format, and onnx {onnx.__version__} reads 1 to {onnx.IR_VERSION}: "
            "install a newer onnx"
        )
    if not model.opset_import and model.ir_version >= _FIRST_IMPORTS:
        raise OnnxError("the model's opset_import is empty, so nobody can know what its operators mean")
    if not all(1 <= entry.version < 1 << 31 for entry in model.opset_import):
        raise OnnxError("the model's opset_import has a version below 1, or one that no operators have")
    keys = [(plain_domain(function.domain), function.name, function.overload) for function in model.functions]
    if len(set(keys)) < len(keys):
        raise OnnxError("the model has two functions of one name")


def _initializers(graph: onnx.GraphProto, folder: Folder) -> Iterator[tuple[str, Array]]:
    """(name, array) of the graph's initialisers. Raises: OnnxError, UnsafeModelError."""
    seen: set[str] = set()
    total = 0
    for tensor in graph.initializer:
        array = folder.array(tensor) if tensor.data_location == onnx.TensorProto.EXTERNAL else array_of(tensor)
        yield _checked(tensor.name, array, seen)
        total += array.nbytes
        if total > MOST_INITIALIZERS_BYTES:
            raise UnsafeModelError(f"the model's initialisers have more than {MOST_INITIALIZERS_BYTES:,} B together")
    for sparse in graph.sparse_initializer:
        yield _checked(sparse.values.name, _dense(sparse), seen)


def _lifted(graph: onnx.GraphProto, initializers: Collection[str]) -> dict[str, Array]:
    """Constant nodes with several floating-point numbers, which are taken out of the graph. One number is no weight but the program's."""
    seen, found, nodes = {*initializers}, dict[str, Array](), list(graph.node)
    del graph.node[:]
    for node in nodes:
        tensors = [attribute.t for attribute in node.attribute if attribute.name == "value" and attribute.HasField("t")]
        if (plain_domain(node.domain), node.op_type, len(node.output), len(tensors)) == ("", "Constant", 1, 1):
            array = array_of(tensors[0])
            if array.size > 1 and jnp.issubdtype(array.dtype, jnp.inexact):
                found.update([_checked(node.output[0], array, seen)])
                continue
        graph.node.append(node)
    return found


def _checked(name: str, array: Array, seen: set[str]) -> tuple[str, Array]:
    if not name or name in seen:
        raise OnnxError(f"the model has two initialisers named '{name}'" if name else "the model has an initialiser without a name")
    seen.add(name)
    return name, array


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    values, indices, shape = array_of(sparse.values), array_of(sparse.indices), tuple(sparse.dims)
    name = sparse.values.name
    if values.ndim != 1 or any(size < 0 for size in shape) or indices.dtype != np.int64:
        raise OnnxError(f"sparse initialiser '{name}' is damaged: its values must be a vector, its indices int64")
    if math.prod(shape) * values.itemsize > MOST_DENSIFIED_BYTES:
        raise UnsafeModelError(f"sparse initialiser '{name}' of {list(shape)} has more than {MOST_DENSIFIED_BYTES:,} B when it is dense")
    dense = np.zeros(shape, values.dtype)
    try:
        if indices.ndim == 1:
            dense.reshape(-1)[_within(indices, dense.size)] = values
        else:
            dense[tuple(_within(column, size) for column, size in zip(indices.T, shape, strict=True))] = values
    except (ValueError, IndexError) as error:
        raise OnnxError(f"sparse initialiser '{name}' is damaged: {error}") from error
    return dense


def _within(indices: Array, size: int) -> Array:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"an index is not within 0 to {size - 1}")
    return indices


def _copy(target: _M, source: _M, without: Collection[str]) -> _M:
    """`target` with the fields of `source`, but for those `without`."""
    for field, value in source.ListFields():
        if field.name in without:
            continue
        if hasattr(value, "MergeFrom"):  # a message, or a list
            getattr(target, field.name).MergeFrom(value)
        else:
            setattr(target, field.name, value)
    return target
