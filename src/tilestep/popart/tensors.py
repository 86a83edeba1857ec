"""Types and shapes of tensors, and the settings of a model's inputs and variables."""

import math
from collections.abc import Iterable
from typing import Any, Final, cast

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.enums import DataType, ExchangeStrategy, ReplicatedStreamMode, TileSet
from tilestep.popart.exceptions import popart_exception
from tilestep.protobuf import bytes_field

_UNDEFINED: Final = 0  # TensorProto.UNDEFINED: ONNX's versions that models are written for have no 8-bit floats
_NUMPY_NAMES: Final = {DataType.FLOAT: "float32", DataType.DOUBLE: "float64"}  # others have that of the type, in lower case
_FLOATS_OF_8_BITS: Final = (DataType.FLOAT8_143, DataType.FLOAT8_152)
_WITHOUT_ARRAYS: Final = (DataType.STRING, DataType.UNDEFINED)


def onnx_number(kind: DataType) -> int:
    """TensorProto's number of a type; 0 (UNDEFINED) for 8-bit floats."""
    return _UNDEFINED if kind in _FLOATS_OF_8_BITS else onnx.TensorProto.DataType.Value(kind.name)


def name_lcase(kind: DataType) -> str:
    """NumPy's name of a type, such as "float32"."""
    return _NUMPY_NAMES.get(kind, kind.name.lower())


_OF_ONNX: Final = {onnx_number(kind): kind for kind in DataType if kind not in _FLOATS_OF_8_BITS}
_OF_NUMPY: Final = {name_lcase(kind): kind for kind in DataType if kind not in _WITHOUT_ARRAYS}


def data_type_of(name: str) -> DataType:
    """The type with the name, such as "FLOAT". Raises: popart_exception for another name."""
    try:
        return DataType[name]
    except KeyError:
        raise popart_exception(f"no ONNX type {name}, they're [{', '.join(sorted(kind.name for kind in DataType))}].") from None


def data_type_of_numpy(dtype: np.dtype[Any]) -> DataType:
    """The type of a NumPy array's elements. Raises: popart_exception for one that has no counterpart."""
    found = _OF_NUMPY.get(dtype.names[0] if dtype.names is not None and len(dtype.names) == 1 else dtype.name)
    if found is None:
        raise popart_exception(f"No numpy type {dtype} registered in map to DataType")
    return found


def data_type_of_onnx(number: int) -> DataType:
    """The type with one of TensorProto's numbers. Raises: popart_exception for a number of a later ONNX version."""
    if number not in _OF_ONNX:
        raise popart_exception(f"unrecognised ONNX DataType {number}")
    return _OF_ONNX[number]


def is_fixed_point(kind: DataType) -> bool:
    """Whether elements are integers or booleans."""
    return kind not in _WITHOUT_ARRAYS and numpy_dtype(kind).kind in "iub"


def element_bytes(kind: DataType) -> int:
    """The size of an element; -1 where it has no fixed one."""
    return -1 if kind in _WITHOUT_ARRAYS else numpy_dtype(kind).itemsize


def numpy_dtype(kind: DataType) -> np.dtype[Any]:
    """The dtype of arrays of a type. Raises: popart_exception for strings and the undefined type."""
    if kind is DataType.BFLOAT16:
        return np.dtype(ml_dtypes.bfloat16)
    if kind in _FLOATS_OF_8_BITS:
        return np.dtype([(name_lcase(kind), "u1")])
    if kind in _WITHOUT_ARRAYS:
        raise popart_exception(f"tensors of type {kind.name} have no NumPy arrays")
    return np.dtype(name_lcase(kind))


