"""A session's model as it was given: the proto, where it came from, and the arrays that it or its files hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import onnx

from tilestep.popart.builder import load_model
from tilestep.popart.builder.loading import file_name
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.typed_tensors import unpacked


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model that a session was given.

    Attributes:
        proto: with the original's float16 initialisers in ONNX's form.
        from_file: whether it was read from a file.
    """

    proto: onnx.ModelProto
    from_file: bool = False


def read_model(source: Any) -> Model:
    """Reads a model. Tensors in other files are read when they are asked for.

    Args: source: a ModelProto, its bytes, or a path.
    Raises: popart_exception if it is neither.
    """
    if isinstance(source, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
        unpacked(proto)
        return Model(proto=proto)
    if isinstance(source, os.PathLike):
        source = os.fspath(source)  # of any kind
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    if not isinstance(source, str | bytes):
        raise popart_exception(
            f"Failed to read the model, which is a {type(source).__name__}. "
            "Give a path, the bytes of Builder.getModelProto(), or a ModelProto"
        )
    try:
        proto = load_model(source)
    except OSError as error:
        raise popart_exception(f"Failed to read the model: {error}") from error
    unpacked(proto)
    return Model(proto=proto, from_file=file_name(source) is not None)
