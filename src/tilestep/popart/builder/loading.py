"""Models from bytes and from files, as builders, transformers and sessions take them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError
from onnx import checker

from tilestep.messages import plain
from tilestep.popart.builder import external
from tilestep.popart.builder.graph.graph_walk import tensors_of
from tilestep.popart.builder.opsets.onnx_opsets import DEFAULT_VERSION, VERSIONS
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import unpacked

_LONGEST_NAME: Final = 10_000  # characters of a file's name; what is longer is a model
_SHOWN: Final = 100  # characters of what is no model


class ModelCheckError(popart_exception, RuntimeError):
    """A model that breaks ONNX's rules. The original raises a RuntimeError here."""


def load_model(modelProtoOrFilename: str | bytes) -> onnx.ModelProto:
    """Reads a model. Tensors that stand in other files are not read; `external` finds the files.

    Args: modelProtoOrFilename: the model itself in bytes, or the name of its file.
    Raises: popart_exception if it is neither; MissingDataError if it is not certain which file has a tensor.
    """
    name = file_name(modelProtoOrFilename)
    content = modelProtoOrFilename if name is None else Path(name).read_bytes()
    if isinstance(content, str):
        content = content.encode()
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError:
        model = None
    if model is None or not model.HasField("graph"):
        shown = content[:_SHOWN].decode(errors="replace") + ("..." if len(content) > _SHOWN else "")
        raise popart_exception(
            f"Failed to load a ModelProto from the string '{plain(shown)}'.\n"
            "Check that it is either a valid path to an existing onnx model file, "
            "or is a valid onnx ModelProto string."
        )
    if name is not None:
        external.take_folder(model, Path(name).parent)
    return model


def file_name(modelProtoOrFilename: str | bytes) -> str | None:
    """The name of a model's file; None if it is the model itself."""
    if len(modelProtoOrFilename) > _LONGEST_NAME:
        return None
    try:
        name = modelProtoOrFilename.decode() if isinstance(modelProtoOrFilename, bytes) else modelProtoOrFilename
    except UnicodeDecodeError:
        return None
    return name if "\0" not in name and Path(name).is_file() else None


def checked_model(modelProtoOrFilename: str | bytes) -> onnx.ModelProto:
    """Reads a model, and checks it by ONNX's rules and its files.

    Raises: popart_exception if it is none, or breaks the rules.
    """
    model = load_model(modelProtoOrFilename)
    check_model(model)
    return model


def check_model(model: onnx.ModelProto) -> None:
    """Checks a model by ONNX's rules. Tensors in files are checked by `external`, because ONNX refuses absolute names.

    Raises: ModelCheckError if it breaks a rule, MissingDataError if a file is not there.
    """
    checkable = onnx.ModelProto()
    checkable.CopyFrom(model)
    for tensor in filter(external.is_external, tensors_of(checkable.graph)):
        external.checked_path(tensor)
        tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))  # in its place, without values
    if not any(imported.domain in ("", "ai.onnx") for imported in model.opset_import):
        checkable.opset_import.add(domain="", version=DEFAULT_VERSION)  # a model must name it even if it has none of its operators
    try:
        checker.check_model(checkable)  # a parameter of it has a type without arguments
    except checker.ValidationError as error:
        raise ModelCheckError(str(error)) from error


def check_opsets(model: onnx.ModelProto) -> None:
    """Checks that the model is of versions that the builder has operators of. Raises: popart_exception if it is not."""
    for imported in model.opset_import:
        if imported.domain in ("", "ai.onnx") and imported.version not in VERSIONS:
            raise popart_exception(
                f"Encountered ONNX opset version {imported.version}, Maximimum supported opset is {VERSIONS[-1]}, minimum {VERSIONS[0]} "
                f"and default {DEFAULT_VERSION}."
            )
        if imported.domain == "ai.graphcore" and imported.version != 1:
            raise popart_exception(f"Encountered Graphcore opset version {imported.version}, Maximimum supported opset is 1.")


@dataclass(frozen=True, kw_only=True)
class GivenModel:
    """A model that a session was given.

    Attributes:
        proto: with the original's float16 initialisers in ONNX's form.
        from_file: whether it was read from a file.
    """

    proto: onnx.ModelProto
    from_file: bool = False


def read_model(source: Any) -> GivenModel:
    """Reads a model. Tensors in other files are read when they are asked for.

    Args: source: a ModelProto, its bytes, or a path.
    Raises: popart_exception if it is neither.
    """
    if isinstance(source, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
        unpacked(proto)
        return GivenModel(proto=proto)
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
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
    return GivenModel(proto=proto, from_file=file_name(source) is not None)
