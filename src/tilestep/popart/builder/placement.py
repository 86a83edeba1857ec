"""The part of the builder's core that says where nodes run, and what is kept of them: as calls, and as context managers."""

from collections.abc import Mapping
from typing import Any, Final, cast

from tilestep.popart.builder.graph import attribute_names as names
from tilestep.popart.builder.graph.model import AttributeValue, GraphModel
from tilestep.popart.builder.graph.nodes import BuilderOperator, add_operator
from tilestep.popart.builder.node_attributes import NodeAttributes
from tilestep.popart.builder.opsets.onnx_opsets import DEFAULT_VERSION
from tilestep.popart.builder.opsets.signatures import (
    FLOAT,
    ID_SET,
    IDS,
    INT,
    INT64,
    STR,
    ArgumentKind,
    Mismatch,
    SignatureParameter,
    instance_of,
    member_number,
    overloaded,
)
from tilestep.popart.enums import CommGroupType, RecomputeType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import TensorLocation


class AttributeContextManager:
    """Gives nodes an attribute. Inside another one for the same attribute this one counts."""

    def __init__(self, model: GraphModel, name: str, value: AttributeValue) -> None:
        self._model, self._name, self._value = model, name, value
        self._before: list[AttributeValue | None] = []

    def __enter__(self) -> None:
        self._before.append(self._model.attributes.get(self._name))
        self._model.attributes[self._name] = self._value

    def __exit__(self, *exception: object) -> None:
        before = self._before.pop()
        if before is None:
            self._model.attributes.pop(self._name, None)
        else:
            self._model.attributes[self._name] = before


class KeyValueContextManager:
    """Gives nodes an attribute of keys and values, in one list. Keys of a context around it stay; where both have one, its value counts."""

    def __init__(self, model: GraphModel, name: str, values: Mapping[str, str]) -> None:
        self._model, self._name, self._values = model, name, dict(values)
        self._open: list[AttributeContextManager] = []

    def __enter__(self) -> None:
        before = cast("list[str]", self._model.attributes.get(self._name, []))
        merged = {**self._values, **dict(zip(before[::2], before[1::2], strict=True))}
        texts = [text for key in sorted(merged) for text in (key, merged[key])]
        self._open.append(AttributeContextManager(self._model, self._name, texts))
        self._open[-1].__enter__()

    def __exit__(self, *exception: object) -> None:
        self._open.pop().__exit__(*exception)


class NameContextManager:
    """Puts a name before the names of tensors and nodes."""

    def __init__(self, model: GraphModel, name: str) -> None:
        self._model, self._name = model, name

    def __enter__(self) -> None:
        self._model.scope.append(self._name)

    def __exit__(self, *exception: object) -> None:
        self._model.scope.pop()


_IDENTITY: Final = BuilderOperator(domain="ai.onnx", name="Identity", inputs=(1, 1), outputs=1)
_CHECKPOINT_EXCLUDES: Final = ("PreUniRepl", "PostNRepl")  # patterns that would take the identity away


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Mismatch
    return {str(key): str(one) for key, one in value.items()}


def _outputs(kind: ArgumentKind, name: str = "nodeOutputNames") -> SignatureParameter:
    return SignatureParameter(name, kind)


def _value(default: Any = 0, kind: ArgumentKind = INT64) -> SignatureParameter:
    return SignatureParameter("value", kind, default)


_RECOMPUTE: Final = instance_of(RecomputeType)
_LOCATION: Final = instance_of(TensorLocation)
_NUMBER: Final = SignatureParameter("value", INT64)
_Names = str | list[str] | frozenset[str]


