"""Writes a model back: the same graph with new values of its initialisers."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from tilestep.files import read_file, write_file, written_file
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.function import require_names
from tilestep.onnx.model import OnnxModel
from tilestep.onnx.reading.sizes import MOST_FILE_BYTES, require_parseable

_LEAST_EXTERNAL_BYTES: Final = 1024  # if any initialiser stands in another file
_MOST_OWN_FILE_BYTES: Final = 1 << 30
_MOST_REPLACED_MODEL_BYTES: Final = 1 << 28
_EXTERNAL_ALIGNMENT: Final = 4096  # so that an initialiser can be mapped by itself
_DIGEST: Final = 12  # hexadecimal digits of a name


def export_onnx(
    model: OnnxModel,
    params: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    state: Mapping[str, Any] | None = None,
    external: bool | None = None,
) -> None:
    """Writes a model with other parameters. A reader of `path` meets the old model or the new one, never a part.

    Args:
        model: from `import_onnx`, with whatever options. Its graph is written as it was read.
        params: by name: arrays of the shapes and dtypes of `model.params`.
        path: of the file.
        state: in training, what `model.fn` returned last.
        external: whether initialisers from 1 KiB on stand in a file beside `path`, whose name begins with that of `path`. None: if there
            is more than 1 GiB of them.

    Raises:
        TypeError: for a model that is none, or a parameter that is no array.
        OnnxError: for names that are missing or unknown, and for other shapes or dtypes.
        OSError: if the files cannot be written.
    """
    if not isinstance(model, OnnxModel):  # a caller's mistake
        raise TypeError(f"model is a {type(model).__name__}: it must be a model of import_onnx")
    require_names("params", params, model.params)
    if model.state and state is None:
        raise OnnxError("the model is for training: give the state as well, export_onnx(..., state=...)")
    require_names("state", state or {}, model.state)
    given = {**params, **(state or {})}
    own = {**model.params, **model.state}
    for name, array in given.items():
        if not hasattr(array, "dtype"):
            raise TypeError(f"parameter '{name}' is a {type(array).__name__}: it must be an array of NumPy or JAX")
        if tuple(np.shape(array)) != own[name].shape or np.dtype(array.dtype) != own[name].dtype:
            raise OnnxError(
                f"parameter '{name}' is {np.dtype(array.dtype)}{list(np.shape(array))}, and the model has "
                f"{own[name].dtype}{list(own[name].shape)}"
            )
    arrays = {name: given.get(name, array) for name, array in model.loaded.initializers.items()}
    size = sum(int(array.nbytes) for array in arrays.values())
    path = Path(path)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.loaded.proto)
    if external or (external is None and size > _MOST_OWN_FILE_BYTES):
        data = path.with_name(f"{path.name}.{secrets.token_hex(_DIGEST // 2)}.data")
        _write_with_data(proto, arrays, path, data)
    elif size + proto.ByteSize() >= MOST_FILE_BYTES:
        raise OnnxError(f"the model has {size:,} B of initialisers, which don't fit into one file: leave external away, or give True")
    else:
        proto.graph.initializer.extend(_tensor(name, array) for name, array in arrays.items())
        _write(proto, path)


def _write_with_data(proto: onnx.ModelProto, arrays: Mapping[str, Any], path: Path, data: Path) -> None:
    """Writes the data under a name of their own first, so that the old model has its data until the new one takes its place."""
    with written_file(data) as file:
        for name, array in arrays.items():
            if array.nbytes < _LEAST_EXTERNAL_BYTES or array.dtype == object:
                proto.graph.initializer.append(_tensor(name, array))
            else:
                proto.graph.initializer.append(_external(name, array, file, data.name))
    try:
        _write(proto, path)
    except BaseException:
        data.unlink(missing_ok=True)
        raise


def _write(proto: onnx.ModelProto, path: Path) -> None:
    """Writes the model's own file, then removes data of the file that was in its place, if `export_onnx` had written them."""
    old = set(_data_of(path))
    write_file(path, proto.SerializeToString())
    new = {entry.value for tensor in proto.graph.initializer for entry in tensor.external_data if entry.key == "location"}
    for name in old - new:
        path.with_name(name).unlink(missing_ok=True)


def _data_of(path: Path) -> Iterator[str]:
    """Names of files that belong to the model at `path`, and that `export_onnx` has made."""
    pattern = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{{_DIGEST}}}\.data")
    with contextlib.suppress(OSError, DecodeError, OnnxError):
        content = read_file(path, most_bytes=_MOST_REPLACED_MODEL_BYTES)
        require_parseable(content)
        for tensor in onnx.ModelProto.FromString(content).graph.initializer:
            yield from (entry.value for entry in tensor.external_data if entry.key == "location" and pattern.fullmatch(entry.value))


def _tensor(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def _external(name: str, array: Any, file: BinaryIO, location: str) -> onnx.TensorProto:
    """The tensor of an array that is appended to a file."""
    if np.dtype(array.dtype).itemsize == 1:  # several elements may share a byte
        content: Any = _tensor(name, array).raw_data
    else:
        content = np.ascontiguousarray(np.asarray(array)).reshape(-1).astype(array.dtype.newbyteorder("<"), copy=False).view(np.uint8).data
    offset = file.tell()
    file.write(bytes(-offset % _EXTERNAL_ALIGNMENT))
    offset += -offset % _EXTERNAL_ALIGNMENT
    file.write(content)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype))
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=array.shape, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", file.tell() - offset)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
