"""The part of the builder's core that reads and writes attributes of nodes, which are named by their outputs."""

from __future__ import annotations

from typing import Any, Final

import onnx

from tilestep.popart.builder.attributes import AttributeValue, read
from tilestep.popart.builder.bound import overloaded
from tilestep.popart.builder.kinds import FLOAT, FLOATS, ID_SET, INT, INTS, STR, STRS, Kind
from tilestep.popart.builder.model import GraphModel
from tilestep.popart.builder.signatures import Parameter
from tilestep.popart.exceptions import popart_exception

_NAME: Final = Parameter(name="attributeName", kind=STR)
_OUTPUTS: Final = Parameter(name="nodeOutputNames", kind=ID_SET)
_ONE: Final = (_NAME, _OUTPUTS)
_Type: Final = onnx.AttributeProto


def _adding(kind: Kind) -> tuple[Parameter, ...]:
    return (_NAME, Parameter(name="attributeValue", kind=kind), _OUTPUTS)


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

    @overloaded(_ONE, returns="int")
    def getInt64NodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> int:
        """The value of an attribute. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return self._read(attributeName, nodeOutputNames, _Type.INT, "an integer")

    @overloaded(_ONE, returns="List[int]")
    def getInt64VectorNodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> list[int]:
        """The value of an attribute. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return self._read(attributeName, nodeOutputNames, _Type.INTS, "an integer vector")

    @overloaded(_ONE, returns="float")
    def getFloatNodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> float:
        """The value of an attribute. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return self._read(attributeName, nodeOutputNames, _Type.FLOAT, "a float")

    @overloaded(_ONE, returns="List[float]")
    def getFloatVectorNodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> list[float]:
        """The value of an attribute. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return self._read(attributeName, nodeOutputNames, _Type.FLOATS, "a float vector")

    @overloaded(_ONE, returns="str")
    def getStringNodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> str:
        """The value of an attribute. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return self._read(attributeName, nodeOutputNames, _Type.STRING, "a string")

    @overloaded(_ONE, returns="List[str]")
    def getStringVectorNodeAttribute(self, attributeName: str, nodeOutputNames: frozenset[str]) -> list[str]:
        """The value of an attribute. Raises: popart_exception if the node lacks it, or it is of another kind."""
        return self._read(attributeName, nodeOutputNames, _Type.STRINGS, "a string vector")

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