class Placement(NodeAttributes):
    """Where nodes run. Calls that get no outputs give a context manager, whose attribute all nodes inside it get."""

    def _place(self, name: str, value: AttributeValue, outputs: _Names | None) -> AttributeContextManager | None:
        if outputs is None:
            return AttributeContextManager(self._model, name, value)
        self._model.set_attribute(self._model.node_of([outputs] if isinstance(outputs, str) else outputs), name, value)
        return None

    def _scope_number(self, name: str, what: str) -> int:
        value = self._model.attributes.get(name)
        if not isinstance(value, int):
            raise popart_exception(f"{what} not set in current scope.")
        return value

    @overloaded((_outputs(STR), _value()), (_outputs(ID_SET), _value()), (_outputs(IDS), _value()), (_NUMBER,))
    def virtualGraph(self, value: int, nodeOutputNames: _Names | None = None) -> AttributeContextManager | None:
        """The IPU that nodes run on."""
        return self._place(names.VIRTUAL_GRAPH, value, nodeOutputNames)

    @overloaded((), (_outputs(STR),), (_outputs(ID_SET),), (_outputs(IDS),), returns="int")
    def getVirtualGraph(self, nodeOutputNames: _Names | None = None) -> int:
        """The IPU of a node, or of the context. Raises: popart_exception if none was set."""
        if nodeOutputNames is None:
            return self._scope_number(names.VIRTUAL_GRAPH, "Virtual graph")
        outputs = [nodeOutputNames] if isinstance(nodeOutputNames, str) else nodeOutputNames
        return self.getInt64NodeAttribute(names.VIRTUAL_GRAPH, set(outputs))

    def hasVirtualGraph(self) -> bool:
        """Whether a context sets the IPU."""
        return names.VIRTUAL_GRAPH in self._model.attributes

    @overloaded((_outputs(STR), _value()), (_outputs(ID_SET), _value()), (_NUMBER,))
    def pipelineStage(self, value: int, nodeOutputNames: _Names | None = None) -> AttributeContextManager | None:
        """The pipeline stage that nodes belong to."""
        return self._place(names.PIPELINE_STAGE, value, nodeOutputNames)

    def getPipelineStage(self) -> int:
        """The pipeline stage of the context. Raises: popart_exception if none sets it."""
        return self._scope_number(names.PIPELINE_STAGE, "Pipeline stage")

    def hasPipelineStage(self) -> bool:
        """Whether a context sets the pipeline stage."""
        return names.PIPELINE_STAGE in self._model.attributes

    @overloaded((_outputs(STR), _value()), (_outputs(ID_SET), _value()), (_value(),))
    def executionPhase(self, value: int, nodeOutputNames: _Names | None = None) -> AttributeContextManager | None:
        """The execution phase that nodes belong to."""
        return self._place(names.EXECUTION_PHASE, value, nodeOutputNames)

    def getExecutionPhase(self) -> int:
        """The execution phase of the context. Raises: popart_exception if none sets it."""
        return self._scope_number(names.EXECUTION_PHASE, "Execution phase")

    def hasExecutionPhase(self) -> bool:
        """Whether a context sets the execution phase."""
        return names.EXECUTION_PHASE in self._model.attributes

    @overloaded((_outputs(STR), _value(RecomputeType.Undefined, _RECOMPUTE)), (_value(RecomputeType.Undefined, _RECOMPUTE),))
    def recomputeOutput(self, value: RecomputeType, nodeOutputNames: str | None = None) -> AttributeContextManager | None:
        """Whether what nodes give is computed again for the backward pass, or kept."""
        return self._place(names.RECOMPUTE_OUTPUT, value.value, nodeOutputNames)

    @overloaded(
        (_outputs(STR, "nodeOutputName"), _value(RecomputeType.Recompute, _RECOMPUTE)),
        (_outputs(ID_SET), _value(RecomputeType.Recompute, _RECOMPUTE)),
    )
    def recomputeOutputInBackwardPass(
        self, value: RecomputeType, nodeOutputName: str | None = None, nodeOutputNames: frozenset[str] = frozenset()
    ) -> None:
        """Whether what a node gives is computed again for the backward pass, or kept."""
        self._place(names.RECOMPUTE_OUTPUT, value.value, nodeOutputNames if nodeOutputName is None else nodeOutputName)

    @overloaded((_outputs(STR, "nodeOutputName"),), (_outputs(ID_SET),), returns="bool")
    def getRecomputeOutputInBackwardPass(self, nodeOutputName: str | None = None, nodeOutputNames: frozenset[str] = frozenset()) -> bool:
        """Whether a node has a recomputation set. Raises: popart_exception if nothing was set for it."""
        return self.getBoolNodeAttribute(names.RECOMPUTE_OUTPUT, set(nodeOutputNames if nodeOutputName is None else [nodeOutputName]))

    @overloaded((_outputs(IDS),), returns="List[str]")
    def checkpointOutput(self, nodeOutputNames: list[str]) -> list[str]:
        """Keeps tensors for the backward pass. Returns: ids of copies, which nodes after it must read in place of the tensors."""
        copies: list[str] = []
        version = self._model.opsets.get("ai.onnx", DEFAULT_VERSION)
        for id in nodeOutputNames:
            copy = add_operator(self._model, _IDENTITY, version, [id], {}, name="Checkpoint")[0]
            self._place(names.RECOMPUTE_OUTPUT, RecomputeType.Checkpoint.value, copy)
            self._place(names.EXCLUDE_PATTERNS, list(_CHECKPOINT_EXCLUDES), copy)
            copies.append(copy)
        return copies

    @overloaded((_outputs(STR), _value(TensorLocation(), _LOCATION)), (_value(TensorLocation(), _LOCATION),))
    def outputTensorLocation(self, value: TensorLocation, nodeOutputNames: str | None = None) -> AttributeContextManager | None:
        """Where what nodes give is kept."""
        return self._place(names.OUTPUT_TENSOR_LOCATION, value.serialize(), nodeOutputNames)

    @overloaded((SignatureParameter("value", FLOAT),))
    def schedulePriority(self, value: float) -> AttributeContextManager | None:
        """The priority of nodes for the scheduler; the larger, the earlier."""
        return self._place(names.SCHEDULE_PRIORITY, value, None)

    @overloaded(
        (
            SignatureParameter("type", member_number(CommGroupType), 0),
            SignatureParameter("groupSize", INT, 0),
        )
    )
    def commGroup(self, type: int, groupSize: int) -> AttributeContextManager | None:
        """The group of replicas of collective operations."""
        return self._place(names.COLLECTIVE_COMM_GROUP, [type, groupSize], None)

    @overloaded((SignatureParameter("attributes", ArgumentKind(label="Dict[str, str]", convert=_texts)),))
    def outlineAttributes(self, attributes: dict[str, str]) -> KeyValueContextManager:
        """Keys and values that keep nodes apart when equal parts of the graph are outlined."""
        return KeyValueContextManager(self._model, names.OUTLINE, attributes)

    @overloaded((SignatureParameter("name", STR),))
    def nameScope(self, name: str) -> NameContextManager:
        """A name before the names of tensors and nodes inside the context."""
        return NameContextManager(self._model, name)

    @overloaded((SignatureParameter("name", STR, ""),), returns="str")
    def getNameScope(self, name: str) -> str:
        """The name with the open name scopes before it."""
        return self._model.scoped(name)
