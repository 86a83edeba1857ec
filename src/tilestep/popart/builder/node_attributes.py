"""The parts of the builder's core that read and write attributes of nodes, which are named by their outputs, and tune single nodes."""

from __future__ import annotations

from typing import Any, Final

import onnx

from tilestep.popart.builder.graph import attribute_names as names
from tilestep.popart.builder.graph.model import AttributeValue, GraphModel, read
from tilestep.popart.builder.opsets.signatures import (
    BOOL,
    FLOAT,
    FLOATS,
    ID_SET,
    INT,
    INTS,
    STR,
    STRS,
    ArgumentKind,
    SignatureParameter,
    dict_of,
    overloaded,
)
from tilestep.popart.exceptions import popart_exception

_NAME: Final = SignatureParameter("attributeName", STR)
_OUTPUTS: Final = SignatureParameter("nodeOutputNames", ID_SET)
_ONE: Final = (_NAME, _OUTPUTS)
_Type: Final = onnx.AttributeProto


def _adding(kind: ArgumentKind) -> tuple[SignatureParameter, ...]:
    return (_NAME, SignatureParameter("attributeValue", kind), _OUTPUTS)


def _reader(name: str, kind: Any, wanted: str, returns: str) -> Any:
    """A method of that name. Args: kind: of the attributes that it reads. wanted: the kind in words. returns: the type of a value."""

    def run(self: NodeAttributes, attributeName: str, nodeOutputNames: frozenset[str]) -> Any:
        """The value of an attribute. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return self._read(attributeName, nodeOutputNames, kind, wanted)

    run.__name__, run.__qualname__ = name, f"NodeAttributes.{name}"
    return overloaded(_ONE, returns=returns)(run)


class NodeAttributes:
    """Attributes of nodes. A node is named by the set of all its outputs."""

    def __init__(self, model: GraphModel) -> None:
        self._model = model

    @overloaded(_adding(INT), _adding(INTS), _adding(FLOAT), _adding(FLOATS), _adding(STR), _adding(STRS))
    def addNodeAttribute(self, attributeName: str, attributeValue: AttributeValue, nodeOutputNames: frozenset[str]) -> None:
        """Adds an attribute. Raises: popart_exception if the node has one of the name, or there is no such node."""
        self._model.set_attribute(self._model.node_of(nodeOutputNames), attributeName, attributeValue)

    @overloaded(_ONE, returns="bool")
    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> bool:
        """Whether a node has an attribute."""
        return any(attribute.name == attributeName for attribute in self._model.node_of(nodeOutputNames).attribute)

    getInt64NodeAttribute = _reader("getInt64NodeAttribute", _Type.INT, "an integer", "int")
    getInt64VectorNodeAttribute = _reader("getInt64VectorNodeAttribute", _Type.INTS, "an integer vector", "List[int]")
    getFloatNodeAttribute = _reader("getFloatNodeAttribute", _Type.FLOAT, "a float", "float")
    getFloatVectorNodeAttribute = _reader("getFloatVectorNodeAttribute", _Type.FLOATS, "a float vector", "List[float]")
    getStringNodeAttribute = _reader("getStringNodeAttribute", _Type.STRING, "a string", "str")
    getStringVectorNodeAttribute = _reader("getStringVectorNodeAttribute", _Type.STRINGS, "a string vector", "List[str]")

    @overloaded(_ONE, returns="bool")
    def getBoolNodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> bool:
        """The value of an integer as a bool. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return bool(self._read(attributeName, nodeOutputNames, _Type.INT, "a int"))

    @overloaded(_ONE)
    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> None:
        """Removes an attribute. Raises: popart_exception if the node lacks it."""
        node = self._model.node_of(nodeOutputNames)
        for position, attribute in enumerate(node.attribute):
            if attribute.name == attributeName:
                del node.attribute[position]
                return
        raise popart_exception(f"Cannot remove attribute {attributeName} as it does not exist.")

    @overloaded((_OUTPUTS,), returns="List[str]")
    def getAllNodeAttributeNames(self, nodeOutputNames: frozenset[str]) -> list[str]:
        """Names of a node's attributes."""
        return [attribute.name for attribute in self._model.node_of(nodeOutputNames).attribute]

    def _read(self, name: str, outputs: frozenset[str], kind: Any, wanted: str) -> Any:
        for attribute in self._model.node_of(outputs).attribute:
            if attribute.name == name:
                return read(attribute, kind, wanted)
        raise popart_exception(f"Node does not have an attribute {name}.")


_OUTPUT: Final = SignatureParameter("nodeOutputName", STR)

_PROPORTION: Final = SignatureParameter("availableMemoryProportion", FLOAT)
_WITH_PARTIALS: Final = ("Conv", "MatMul")
_SERIALIZE_MODES: Final = ("input_channels", "reducing_dim", "output_channels", "none")