class TensorInfo:
    """The type and shape of a tensor.

    `TensorInfo(dtype, shape)` or `TensorInfo(array)`: dtype is a name as "FLOAT16", a `DataType`, a NumPy dtype or scalar type; shape is a
    sequence of integers, or a text as "(2,3)". A third argument is the meta-shape, which a sharded tensor had before.

    Raises: TypeError for other arguments; popart_exception for an unknown type.
    """

    def __init__(self, *args: Any) -> None:
        given = list(args)
        if len(given) == 1 and isinstance(given[0], np.ndarray):
            array = cast("Array", given[0])
            given = [array.dtype, array.shape]
        if len(given) not in (2, 3):
            raise TypeError(f"Can not create TensorInfo with args {args}")
        dtype, shape, *meta = given
        self._kind = _kind_of(dtype)
        self._shape = _shape_of(shape, args)
        self._meta_shape = _shape_of(meta[0], args) if meta else ()

    def set(self, dataType: DataType, shape: Iterable[int] | None = None, metaShape: Iterable[int] | None = None) -> None:
        """Takes another type and, where they are given, another shape and meta-shape."""
        self._kind = dataType
        if shape is not None:
            self._shape = _shape_of(shape, (dataType, shape))
        if metaShape is not None:
            self._meta_shape = _shape_of(metaShape, (dataType, shape, metaShape))

    def shape(self) -> list[int]:
        """The size of each dimension."""
        return list(self._shape)

    def metaShape(self) -> list[int]:
        """The shape before the tensor was sharded; empty if it is not."""
        return list(self._meta_shape)

    def rank(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    def nelms(self) -> int:
        """The number of elements."""
        return math.prod(self._shape)

    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.nelms() * element_bytes(self._kind)

    def dim(self, i: int) -> int:
        """The size of dimension i. Raises: popart_exception beyond the last one."""
        if not 0 <= i < len(self._shape):
            raise popart_exception(f"invalid input dimension {i}, tensor of shape {list(self._shape)}")
        return self._shape[i]

    def strides(self, shape: Iterable[int] | None = None) -> list[int]:
        """Bytes from one element to the next along each dimension, with the last one contiguous. Args: shape: the tensor's own if None."""
        sizes = self._shape if shape is None else _shape_of(shape, (shape,))
        return [math.prod(sizes[axis + 1 :]) * element_bytes(self._kind) for axis in range(len(sizes))]

    def dataType(self) -> DataType:
        """The type."""
        return self._kind

    def data_type(self) -> str:
        """The type's name, such as "FLOAT"."""
        return self._kind.name

    def data_type_lcase(self) -> str:
        """NumPy's name of the type, such as "float32"."""
        return name_lcase(self._kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorInfo):
            return NotImplemented
        return (self._kind, self._shape, self._meta_shape) == (other._kind, other._shape, other._meta_shape)

    __hash__: None = None  # `set` changes it

    def __repr__(self) -> str:
        return f"TensorInfo({self._kind.name!r}, {list(self._shape)})"


def _kind_of(dtype: object) -> DataType:
    if isinstance(dtype, DataType):
        return dtype
    if isinstance(dtype, str):
        return data_type_of(dtype)
    if isinstance(dtype, np.dtype):
        return data_type_of_numpy(cast("np.dtype[Any]", dtype))
    if isinstance(dtype, type):
        try:
            return data_type_of_numpy(np.dtype(cast("type[np.generic]", dtype)))
        except TypeError:
            pass
    raise TypeError(f"Can not create TensorInfo with the data type {dtype!r}")


def _shape_of(shape: object, args: tuple[object, ...]) -> tuple[int, ...]:
    if isinstance(shape, str):
        return _shape_of_text(shape)
    try:
        return tuple(_size(size) for size in cast("Iterable[Any]", shape))
    except TypeError:
        raise TypeError(f"Can not create TensorInfo with args {args}") from None


def _size(size: Any) -> int:
    if isinstance(size, (float, str)):
        raise TypeError(size)
    return int(size.__index__())


def _shape_of_text(text: str) -> tuple[int, ...]:
    if len(text) < 2 or text[0] != "(" or text[-1] != ")":
        raise popart_exception("invalid string for shape")
    if " " in text:
        raise popart_exception("s contains a space : not valid shape string")
    return tuple(int(size) for size in text[1:-1].split(",") if size)


class InputShapeInfo:
    """Types and shapes of inputs whose model does not say them, or says other ones."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def add(self, id: str, info: TensorInfo) -> None:
        """Sets what input `id` is."""
        self._infos[id] = info

    def get(self, id: str) -> TensorInfo:
        """What input `id` is. Raises: popart_exception if nothing was added for it."""
        if id not in self._infos:
            raise popart_exception(f"No input shape info for Tensor `{id}' in InputShapeInfo::get")
        return self._infos[id]

    def has(self, id: str) -> bool:
        """Whether something was added for input `id`."""
        return id in self._infos

    def getAllTensorIds(self) -> list[str]:
        """Inputs for which something was added, in order."""
        return sorted(self._infos)


class InputSettings:
    """How an input is streamed from the host.

    `InputSettings(tileSet, exchangeStrategy)` or `InputSettings(replicatedStreamMode)`.
    """

    def __init__(
        self,
        tileSet: TileSet | ReplicatedStreamMode = TileSet.Compute,
        exchangeStrategy: ExchangeStrategy = ExchangeStrategy.JustInTime,
        *,
        relicatedStreamMode: ReplicatedStreamMode | None = None,
        replicatedStreamMode: ReplicatedStreamMode | None = None,
    ) -> None:
        mode = replicatedStreamMode if relicatedStreamMode is None else relicatedStreamMode  # the original misspells it
        if isinstance(tileSet, ReplicatedStreamMode):
            tileSet, mode = TileSet.Compute, tileSet
        if not isinstance(cast("object", tileSet), TileSet) or not isinstance(cast("object", exchangeStrategy), ExchangeStrategy):
            raise TypeError(
                f"InputSettings takes a TileSet and an ExchangeStrategy, or a ReplicatedStreamMode; got {tileSet!r}, {exchangeStrategy!r}"
            )
        self._tile_set, self._strategy, self._mode = tileSet, exchangeStrategy, ReplicatedStreamMode.Replicate if mode is None else mode

    def tileSet(self) -> TileSet:
        """The tiles that receive it."""
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        """When it is received."""
        return self._strategy

    def replicatedStreamMode(self) -> ReplicatedStreamMode:
        """Whether each replica reads its own data."""
        return self._mode


_FLOAT_DATA: Final = 4  # field of TensorProto


def typed_tensor(array: Array, name: str) -> onnx.TensorProto:
    """A tensor with its elements in the field of its type; a type that has none, and float16, is in `raw_data`."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    kind = helper.np_dtype_to_tensor_dtype(contiguous.dtype)
    proto = onnx.TensorProto(name=name, data_type=kind, dims=list(array.shape))
    if contiguous.dtype == np.float32:
        data = contiguous.astype("<f4", copy=False).tobytes()
        # A packed field of floats is their bytes: no Python number is made of any.
        return onnx.TensorProto.FromString(proto.SerializeToString() + bytes_field(_FLOAT_DATA, data)) if data else proto
    if contiguous.dtype == np.int32:
        proto.int32_data.extend(contiguous.ravel().tolist())
    elif contiguous.dtype == np.int64:
        proto.int64_data.extend(contiguous.ravel().tolist())
    else:
        return numpy_helper.from_array(contiguous, name)
    return proto


def unpacked(model: onnx.ModelProto) -> None:
    """Makes ONNX's form of each initialiser in `model` that has PopART's form of float16."""
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT16 or tensor.HasField("raw_data"):
            continue
        size = math.prod(tensor.dims)
        if len(tensor.int32_data) == (size + 1) // 2 and size > 1:
            data = np.asarray(tensor.int32_data, np.int32).tobytes()[: 2 * size]
            del tensor.int32_data[:]
            tensor.raw_data = data
