"""The exceptions of the ONNX importer.

OnnxError (TilestepError, ValueError)   a model that cannot be read, or does not mean anything
├── NodeError                           a node that cannot take its inputs
├── UnsupportedOpError                  operators that have no implementation here; all of the model's at once
├── DynamicShapeError                   a shape or a branch depends on a value that the program does not know when it is compiled
└── UnsafeModelError                    a file that reaches beyond its folder, or beyond the bounds on sizes and depths
"""

from collections.abc import Sequence

from tilestep.errors import TilestepError
from tilestep.messages import sentences


class OnnxError(TilestepError, ValueError):
    """A model is damaged, or an input does not fit it. The message names the node or the input, the value and the bound.

    Names in a message may be a stranger's: each line has a bounded length and no character that a terminal would obey, not even a new line.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(sentences, lines)))


class NodeError(OnnxError):
    """A node cannot take its inputs, or cannot be compiled for them. The message names both."""


class UnsupportedOpError(OnnxError):
    """A model has operators that are not implemented. The message names each with its domain, version and nodes.

    Attributes:
        operators: (domain, name, version) of each; "" is ONNX's own domain.
    """

    def __init__(self, *lines: str, operators: Sequence[tuple[str, str, int]] = ()) -> None:
        super().__init__(*lines)
        self.operators = tuple(operators)


class DynamicShapeError(OnnxError):
    """A node needs the value of an input that is known only when the program runs. The message names the ways out.

    Attributes:
        inputs: names of the model's inputs that the value comes from, where that is known.
    """

    def __init__(self, message: str, inputs: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.inputs = tuple(inputs)


class UnsafeModelError(OnnxError):
    """A model asks for a file outside of its folder, or for more memory, nodes or depth than is allowed."""
