"""Which operators sessions compute, and which PopART this is."""

from __future__ import annotations

from tilestep.popart.operators import OperatorIdentifier, getSupportedOperations, getUnsupportedOperations
from tilestep.popart.versions import packageHash, versionNumber, versionString


def test_operators_of_onnx_and_graphcore_are_listed() -> None:
    found = getSupportedOperations(False)
    assert OperatorIdentifier("ai.onnx", "Constant", 11) in found
    assert OperatorIdentifier("ai.graphcore", "Gelu", 1) in found
    assert len({(one.domain, one.type, one.version) for one in found}) == len(found)
    assert max(one.version for one in found if one.domain == "ai.onnx") == 11


def test_no_operator_is_both_computed_and_not() -> None:
    supported = set(getSupportedOperations(True))
    for opset in range(6, 12):
        assert not supported & set(getUnsupportedOperations(opset))


def test_the_version_is_the_originals() -> None:
    assert versionString() == ".".join(map(str, versionNumber()))
    assert versionNumber()[0] == 3
    assert packageHash() == packageHash() != ""
