"""The part of the builder's core that adds tensors to a graph, and says what they are."""

from collections.abc import Callable
from typing import Final, TypeVar

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder.graph import attribute_names as names
from tilestep.popart.builder.graph.inference import type_proto
from tilestep.popart.builder.graph.model import GraphModel, tensor_of
from tilestep.popart.builder.graph.nodes import BUILDER_LAYER
from tilestep.popart.builder.opsets.signatures import ARRAY, DEBUG_CONTEXT, INT, INTS, STR, SignatureParameter, instance_of, overloaded
from tilestep.popart.builder.settings import note_input, note_variable
from tilestep.popart.diagnostics.debug import note
from tilestep.popart.enums import DataType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import InputSettings, TensorInfo, data_type_of_onnx, name_lcase, onnx_number
from tilestep.popart.variables import VariableSettings

_T = TypeVar("_T")
_INFO: Final = SignatureParameter("tensorInfo", instance_of(TensorInfo))
_TYPE: Final = SignatureParameter("dataType", STR)
_SHAPE: Final = SignatureParameter("shape", INTS)
_SETTINGS: Final = SignatureParameter("settings", instance_of(InputSettings))
_VALUES: Final = SignatureParameter("initVal", ARRAY)
_VARIABLE: Final = SignatureParameter("variableSettings", instance_of(VariableSettings))
_ID: Final = SignatureParameter("id", STR)


def _debug_number(id: str, method: str) -> int:
    return note(id, BUILDER_LAYER, {"category": "variable", "api": method, "tensorId": id})


