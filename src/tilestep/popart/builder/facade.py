"""The Builder: the core, with the choice of ONNX's version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Union

import numpy as np

from tilestep.popart.builder.building import _BuilderCore  # the original's name
from tilestep.popart.builder.graphcore_opset import AiGraphcoreOpset1 as _GraphcoreOpset1
from tilestep.popart.builder.onnx_opsets import (
    DEFAULT_VERSION,
    OPSETS,
    AiOnnxOpset6,
    AiOnnxOpset7,
    AiOnnxOpset8,
    AiOnnxOpset9,
    AiOnnxOpset10,
    AiOnnxOpset11,
)
from tilestep.popart.former import METHODS, takes_former_names

defaultAiOnnxOpset: Final = DEFAULT_VERSION
defaultAiOnnxMlOpset: Final = 1
defaultAiGraphcoreOpset: Final = 1
_DEFAULTS: Final = {"ai.onnx": defaultAiOnnxOpset, "ai.graphcore": defaultAiGraphcoreOpset}


class Opset:
    """Operators of one version of a domain. Attributes: version: of the domain."""

    def __init__(self, builder: Builder, version: int, operators: Any) -> None:
        self._builder, self.version, self._operators = builder, version, operators

    def __getattr__(self, name: str) -> Any:
        """An operator's method. Raises: AttributeError if there is no such operator."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._operators, name)

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *dir(self._operators)})


class AiOnnx(Opset):
    """Operators of one version of ONNX."""

    def __str__(self) -> str:
        return f"AiOnnx{self.version}"


class AiOnnxMl(Opset):
    """Operators of ai.onnx.ml."""

    def __init__(self, builder: Builder, version: int) -> None:
        if version != defaultAiOnnxMlOpset:
            raise ValueError(f"Unsupported or unrecognized ai.OnnxMl version: {version}")
        super().__init__(builder, version, builder.aiOnnxMlOpset1)


class AiGraphcore(Opset):
    """Operators of ai.graphcore."""

    def __init__(self, builder: Builder, version: int) -> None:
        if version != defaultAiGraphcoreOpset:
            raise ValueError(f"Unsupported or unrecognized ai.graphcore version: {version}")
        super().__init__(builder, version, builder.aiGraphcoreOpset1)


class Builder:
    """Builds a model as a graph of operators.

    The first access to operators of ONNX decides the version for all: `aiOnnx` is version 10 unless another was decided before.

    Args:
        modelProtoOrFilename: a model to go on with, in bytes or the name of its file.
        opsets: versions of "ai.onnx" and "ai.graphcore"; both must be given.
        builderCore: the core of a subgraph's builder.

    Raises: KeyError if `opsets` lacks a domain; ValueError for a version that is not supported; popart_exception for what is no model.
    """

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: Mapping[str, int] | None = None,
        builderCore: _BuilderCore | None = None,
    ) -> None:
        self._impl = _BuilderCore(modelProtoOrFilename) if builderCore is None else builderCore
        versions = opsets or _DEFAULTS
        graphcore, onnx_version = versions["ai.graphcore"], versions["ai.onnx"]
        if onnx_version not in OPSETS:
            raise ValueError(f"Unsupported or unrecognized ai.Onnx version: {onnx_version}")
        self.aiGraphcore = AiGraphcore(self, graphcore)
        self.aiGraphcoreOpset1: AiGraphcore = self.__dict__["aiGraphcore"]
        self._onnx_version = onnx_version if opsets else None

    def _onnx(self, name: str) -> AiOnnx:
        if name == "aiOnnx":
            version = self._onnx_version or defaultAiOnnxOpset
        else:
            number = name.removeprefix("aiOnnxOpset")
            if not number.isdecimal() or int(number) not in OPSETS:
                raise AttributeError(f"'Builder' object has no attribute '{name}'")
            version = int(number)
        if self._onnx_version is None:
            self._onnx_version = version
        if version != self._onnx_version:
            raise RuntimeError(f"Invalid opset '{name}' selected. Opset for domain ai.onnx already defined as {self._onnx_version}")
        return AiOnnx(self, version, getattr(self._impl, f"aiOnnxOpset{version}"))

    def __getattr__(self, name: str) -> Any:
        """Operators of ONNX, and all that the core has.

        Raises: RuntimeError if another version of ONNX has been decided; AttributeError for an unknown name.
        """
        if name.startswith("aiOnnx") and not name.startswith("aiOnnxMl"):
            return self._onnx(name)
        if name == "_impl":
            raise AttributeError(name)
        return getattr(self._impl, METHODS.get(name, name))

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *dir(self._impl), "aiOnnx"})

    @takes_former_names
    def reshape_const(self, aiOnnx: AiOnnx, args: list[str], shape: Iterable[int], debugContext: str = "") -> str:
        """Reshapes the first of `args`. Args: aiOnnx: operators of ONNX, such as `builder.aiOnnx`. Returns: the id."""
        name = f"{debugContext}_const" if isinstance(debugContext, str) else debugContext
        new_shape = aiOnnx.constant(np.array(list(shape), np.int64), name)
        return aiOnnx.reshape([args[0], new_shape], debugContext)

    def createSubgraphBuilder(self) -> Builder:
        """A builder for a graph inside this one, which operators such as If, Loop and Call take."""
        return Builder(builderCore=self._impl._createSubgraphBuilder())  # the original's name


# What the original's stubs say; a runtime annotation, because it is read from there.
Builder.__getattr__.__annotations__["return"] = Union[  # noqa: UP007  # `|` has no __args__ for all of them
    _GraphcoreOpset1, AiOnnxOpset6, AiOnnxOpset7, AiOnnxOpset8, AiOnnxOpset9, AiOnnxOpset10, AiOnnxOpset11
]