class Tuning(NodeAttributes):
    """Tuning of single nodes, which changes time and memory, and no values but by rounding."""

    @overloaded((_OUTPUT, _PROPORTION), (_OUTPUTS, _PROPORTION))
    def setAvailableMemoryProportion(
        self, availableMemoryProportion: float, nodeOutputName: str | None = None, nodeOutputNames: frozenset[str] = frozenset()
    ) -> None:
        """The part of a tile's memory that a node may use. A second call counts. Raises: popart_exception outside (0, 1]."""
        if not 0.0 < availableMemoryProportion <= 1.0:
            raise popart_exception("availableMemoryProportion must be in (0,1]")
        outputs = nodeOutputNames if nodeOutputName is None else frozenset({nodeOutputName})
        if self.nodeHasAttribute(names.AVAILABLE_MEMORY, outputs):
            self.removeNodeAttribute(names.AVAILABLE_MEMORY, outputs)
        self.addNodeAttribute(names.AVAILABLE_MEMORY, availableMemoryProportion, outputs)

    @overloaded((_OUTPUT, SignatureParameter("partialsType", STR)))
    def setPartialsType(self, nodeOutputName: str, partialsType: str) -> None:
        """The type of partial results, FLOAT or HALF. Raises: popart_exception for nodes other than convolutions and matrix products."""
        self._require(nodeOutputName, "setPartialsType", _WITH_PARTIALS, f"operators: {', '.join(_WITH_PARTIALS)};")
        self._set(names.PARTIALS_TYPE, partialsType, nodeOutputName)

    @overloaded((_OUTPUT,), returns="str")
    def getPartialsType(self, nodeOutputName: str) -> str:
        """The type of a node's partial results, FLOAT if none was set."""
        if not self.nodeHasAttribute(names.PARTIALS_TYPE, {nodeOutputName}):
            return "FLOAT"
        return self.getStringNodeAttribute(names.PARTIALS_TYPE, {nodeOutputName})

    @overloaded((_OUTPUT, SignatureParameter("enableConvDithering", INT)))
    def setEnableConvDithering(self, nodeOutputName: str, enableConvDithering: int) -> None:
        """Whether a convolution is laid out from another tile than others. Raises: popart_exception for other nodes, and beyond 0 and 1."""
        if enableConvDithering not in (0, 1):
            raise popart_exception("enableConvDithering must be a bool value")
        self._require(nodeOutputName, "setEnableConvDithering", ("Conv",), "convolutions")
        self._set(names.CONV_DITHERING, enableConvDithering, nodeOutputName)

    @overloaded(
        (
            SignatureParameter("nodeOutputName", ID_SET),
            SignatureParameter("mode", STR),
            SignatureParameter("factor", INT, 0),
            SignatureParameter("keep_precision", BOOL, False),
        )
    )
    def setSerializeMatMul(self, nodeOutputName: frozenset[str], mode: str, factor: int, keep_precision: bool) -> None:
        """Computes a matrix product in parts: mode input_channels, reducing_dim, output_channels or none.

        Raises: popart_exception for another mode.
        """
        if mode not in _SERIALIZE_MODES:
            shown = ", ".join(f"'{one}'" for one in _SERIALIZE_MODES[:-1])
            raise popart_exception(f"Unsupported mat mul serialization mode '{mode}'. Supported modes are {shown} or 'none'")
        if mode != "none":
            self.addNodeAttribute(names.SERIALIZE_MATMUL_MODE, mode, nodeOutputName)
            self.addNodeAttribute(names.SERIALIZE_MATMUL_FACTOR, factor, nodeOutputName)
            self.addNodeAttribute(names.SERIALIZE_MATMUL_PRECISION, int(keep_precision), nodeOutputName)

    @overloaded((_OUTPUT, SignatureParameter("patternNames", STRS)), (_OUTPUTS, SignatureParameter("patternNames", STRS)))
    def excludePatterns(
        self, patternNames: list[str], nodeOutputName: str | None = None, nodeOutputNames: frozenset[str] = frozenset()
    ) -> None:
        """Patterns that must not change a node."""
        self._set(names.EXCLUDE_PATTERNS, patternNames, nodeOutputNames if nodeOutputName is None else nodeOutputName)

    @overloaded((_OUTPUT, SignatureParameter("prefs", dict_of(FLOAT))))
    def setInplacePreferences(self, nodeOutputName: str, prefs: dict[str, float]) -> None:
        """Priorities of a node's in-place variants, by their names."""
        ordered = sorted(prefs)
        self._set(names.INPLACE_NAMES, ordered, nodeOutputName)
        self._set(names.INPLACE_PRIORITIES, [prefs[name] for name in ordered], nodeOutputName)

    def _set(self, name: str, value: Any, outputs: str | frozenset[str]) -> None:
        self._model.set_attribute(self._model.node_of([outputs] if isinstance(outputs, str) else outputs), name, value)

    def _require(self, output: str, method: str, wanted: tuple[str, ...], words: str) -> None:
        found = self._model.node_of([output]).op_type
        if found not in wanted:
            raise popart_exception(f"Builder::{method} should only be called on {words} but was given: {found}")
