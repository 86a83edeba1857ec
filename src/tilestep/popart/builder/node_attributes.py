"""The part of the builder's core that reads and writes attributes of nodes, which are named by their outputs."""

from __future__ import annotations

from typing import Any, Final

import onnx

from tilestep.popart.builder.attributes import AttributeValue, read
from tilestep.popart.builder.kinds import FLOAT, FLOATS, ID_SET, INT, INTS, STR, STRS, Kind
from tilestep.popart.builder.model import GraphModel
from tilestep.popart.builder.signatures import Parameter, overloaded
from tilestep.popart.exceptions import popart_exception

_NAME: Final = Parameter(name="attributeName", kind=STR)
_OUTPUTS: Final = Parameter(name="nodeOutputNames", kind=ID_SET)
_ONE: Final = (_NAME, _OUTPUTS)
_Type: Final = onnx.AttributeProto


def _adding(kind: Kind) -> tuple[Parameter, ...]:
    return (_NAME, Parameter(name="attributeValue", kind=kind), _OUTPUTS)


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
