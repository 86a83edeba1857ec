"""Initialisers in files beside a model.

A location is absolute, or relative to the working directory, as the original has it, or to the folder of the model's file, as ONNX and
PyTorch have it. A model may name a file in its own folder or in the working directory, and one that this process has written initialisers
to; another file is refused, because a model from elsewhere could name any file of its reader's.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder.graph.graph_walk import tensors_of
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of_onnx, numpy_dtype

_DATA_FIELDS: Final = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_written: Final[set[Path]] = set()  # files that this process has written initialisers to
_beside: Final[set[Path]] = set()  # files that a model in the same folder names, and that this process has read


class MissingDataError(popart_exception, RuntimeError):
    """A model whose tensors stand in a file that is not there, or may not be read."""


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's values stand in a file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def location_of(tensor: onnx.TensorProto) -> str:
    """The file of a tensor, as the model names it."""
    return _entries(tensor).get("location", "")


def take_folder(model: onnx.ModelProto, folder: Path) -> None:
    """Gives tensors whose files are in the folder of their model the files' whole names, unless the working directory has them, too.

    Args: model: that was read from a file; it is changed. folder: of its file.
    Raises: MissingDataError for a name by which the folder and the working directory have different files.
    """
    folder = folder.resolve()
    for tensor in tensors_of(model.graph):
        location = location_of(tensor)
        path = folder / location
        if not is_external(tensor) or not os.path.isfile(path) or not path.resolve().is_relative_to(folder):
            continue
        _beside.add(path.resolve())
        if not os.path.exists(location):
            next(entry for entry in tensor.external_data if entry.key == "location").value = str(path)
        elif not path.samefile(location):
            raise MissingDataError(
                f"Data of TensorProto ( tensor name: {tensor.name}) should be stored in {location}, and both the model's folder {folder} "
                f"and the working directory {Path.cwd()} have such a file: start the program in another folder, or rename one of the files"
            )


def save(model: onnx.ModelProto, ids: Sequence[str], filename: str, *, append: bool = False, again: bool = False) -> None:
    """Moves initialisers of a model into one file, one after the other.

    Args:
        filename: absolute, or relative to the working directory; the model names it so.
        append: whether to go on after what is in the file.
        again: whether tensors may stand in a file already.

    Raises: popart_exception if the file's folder is not there, a tensor is no initialiser or is empty, or it stands in a file.
    """
    path = Path(filename)
    if not path.parent.is_dir():
        raise popart_exception(f"Saving tensor data to file {filename}, but its parent directory does not exist")
    if append and not path.exists():
        raise popart_exception(f"TensorIds '{' '.join(ids)}' to be saved externally to existing file {filename}, but file doesn't exist")
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    chosen = [_saveable(initializers, id, again=again) for id in ids]
    arrays = [array_of(tensor) for tensor in chosen]
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
        tensor.ClearField(field)  # names of its fields
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", str(length)), ("offset", str(offset))):
        tensor.external_data.add(key=key, value=value)


def array_of(tensor: onnx.TensorProto) -> Array:
    """The values of a tensor, which may stand in a file.

    Raises: MissingDataError if the file is not there, may not be read, or does not hold the tensor.
    """
    if not is_external(tensor):
        return numpy_helper.to_array(tensor)
    dtype = numpy_dtype(data_type_of_onnx(tensor.data_type))
    path = checked_path(tensor)
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


def overwrite(tensor: onnx.TensorProto, array: Array) -> None:
    """Writes new values of a tensor to its place in a file.

    Args: array: of the tensor's shape and type.
    Raises: MissingDataError if the file is not there, does not hold the tensor, or was not written by this process.
    """
    old = array_of(tensor)
    path = require_own(tensor)
    assert (old.shape, old.dtype) == (array.shape, array.dtype)
    with path.open("r+b") as file:
        file.seek(int(_entries(tensor).get("offset", "0")))
        file.write(np.ascontiguousarray(array).tobytes())


def require_own(tensor: onnx.TensorProto) -> Path:
    """The file of a tensor, which may be changed. A model from elsewhere could name any file beside it, such as a program.

    Raises: MissingDataError if it is not there, or this process has not written it.
    """
    path = checked_path(tensor)
    if path.resolve() in _written:
        return path
    raise MissingDataError(
        f"Data of TensorProto ( tensor name: {tensor.name}) should be written to {location_of(tensor)}, which this process has not written "
        "before: give the data a file of their own with updateExternallySavedTensorLocations(old, new), or allow the file with "
        "tilestep.popart.builder.external.allow(path)"
    )


def checked_path(tensor: onnx.TensorProto) -> Path:
    """The file of a tensor. Raises: MissingDataError if it is not there, or a model may not name it."""
    location = location_of(tensor)
    path = Path(location)
    if not os.path.isfile(location):
        raise MissingDataError(
            f"Data of TensorProto ( tensor name: {tensor.name}) should be stored in {location}, but it doesn't exist or is not accessible."
        )
    real = path.resolve()
    if real in _written | _beside or real.is_relative_to(Path.cwd().resolve()):
        return path
    raise MissingDataError(
        f"Data of TensorProto ( tensor name: {tensor.name}) should be stored in {location}, which is outside of the model's folder and of "
        "the working directory: copy the file there, or start the program there"
    )


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}
