"""Which operators sessions compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from tilestep.onnx.coverage import coverage

_NEWEST_OPSET: Final = 11  # that the Builder writes
_GRAPHCORE: Final = "ai.graphcore"


@final
@dataclass(frozen=True)
class OperatorIdentifier:
    """One operator in one version. Args: domain, type, version: which it is."""

    domain: str
    type: str
    version: int


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """The operators that a session computes, in the versions that the Builder writes.

    Args: includeInternal: no effect: there are no others here.
    """
    del includeInternal
    from tilestep.popart import ops as _ops  # registers those of ai.graphcore  # noqa: F401  # pyright: ignore[reportUnusedImport]

    return [
        OperatorIdentifier(row.domain or "ai.onnx", row.name, version)
        for row in coverage()
        for version in row.covered
        if row.domain == _GRAPHCORE or version <= _NEWEST_OPSET
    ]


def getUnsupportedOperations(opsetVersion: int) -> list[OperatorIdentifier]:
    """The operators of an ONNX opset that a session does not compute. Args: opsetVersion: of domain ai.onnx."""
    return [
        OperatorIdentifier("ai.onnx", row.name, max(version for version in row.missing if version <= opsetVersion))
        for row in coverage()
        if not row.domain and any(version <= opsetVersion for version in row.missing)
    ]
