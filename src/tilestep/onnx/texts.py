"""Names and other texts of a model are UTF-8; a stranger's file may hold any bytes, which protobuf then gives as bytes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import onnx

from tilestep.onnx.errors import OnnxError

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
