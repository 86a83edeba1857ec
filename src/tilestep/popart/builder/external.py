"""Initialisers in files beside a model.

A location is absolute, or relative to the working directory, as the original has it. A model may name a file in its own folder or in the
working directory, and one that this process has written initialisers to; another file is refused, because a model from elsewhere could
name any file of its reader's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of_onnx, numpy_dtype

_DATA_FIELDS: Final = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_written: Final[set[Path]] = set()  # files that this process has written initialisers to


class MissingDataError(popart_exception, RuntimeError):
    """A model whose tensors stand in a file that is not there, or may not be read."""


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's values stand in a file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def location_of(tensor: onnx.TensorProto) -> str:
    """The file of a tensor, as the model names it."""
    return _entries(tensor).get("location", "")


def save(
    model: onnx.ModelProto, ids: Sequence[str], filename: str, *, append: bool = False, again: bool = False, folder: Path | None = None
) -> None:
    """Moves initialisers of a model into one file, one after the other.

    Args:
        filename: absolute, or relative to the working directory; the model names it so.
        append: whether to go on after what is in the file.
        again: whether tensors may stand in a file already.
        folder: of the model's own file; None if it has none.

    Raises: popart_exception if the file's folder is not there, a tensor is no initialiser or is empty, or it stands in a file.
    """
    path = Path(filename)
    if not path.parent.is_dir():
        raise popart_exception(f"Saving tensor data to file {filename}, but its parent directory does not exist")
    if append and not path.exists():
        raise popart_exception(f"TensorIds '{' '.join(ids)}' to be saved externally to existing file {filename}, but file doesn't exist")
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    chosen = [_saveable(initializers, id, again=again) for id in ids]
    arrays = [array_of(tensor, folder) for tensor in chosen]
    offset = path.stat().st_size if append else 0
    with path.open("ab" if append else "wb") as file:
        for tensor, array in zip(chosen, arrays, strict=True):
            data = np.ascontiguousarray(array).tobytes()
            file.write(data)
            _point(tensor, filename, offset, len(data))
            offset += len(data)
    allow(path)


def allow(path: str | Path) -> None:
    """Lets models name a file, because this process has written it."""
    _written.add(Path(path).resolve())


def _saveable(initializers: dict[str, onnx.TensorProto], id: str, *, again: bool) -> onnx.TensorProto:
    if id not in initializers:
        raise popart_exception(f"Tensor '{id}' is not an initializer")
    tensor = initializers[id]
    if is_external(tensor) and not again:
        raise popart_exception(f"Tensor '{id}' already has an external data_location")
    if not math.prod(tensor.dims):
        raise popart_exception(f"Tensor '{id}' has no data to save externally")
    return tensor


def _point(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    for field in _DATA_FIELDS:
        tensor.ClearField(field)  # type: ignore[arg-type]  # names of its fields
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", str(length)), ("offset", str(offset))):
        tensor.external_data.add(key=key, value=value)


def array_of(tensor: onnx.TensorProto, folder: Path | None = None) -> np.ndarray[Any, Any]:
    """The values of a tensor, which may stand in a file.

    Args: folder: of the model's file; None if the model came as bytes.
    Raises: MissingDataError if the file is not there, may not be read, or does not hold the tensor.
    """
    if not is_external(tensor):
        return numpy_helper.to_array(tensor)
    dtype = numpy_dtype(data_type_of_onnx(tensor.data_type))
    path = checked_path(tensor, folder)
    entries = _entries(tensor)
    size = math.prod(tensor.dims) * dtype.itemsize
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(size)))
    except ValueError:
        raise MissingDataError(f"externally stored tensor '{tensor.name}' has no numbers for its place: {entries}") from None
    if length != size or offset < 0 or offset + length > path.stat().st_size:
        raise MissingDataError(
            f"Invalid 'length' information ({length}) or 'offset' information ({offset}) for externally stored tensor '{tensor.name}' of "
            f"{size} B in {path}, which has {path.stat().st_size} B"
        )
    return np.fromfile(path, dtype=dtype, count=math.prod(tensor.dims), offset=offset).reshape(tensor.dims)


def overwrite(tensor: onnx.TensorProto, array: np.ndarray[Any, Any], folder: Path | None = None) -> None:
    """Writes new values of a tensor to its place in a file.

    Args: array: of the tensor's shape and type. folder: of the model's file; None if the model came as bytes.
    Raises: MissingDataError if the file is not there, does not hold the tensor, or was not written by this process.
    """
    old = array_of(tensor, folder)
    path = require_own(tensor, folder)
    assert (old.shape, old.dtype) == (array.shape, array.dtype)
    with path.open("r+b") as file:
        file.seek(int(_entries(tensor).get("offset", "0")))
        file.write(np.ascontiguousarray(array).tobytes())


def require_own(tensor: onnx.TensorProto, folder: Path | None) -> Path:
    """The file of a tensor, which may be changed. A model from elsewhere could name any file beside it, such as a program.

    Raises: MissingDataError if it is not there, or this process has not written it.
    """
    path = checked_path(tensor, folder)
    if path.resolve() in _written:
        return path
    raise MissingDataError(
        f"Data of TensorProto ( tensor name: {tensor.name}) should be written to {location_of(tensor)}, which this process has not written "
        "before: give the data a file of their own with updateExternallySavedTensorLocations(old, new), or allow the file with "
        "tilestep.popart.builder.external.allow(path)"
    )


def checked_path(tensor: onnx.TensorProto, folder: Path | None) -> Path:
    """The file of a tensor. Raises: MissingDataError if it is not there, or a model may not name it."""
    location = location_of(tensor)
    path = Path(location)
    if not location or "\0" in location or not path.is_file():
        raise MissingDataError(
            f"Data of TensorProto ( tensor name: {tensor.name}) should be stored in {location}, but it doesn't exist or is not accessible."
        )
    real = path.resolve()
    allowed = [Path.cwd().resolve(), *([folder.resolve()] if folder is not None else [])]
    if real in _written or any(real.is_relative_to(place) for place in allowed):
        return path
    raise MissingDataError(
        f"Data of TensorProto ( tensor name: {tensor.name}) should be stored in {location}, which is outside of the model's folder and of "
        "the working directory: copy the file there, or start the program there"
    )


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def folder_of(filename: str) -> Path:
    """The folder of a file."""
    return Path(os.path.abspath(filename)).parent
