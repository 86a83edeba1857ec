"""Operators of ai.graphcore as methods, which add nodes to a builder's graph."""

from collections.abc import Sequence
from typing import Any, Final

from tilestep.popart.builder.graph.attribute_names import (
    AVAILABLE_MEMORY,
    COLLECTIVE_COMM_GROUP,
    COLLECTIVE_OPERATOR,
    CONV_DITHERING,
    PARTIALS_TYPE,
)
from tilestep.popart.builder.graph.model import GraphModel
from tilestep.popart.builder.graph.nodes import BuilderOperator, Opset, add_operator
from tilestep.popart.builder.opsets.graphcore_table import DEBUG_NAMES, DOMAIN, INIT_PARAMETERS, TABLE, Attributes, GraphcoreOperator
from tilestep.popart.builder.opsets.signatures import (
    DEBUG_CONTEXT,
    FLOAT,
    FLOATS,
    IDS,
    INT,
    INTS,
    STR,
    STRS,
    ArgumentKind,
    Mismatch,
    SignatureParameter,
    instance_of,
    list_of,
    optional,
    overloaded,
)
from tilestep.popart.builder.opsets.subgraphs import SUBGRAPH, called
from tilestep.popart.builder.opsets.windows import check_conv
from tilestep.popart.enums import CollectiveOperator
from tilestep.popart.exceptions import popart_exception

VERSION: Final = 1
_ACTIVATION_GRADIENT: Final = 0  # the original's number for the tensors that `init` makes
_ARGS: Final = SignatureParameter("args", IDS)
_MULTI_CONV_LISTS: Final = ("dilations", "inDilations", "pads", "outPads", "strides")
_MULTI_CONV_ITEMS: Final = ("availableMemoryProportions", "partialsTypes", "enableConvDithering")
_MULTI_CONV: Final = (
    SignatureParameter("args", list_of(IDS)),
    *(SignatureParameter(name, list_of(INTS), []) for name in _MULTI_CONV_LISTS),
    SignatureParameter("availableMemoryProportions", FLOATS, []),
    SignatureParameter("partialsTypes", STRS, []),
    SignatureParameter("planType", optional(STR), None),
    SignatureParameter("perConvReservedTiles", optional(INT), None),
    SignatureParameter("cycleBackOff", optional(FLOAT), None),
    SignatureParameter("enableConvDithering", INTS, []),
    DEBUG_CONTEXT,
)


def _comm_group(value: object) -> object:
    """A communication group, which has a type and a size."""
    if not (hasattr(value, "type") and hasattr(value, "replicaGroupSize")):
        raise Mismatch
    return value


_COLLECTIVE: Final = (
    _ARGS,
    SignatureParameter("collectiveOperator", optional(instance_of(CollectiveOperator)), None),
    SignatureParameter("commGroup", optional(ArgumentKind(label="CommGroup", convert=_comm_group)), None),
    DEBUG_CONTEXT,
)


def _either_debug(*parameters: SignatureParameter) -> tuple[tuple[SignatureParameter, ...], ...]:
    """Two overloads: the original's Python layer calls the debug context debugName."""
    return (*parameters, DEBUG_CONTEXT), (*parameters, SignatureParameter("debugName", DEBUG_CONTEXT.kind, ""))


