"""The exceptions of the ONNX importer.

OnnxError (TilestepError, ValueError)   a model that cannot be read, or does not mean anything
├── UnsupportedOpError                  operators that have no implementation here; all of the model's at once
├── DynamicShapeError                   a shape or a branch depends on a value that the program does not know when it is compiled
└── UnsafeModelError                    a file that reaches beyond its folder, or beyond the bounds on sizes and depths
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tilestep.errors import TilestepError

_MOST_TEXT: Final = 10_000  # characters of a message: a stranger's names may have megabytes
_END: Final = 1_000  # of them at the end, where the ways out stand


class OnnxError(TilestepError, ValueError):
    """A model is damaged, or an input does not fit it. The message names the node or the input, the value and the bound."""

    def __init__(self, message: str) -> None:
        if len(message) > _MOST_TEXT:
            message = f"{message[: _MOST_TEXT - _END]} ... {message[-_END:]}"
        super().__init__(message)


class UnsupportedOpError(OnnxError):
    """A model has operators that are not implemented. The message names each with its domain, version and nodes.

    Attributes:
        operators: (domain, name, version) of each; "" is ONNX's own domain.
    """

    def __init__(self, message: str, operators: Sequence[tuple[str, str, int]] = ()) -> None:
        super().__init__(message)
        self.operators = tuple(operators)


class DynamicShapeError(OnnxError):
    """A node needs the value of an input that is known only when the program runs. The message names the three ways out."""


class UnsafeModelError(OnnxError):
    """A model asks for a file outside of its folder, or for more memory, nodes or depth than is allowed."""