class TensorsOfGraph:
    """Inputs, initialisers, outputs, and what is known of each tensor."""

    def __init__(self, model: GraphModel) -> None:
        self._model = model

    @overloaded(
        (_INFO, DEBUG_CONTEXT),
        (_TYPE, _SHAPE, DEBUG_CONTEXT),
        (_INFO, _SETTINGS, DEBUG_CONTEXT),
        (_TYPE, _SHAPE, _SETTINGS, DEBUG_CONTEXT),
        returns="str",
    )
    def addInputTensor(
        self,
        tensorInfo: TensorInfo | None = None,
        dataType: str = "",
        shape: list[int] | None = None,
        settings: InputSettings | None = None,
        debugContext: str = "",
    ) -> str:
        """Adds an input that the host streams.

        Returns: its id: the debug context, "input" if there is none.
        Raises: popart_exception for an unknown type.
        """
        info = TensorInfo(dataType, shape or []) if tensorInfo is None else tensorInfo
        id = self._model.new_id(debugContext or "input")
        self._model.add_input(id, type_proto(onnx_number(info.dataType()), tuple(info.shape())))
        self._model.note_metadata(names.DEBUG_INPUT + id, _debug_number(id, "addInputTensor"))
        note_input(self._model, id, InputSettings() if settings is None else settings)
        return id

    @overloaded((DEBUG_CONTEXT,), returns="str")
    def addUntypedInputTensor(self, debugContext: str) -> str:
        """Adds an input of a subgraph, whose type its caller decides. Raises: popart_exception in the main graph."""
        if self._model.parent is None:
            raise popart_exception("Can not add untyped tensors to the top-level graph. Use addInputTensor(tensorInfo) instead.")
        id = self._model.new_id(debugContext or "input")
        self._model.add_input(id)
        return id

    @overloaded((SignatureParameter("tensorId", STR),))
    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        """Makes a tensor of a graph around this one its input. Raises: popart_exception if no graph around has it."""
        if not self._model.is_around(tensorId):
            raise popart_exception(
                f"Failed to add unrecognised Tensor {tensorId} from higher scope, Currently, a Tensor must already exist in a higher "
                "(parent) scope to add it as an input in a lower scope."
            )
        self._model.add_input(tensorId)

    @overloaded((_VALUES, DEBUG_CONTEXT), (_VALUES, _VARIABLE, DEBUG_CONTEXT), returns="str")
    def addInitializedInputTensor(self, initVal: Array, variableSettings: VariableSettings | None = None, debugContext: str = "") -> str:
        """Adds a variable with its first values.

        Returns: its id: the debug context, "init_input" if there is none.
        Raises: popart_exception for an array of doubles, or of elements that have no type.
        """
        id = self._model.new_id(debugContext or "init_input")
        tensor = tensor_of(initVal, id)
        self._model.add_input(id, type_proto(tensor.data_type, initVal.shape))
        self._model.add_initializer(tensor)
        self._model.note_metadata(names.DEBUG_INPUT + id, _debug_number(id, "addInitializedInputTensor"))
        note_variable(self._model, id, VariableSettings() if variableSettings is None else variableSettings)
        return id

    @overloaded((SignatureParameter("outputName", STR),))
    def addOutputTensor(self, outputName: str) -> None:
        """Declares a tensor an output of the graph."""
        self._model.add_output(outputName)

    @overloaded((SignatureParameter("replicationFactor", INT),))
    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """Notes the number of replicas in the model."""
        self._model.note_metadata(names.REPLICATION_FACTOR, replicationFactor)

    def getInputTensorIds(self) -> list[str]:
        """Ids of inputs, variables among them, in the order in which they were added."""
        return [info.name for info in self._model.proto.graph.input]

    def getOutputTensorIds(self) -> list[str]:
        """Ids of outputs, in the order in which they were added."""
        return [info.name for info in self._model.proto.graph.output]

    def getValueTensorIds(self) -> list[str]:
        """Ids of what nodes give, in the order in which they were added."""
        return [info.name for info in self._model.proto.graph.value_info]

    def getTrainableTensorIds(self) -> list[str]:
        """Ids of variables, in the order in which they were added."""
        return [tensor.name for tensor in self._model.proto.graph.initializer]

    @overloaded((_ID,), returns="bool")
    def isInitializer(self, id: str) -> bool:
        """Whether a tensor is a variable."""
        return id in self._model.initializers

    @overloaded((_ID,), returns="bool")
    def hasValueInfo(self, id: str) -> bool:
        """Whether the graph has a tensor."""
        return self._model.own_info(id) is not None

    @overloaded((_ID,), returns="List[int]")
    def getTensorShape(self, id: str) -> list[int]:
        """The shape of a tensor. Raises: popart_exception if the graph has no such tensor, or its shape can't be known."""
        return self._known(id, "shape", self._model.shape_of)

    @overloaded((_ID,), returns="str")
    def getTensorDtypeString(self, id: str) -> str:
        """The type of a tensor as NumPy calls it. Raises: popart_exception if the graph has no such tensor, or its type can't be known."""
        return name_lcase(self.getTensorDataType(id))

    @overloaded((_ID,), returns="DataType")
    def getTensorDataType(self, id: str) -> DataType:
        """The type of a tensor. Raises: popart_exception if the graph has no such tensor, or its type can't be known."""
        return data_type_of_onnx(self._known(id, "type", self._model.type_of).tensor_type.elem_type)

    def _known(self, id: str, what: str, read: Callable[[str], _T | None]) -> _T:
        if self._model.own_info(id) is None:
            inputs, outputs, values = (
                " ".join(ids) for ids in (self.getInputTensorIds(), self.getOutputTensorIds(), self.getValueTensorIds())
            )
            raise popart_exception(f"{id} is not an known tensor. Must be one of (inputs:{inputs}) (outputs:{outputs}) (values:{values}).")
        found = read(id)
        if found is None:
            raise popart_exception(f"The {what} of tensor '{id}' is not known to the builder: {self._reason(id)}.")
        return found

    def _reason(self, id: str) -> str:
        node = self._model.maker_of(id)
        if node is None:
            return "the model does not state it"
        shapes = [(name, self._model.shape_of(name)) for name in node.input if name]
        inputs = ", ".join(f"'{name}' {'of unknown shape' if shape is None else shape}" for name, shape in shapes)
        return f"what its node gives can't be inferred, a {node.op_type} of {inputs or 'nothing'}"