class AiGraphcoreOpset1(Opset):
    """Operators of ai.graphcore's version 1. Attributes: version: of the domain."""

    version = VERSION

    def add(
        self, operator: BuilderOperator, args: Sequence[str], attributes: Attributes, name: str, outputs: int | None = None
    ) -> list[str]:
        """Adds a node of the domain. Returns: ids of its outputs. Raises: popart_exception as `add_operator` does."""
        return add_operator(self.model, operator, VERSION, args, attributes, name=name, outputs=outputs)

    @overloaded(_MULTI_CONV, returns="List[str]")
    def multiconv(self, **values: Any) -> list[str]:
        """Several convolutions at once: data, weights[, bias] of each."""
        # Attributes are flat lists; each convolution has three inputs, with "" for a bias that it lacks.
        convs: list[list[str]] = values["args"]
        name = values["debugContext"]
        if not convs:
            raise popart_exception(f"MultiConvOp '{name}' has no input tensors. Provide at least one set of inputs")
        for inputs in convs:
            if len(inputs) < 2:
                raise popart_exception(f"Each convolution of MultiConvOp '{name}' must have at least two inputs - data and weights")
            if len(inputs) > 3:
                raise popart_exception(f"Each convolution of MultiConvOp '{name}' can have at most three inputs - data, weights, and bias")
        for parameter in (*_MULTI_CONV_LISTS, *_MULTI_CONV_ITEMS):
            if values[parameter] and len(values[parameter]) != len(convs):
                raise popart_exception(
                    f"For MultiConvOp '{name}', number of {parameter} parameter sets ({len(values[parameter])}) "
                    f"does not match the number of input sets ({len(convs)})"
                )
        for number, inputs in enumerate(convs):
            check_conv(self.model, inputs, {key: values[key][number] if values[key] else [] for key in _MULTI_CONV_LISTS})
        attributes: Attributes = {key: flat for key in _MULTI_CONV_LISTS if (flat := [one for part in values[key] for one in part])}
        attributes |= {key: values[key] for key in ("planType", "perConvReservedTiles", "cycleBackOff") if values[key] is not None}
        for key, attribute in zip(_MULTI_CONV_ITEMS, (AVAILABLE_MEMORY, PARTIALS_TYPE, CONV_DITHERING), strict=True):
            if values[key]:
                attributes[attribute] = values[key]
        attributes["numConvs"] = len(convs)
        flat_inputs = [id for inputs in convs for id in (*inputs, *[""] * (3 - len(inputs)))]
        return self.add(BuilderOperator(domain=DOMAIN, name="MultiConv"), flat_inputs, attributes, name, len(convs))

    @overloaded((*INIT_PARAMETERS, SignatureParameter("batch_axis", INT), DEBUG_CONTEXT), (*INIT_PARAMETERS, DEBUG_CONTEXT), returns="str")
    def init(self, debugContext: str, batch_axis: int = -1, **attributes: Any) -> str:
        """A tensor of zeros (InitType.Zero), or of anything (NoInit)."""
        attributes |= {"tensor_type": _ACTIVATION_GRADIENT, "batch_axis": batch_axis}
        return self.add(BuilderOperator(domain=DOMAIN, name="Init", outputs=1), [], attributes, debugContext)[0]

    @overloaded(*_either_debug(_ARGS, SignatureParameter("num_outputs", INT), SignatureParameter("callee", SUBGRAPH)), returns="List[str]")
    def call(self, args: list[str], num_outputs: int, callee: GraphModel, debugContext: str = "", debugName: str = "") -> list[str]:
        """Runs a subgraph with `args` as its inputs."""
        graph, name = called(self.model, callee), debugContext or debugName
        for given, own, what in ((len(args), len(graph.input), "input"), (num_outputs, len(graph.output), "output")):
            if given != own:
                raise popart_exception(
                    f"For CallOp '{name}', number of {what}s ({given}) does not match that of the callee subgraph ({own})"
                )
        attributes: Attributes = {"num_outputs": num_outputs, "callee": graph}
        return self.add(BuilderOperator(domain=DOMAIN, name="Call"), args, attributes, name, num_outputs)

    @overloaded(
        *_either_debug(
            _ARGS,
            SignatureParameter("maxSequenceLengths", INTS),
            SignatureParameter("resultSize", INT),
            SignatureParameter("callbackBatchSize", INT),
            SignatureParameter("callback", SUBGRAPH),
        ),
        returns="str",
    )
    def packedDataBlock(self, args: list[str], callback: GraphModel, debugContext: str = "", debugName: str = "", **sizes: Any) -> str:
        """Runs a subgraph on batches of packed sequences."""
        attributes: Attributes = {**sizes, "callback": called(self.model, callback)}
        operator = BuilderOperator(domain=DOMAIN, name="PackedDataBlock", outputs=1)
        return self.add(operator, args, attributes, debugContext or debugName)[0]

    @overloaded(_COLLECTIVE, returns="str")
    def replicatedallreduce(self, **values: Any) -> str:
        """Reduces over replicas."""
        return self._collective("ReplicatedAllReduce", (1, 1), **values)

    @overloaded(_COLLECTIVE, returns="str")
    def replicatedreducescatter(self, **values: Any) -> str:
        """Reduces over replicas, each of which keeps its part."""
        return self._collective("ReplicatedReduceScatter", (1, 2), **values)

    def _collective(
        self, op_type: str, inputs: tuple[int, int], args: list[str], collectiveOperator: Any, commGroup: Any, **debug: str
    ) -> str:
        attributes: Attributes = {}
        if collectiveOperator is not None:
            attributes[COLLECTIVE_OPERATOR] = int(collectiveOperator)
        if commGroup is not None:
            attributes[COLLECTIVE_COMM_GROUP] = [int(commGroup.type), int(commGroup.replicaGroupSize)]
        operator = BuilderOperator(domain=DOMAIN, name=op_type, inputs=inputs, outputs=1)
        return self.add(operator, args, attributes, debug["debugContext"])[0]


def _table_method(entry: GraphcoreOperator) -> Any:
    own = {parameter.name for parameter in entry.parameters}
    debug = next(name for name in DEBUG_NAMES if any(one.name == name for one in entry.all_parameters()))
    many = (entry.outputs > 1 or entry.varies) and entry.name != "ctcloss"
    bounds = (entry.inputs, entry.inputs) if isinstance(entry.inputs, int) else entry.inputs
    operator = BuilderOperator(domain=DOMAIN, name=entry.op_type, inputs=bounds, outputs=entry.outputs)

    def run(self: AiGraphcoreOpset1, **values: Any) -> Any:
        given = values["args"]
        attributes = entry.attributes({name: value for name, value in values.items() if name in own})
        ids = self.add(operator, [given] if isinstance(given, str) else given, attributes, values[debug], values.get("num_outputs"))
        return None if not entry.outputs else ids if many else ids[0]

    returns = "None" if not entry.outputs else "List[str]" if many else "str"
    return overloaded(entry.all_parameters(), returns=returns, name=entry.name, owner="AiGraphcoreOpset1", doc=entry.doc)(run)


for _each in TABLE:
    setattr(AiGraphcoreOpset1, _each.name, _table_method(_each))
