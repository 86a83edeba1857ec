"""Tensors in files beside a model: mapped into memory, and only files that lie in the model's folder."""

import math
import mmap
import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilestep.onnx.errors import OnnxError, UnsafeModelError
from tilestep.onnx.interpreter.values import Array

_BITS_PER_ELEMENT: Final[dict[int, int]] = {  # types with several in a byte
    onnx.TensorProto.INT4: 4,
    onnx.TensorProto.UINT4: 4,
    onnx.TensorProto.FLOAT4E2M1: 4,
    onnx.TensorProto.INT2: 2,
    onnx.TensorProto.UINT2: 2,
}
_MOST_NUMBER: Final = 1 << 62  # offsets and lengths


class Folder:
    """The folder of a model. Each file in it is opened and mapped once.

    Arrays are views of the file, which takes no memory until they are read. Whoever shortens the file meanwhile ends the process.

    Args: path: None for a model that came without a folder.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._files: dict[str, Array] = {}

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The array of a tensor that stands in a file.

        Raises: UnsafeModelError for a file beyond the folder; OnnxError if the file is not there, or does not have the tensor.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        content = self._content(location, tensor.name)
        size = _size(tensor)
        first = _number(entries.get("offset", "0"), tensor.name)
        length = _number(entries.get("length", str(size)), tensor.name)
        if length != size:
            raise OnnxError(f"tensor '{tensor.name}' of {list(tensor.dims)} has {size:,} B, but its place in '{location}' has {length:,} B")
        if first + size > content.size:
            raise OnnxError(f"tensor '{tensor.name}' ends at byte {first + size:,} of '{location}', which has {content.size:,} B")
        part = content[first : first + size]
        if tensor.data_type in _BITS_PER_ELEMENT:
            packed = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=part.tobytes())
            return numpy_helper.to_array(packed)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type).newbyteorder("<")
        return np.frombuffer(part, dtype=dtype).reshape(tensor.dims)

    def _content(self, location: str, name: str) -> Array:
        if location not in self._files:
            descriptor = self._open(location, name)
            try:
                size = os.fstat(descriptor).st_size
                self._files[location] = np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if size else b"", np.uint8)
            finally:
                os.close(descriptor)
        return self._files[location]

    def _open(self, location: str, name: str) -> int:
        """A descriptor of a file, to which no symbolic link leads."""
        what = f"tensor '{name}' stands in file {location!r}"
        if self._path is None:
            raise UnsafeModelError(f"{what}, but the model came without a folder: give import_onnx the model's path")
        parts = PurePosixPath(location).parts
        if not parts or location.startswith("/") or ".." in parts or "\0" in location:
            raise UnsafeModelError(f"{what}: only a file in the model's folder may be named, by a relative path without '..'")
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                _require(stat.S_ISDIR(_mode(part, folder, what)), what, "is reached by what is no folder, such as a symbolic link")
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                os.close(folder)
                folder = inner
            _require(
                stat.S_ISREG(_mode(parts[-1], folder, what)), what, "is no regular file, but a symbolic link or a device, for instance"
            )
            descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            raise OnnxError(f"{what}, which cannot be read in {self._path}: {error.strerror}") from error
        finally:
            os.close(folder)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(descriptor)
            _require(False, what, "has several names (hard links), so it may be another one's")
        return descriptor


def _mode(name: str, folder: int, what: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError as error:
        raise OnnxError(f"{what}, which is not there: {error.strerror}") from error


def _require(condition: bool, what: str, wrong: str) -> None:
    if not condition:
        raise UnsafeModelError(f"{what}, which {wrong}: copy the file itself into the model's folder")


def _size(tensor: onnx.TensorProto) -> int:
    """Bytes of a tensor. Raises: OnnxError for a type or dimensions that no file can have."""
    if tensor.data_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING) or any(size < 0 for size in tensor.dims):
        raise OnnxError(f"tensor '{tensor.name}' of type {tensor.data_type} and shape {list(tensor.dims)} can't stand in another file")
    try:
        bits = _BITS_PER_ELEMENT.get(tensor.data_type, 8 * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except KeyError:
        raise OnnxError(f"tensor '{tensor.name}' has type {tensor.data_type}, which ONNX does not have") from None
    return -(-math.prod(tensor.dims) * bits // 8)


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(_MOST_NUMBER))):
        raise OnnxError(f"tensor '{name}' stands in another file at {text[:40]!r}, which is no number of bytes")
    return int(text)
