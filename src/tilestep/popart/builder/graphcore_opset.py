"""Operators of ai.graphcore as methods, which add nodes to a builder's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tilestep.popart.builder.attribute_names import (
    AVAILABLE_MEMORY,
    COLLECTIVE_COMM_GROUP,
    COLLECTIVE_OPERATOR,
    CONV_DITHERING,
    PARTIALS_TYPE,
)
from tilestep.popart.builder.graphcore_table import DOMAIN, INIT_PARAMETERS, TABLE, Attributes, GraphcoreOperator
from tilestep.popart.builder.model import GraphModel
from tilestep.popart.builder.nodes import BuilderOperator, add_operator
from tilestep.popart.builder.signatures import (
    DEBUG_CONTEXT,
    FLOAT,
    FLOATS,
    IDS,
    INT,
    INTS,
    STR,
    STRS,
    Mismatch,
    Overload,
    SignatureParameter,
    ValueKind,
    instance_of,
    list_of,
    method,
    optional,
)
from tilestep.popart.builder.subgraphs import SUBGRAPH, called
from tilestep.popart.builder.windows import check_conv
from tilestep.popart.enums import CollectiveOperator
from tilestep.popart.exceptions import popart_exception

VERSION: Final = 1
_ACTIVATION_GRADIENT: Final = 0  # the original's number for the tensors that `init` makes


class GraphcoreOpset:
    """Operators of ai.graphcore's version 1. Attributes: version: of the domain."""

    version = VERSION

    def __init__(self, model: GraphModel) -> None:
        self.model = model

    def getOpsetVersion(self) -> int:
        """The version of the domain."""
        return self.version

    def add(
        self, operator: BuilderOperator, args: Sequence[str], attributes: Attributes, name: str, outputs: int | None = None
    ) -> list[str]:
        """Adds a node of the domain. Returns: ids of its outputs. Raises: popart_exception as `add_operator` does."""
        return add_operator(self.model, operator, VERSION, args, attributes, name=name, outputs=outputs)


_MULTI_CONV_LISTS: Final = ("dilations", "inDilations", "pads", "outPads", "strides")
_MULTI_CONV_ITEMS: Final = ("availableMemoryProportions", "partialsTypes", "enableConvDithering")


def _multi_conv(self: GraphcoreOpset, position: int, values: dict[str, Any]) -> list[str]:
    """Attributes are flat lists; each convolution has three inputs, with "" for a bias that it lacks."""
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


def _init(self: GraphcoreOpset, position: int, values: dict[str, Any]) -> str:
    attributes: Attributes = {key: values[key] for key in ("shape", "data_type", "init_type")}
    attributes |= {"tensor_type": _ACTIVATION_GRADIENT, "batch_axis": values.get("batch_axis", -1)}
    return self.add(BuilderOperator(domain=DOMAIN, name="Init", outputs=1), [], attributes, values["debugContext"])[0]


def _call(self: GraphcoreOpset, position: int, values: dict[str, Any]) -> list[str]:
    callee: GraphModel = values["callee"]
    graph = called(self.model, callee)
    for given, own, what in ((len(values["args"]), len(graph.input), "input"), (values["num_outputs"], len(graph.output), "output")):
        if given != own:
            raise popart_exception(
                f"For CallOp '{_debug_of(values)}', number of {what}s ({given}) does not match that of the callee subgraph ({own})"
            )
    attributes: Attributes = {"num_outputs": values["num_outputs"], "callee": graph}
    return self.add(BuilderOperator(domain=DOMAIN, name="Call"), values["args"], attributes, _debug_of(values), values["num_outputs"])


def _packed_data_block(self: GraphcoreOpset, position: int, values: dict[str, Any]) -> str:
    attributes: Attributes = {key: values[key] for key in ("resultSize", "callbackBatchSize", "maxSequenceLengths")}
    attributes["callback"] = called(self.model, values["callback"])
    return self.add(BuilderOperator(domain=DOMAIN, name="PackedDataBlock", outputs=1), values["args"], attributes, _debug_of(values))[0]


def _collective(op_type: str, inputs: tuple[int, int]) -> Callable[[GraphcoreOpset, int, dict[str, Any]], str]:
    operator = BuilderOperator(domain=DOMAIN, name=op_type, inputs=inputs, outputs=1)

    def run(self: GraphcoreOpset, position: int, values: dict[str, Any]) -> str:
        attributes: Attributes = {}
        if values["collectiveOperator"] is not None:
            attributes[COLLECTIVE_OPERATOR] = int(values["collectiveOperator"])
        if values["commGroup"] is not None:
            attributes[COLLECTIVE_COMM_GROUP] = [int(values["commGroup"].type), int(values["commGroup"].replicaGroupSize)]
        return self.add(operator, values["args"], attributes, values["debugContext"])[0]

    return run


