"""Models from bytes and from files, as builders, transformers and sessions take them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import onnx
from google.protobuf.message import DecodeError
from onnx import checker

from tilestep.popart.builder import external
from tilestep.popart.builder.onnx_opsets import DEFAULT_VERSION, VERSIONS
from tilestep.popart.exceptions import popart_exception

_LONGEST_NAME: Final = 10_000  # characters of a file's name; what is longer is a model
_SHOWN: Final = 100  # characters of what is no model


class ModelCheckError(popart_exception, RuntimeError):
    """A model that breaks ONNX's rules. The original raises a RuntimeError here."""


def load_model(modelProtoOrFilename: str | bytes) -> onnx.ModelProto:
    """Reads a model. Tensors that stand in other files are not read.

    Args: modelProtoOrFilename: the model itself in bytes, or the name of its file.
    Raises: popart_exception if it is neither.
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
            f"Failed to load a ModelProto from the string '{shown}'.\nCheck that it is either a valid path to an existing onnx model file, "
            "or is a valid onnx ModelProto string."
        )
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
    name = file_name(modelProtoOrFilename)
    check_model(model, None if name is None else external.folder_of(name))
    return model


def check_model(model: onnx.ModelProto, folder: Path | None = None) -> None:
    """Checks a model by ONNX's rules. Tensors in files are checked by `external`, because ONNX refuses absolute names.

    Args: folder: of the model's file; None if it has none.
    Raises: ModelCheckError if it breaks a rule, MissingDataError if a file is not there.
    """
    checkable = onnx.ModelProto()
    checkable.CopyFrom(model)
    outside = [tensor for tensor in model.graph.initializer if external.is_external(tensor)]
    if outside:
        for tensor in outside:
            external.checked_path(tensor, folder)
        kept = [tensor for tensor in checkable.graph.initializer if not external.is_external(tensor)]
        del checkable.graph.initializer[:]
        checkable.graph.initializer.extend(kept)
    if not any(imported.domain in ("", "ai.onnx") for imported in model.opset_import):
        checkable.opset_import.add(domain="", version=DEFAULT_VERSION)  # a model must name it even if it has none of its operators
    try:
        checker.check_model(checkable)  # pyright: ignore[reportUnknownMemberType]  # a parameter of it has a type without arguments
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