def _table_method(entry: GraphcoreOperator) -> Any:
    own = {parameter.name for parameter in entry.parameters}
    debug = next(
        name for name in ("debugContext", "debug_context", "debugPrefix") if any(one.name == name for one in entry.all_parameters())
    )

    def run(self: GraphcoreOpset, position: int, values: dict[str, Any]) -> Any:
        given = values["args"]
        args = [given] if isinstance(given, str) else given
        attributes = entry.attributes({name: value for name, value in values.items() if name in own})
        ids = self.add(entry.operator, args, attributes, values[debug], values.get("num_outputs"))
        if entry.operator.outputs == 0:
            return None
        return ids if entry.many and entry.name != "ctcloss" else ids[0]

    returns = "None" if entry.operator.outputs == 0 else "List[str]" if entry.many and entry.name != "ctcloss" else "str"
    overload = Overload(parameters=entry.all_parameters(), returns=returns)
    return method(entry.name, [overload], entry.doc, run, owner="AiGraphcoreOpset1")


def _comm_group(value: object) -> object:
    """A communication group, which has a type and a size."""
    if not (hasattr(value, "type") and hasattr(value, "replicaGroupSize")):
        raise Mismatch
    return value


_COMM_GROUP: Final = ValueKind(label="CommGroup", convert=_comm_group)


_WITH_DEBUG_NAME: Final = frozenset({"call", "packedDataBlock"})  # the original's Python layer calls their debug context so
_DEBUG_NAME: Final = SignatureParameter(name="debugName", kind=DEBUG_CONTEXT.kind, default="")


def _debug_of(values: dict[str, Any]) -> str:
    return values.get("debugContext") or values.get("debugName", "")


def _special_methods() -> dict[str, Any]:
    def one(
        name: str,
        overloads: Sequence[tuple[SignatureParameter, ...]],
        doc: str,
        run: Callable[[Any, int, dict[str, Any]], Any],
        returns: str,
    ) -> Any:
        debug = (DEBUG_CONTEXT, _DEBUG_NAME) if name in _WITH_DEBUG_NAME else (DEBUG_CONTEXT,)
        made = [Overload(parameters=(*parameters, last), returns=returns) for parameters in overloads for last in debug]
        return method(name, made, doc, run, owner="AiGraphcoreOpset1")

    args = SignatureParameter(name="args", kind=IDS)
    lists = list_of(INTS)
    collective = (
        args,
        SignatureParameter(name="collectiveOperator", kind=optional(instance_of(CollectiveOperator)), default=None),
        SignatureParameter(name="commGroup", kind=optional(_COMM_GROUP), default=None),
    )
    multi_conv = (
        SignatureParameter(name="args", kind=list_of(IDS)),
        *(SignatureParameter(name=name, kind=lists, default=[]) for name in _MULTI_CONV_LISTS),
        SignatureParameter(name="availableMemoryProportions", kind=FLOATS, default=[]),
        SignatureParameter(name="partialsTypes", kind=STRS, default=[]),
        SignatureParameter(name="planType", kind=optional(STR), default=None),
        SignatureParameter(name="perConvReservedTiles", kind=optional(INT), default=None),
        SignatureParameter(name="cycleBackOff", kind=optional(FLOAT), default=None),
        SignatureParameter(name="enableConvDithering", kind=INTS, default=[]),
    )
    packed = (
        args,
        SignatureParameter(name="maxSequenceLengths", kind=INTS),
        SignatureParameter(name="resultSize", kind=INT),
        SignatureParameter(name="callbackBatchSize", kind=INT),
        SignatureParameter(name="callback", kind=SUBGRAPH),
    )
    call = (args, SignatureParameter(name="num_outputs", kind=INT), SignatureParameter(name="callee", kind=SUBGRAPH))
    init = [(*INIT_PARAMETERS, SignatureParameter(name="batch_axis", kind=INT)), INIT_PARAMETERS]
    return {
        "call": one("call", [call], "Runs a subgraph with `args` as its inputs.", _call, "List[str]"),
        "init": one("init", init, "A tensor of zeros (InitType.Zero), or of anything (NoInit).", _init, "str"),
        "multiconv": one(
            "multiconv", [multi_conv], "Several convolutions at once: data, weights[, bias] of each.", _multi_conv, "List[str]"
        ),
        "packedDataBlock": one("packedDataBlock", [packed], "Runs a subgraph on batches of packed sequences.", _packed_data_block, "str"),
        "replicatedallreduce": one(
            "replicatedallreduce", [collective], "Reduces over replicas.", _collective("ReplicatedAllReduce", (1, 1)), "str"
        ),
        "replicatedreducescatter": one(
            "replicatedreducescatter",
            [collective],
            "Reduces over replicas, each of which keeps its part.",
            _collective("ReplicatedReduceScatter", (1, 2)),
            "str",
        ),
    }


_methods: Final[dict[str, Any]] = {**{entry.name: _table_method(entry) for entry in TABLE}, **_special_methods()}
AiGraphcoreOpset1 = type("AiGraphcoreOpset1", (GraphcoreOpset,), {**_methods, "__doc__": GraphcoreOpset.__doc__})
METHODS: Final = tuple(sorted(_methods))
