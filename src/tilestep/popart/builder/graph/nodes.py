"""Adding operators: the checks, the node, and the types of its outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx

from tilestep.popart.builder.graph.attribute_names import DEBUG_INFO_ID
from tilestep.popart.builder.graph.inference import infer
from tilestep.popart.builder.graph.model import AttributeValue, GraphModel
from tilestep.popart.builder.graph.origins import note_origin
from tilestep.popart.diagnostics.debug import note
from tilestep.popart.diagnostics.log import Level, log, logged
from tilestep.popart.exceptions import popart_exception

_MOST_NODE_OUTPUTS: Final = 100_000  # each has a name and a type

BUILDER_LAYER = "popartbuilder"
Check = Callable[[GraphModel, Sequence[str], Mapping[str, AttributeValue]], None]


class Opset:
    """Operators of one version of a domain, which add nodes to a builder's graph. Attributes: version: of the domain."""

    version: int

    def __init__(self, model: GraphModel) -> None:
        self.model = model

    def getOpsetVersion(self) -> int:
        """The version of the domain."""
        return self.version


@dataclass(frozen=True, kw_only=True)
class BuilderOperator:
    """An operator of some domain.

    Attributes:
        name: as nodes have it, such as "MatMul".
        inputs: the least and the largest number of inputs; (0, 0) if there is no bound, -1 for no largest one.
        outputs: the number of outputs; 0 if the caller says it.
        may_lack: positions of inputs that may be "" although they are below the least number.
    """

    domain: str
    name: str
    inputs: tuple[int, int] = (0, 0)
    outputs: int = 0
    may_lack: tuple[int, ...] = ()


def add_operator(
    model: GraphModel,
    operator: BuilderOperator,
    opset: int,
    inputs: Sequence[str],
    attributes: Mapping[str, AttributeValue],
    *,
    name: str,
    outputs: int | None = None,
    check: Check | None = None,
) -> list[str]:
    """Adds a node to a graph.

    Args:
        opset: the version of the operator's domain.
        name: of the node; "" for none.
        outputs: how many; None for as many as the operator has.
        check: a further check of the arguments, before anything is changed but the outputs' names.

    Returns: the outputs' ids.
    Raises: popart_exception for wrong numbers of inputs or outputs, an unknown input, another version of the domain, or a negative size.
    """
    count = operator.outputs if outputs is None else outputs
    if 0 < operator.outputs < count:
        raise popart_exception(f"{operator.name} has an invalid number of outputs {count}. Must be between 0..{operator.outputs}")
    if outputs is not None and not 0 <= outputs <= _MOST_NODE_OUTPUTS:
        raise popart_exception(f"{operator.name} has an invalid number of outputs {outputs}. Must be between 0..{_MOST_NODE_OUTPUTS}")
    names = [model.new_id(operator.name, position) for position in range(count)]
    _check_inputs(model, operator, inputs)
    if check is not None:
        check(model, inputs, attributes)
    model.use_opset(operator.domain, opset)
    if logged("builder", Level.DEBUG):
        log(
            "builder",
            Level.DEBUG,
            f"Adding {operator.domain}.{operator.name} to builder opset:{opset}, numInputs:{len(inputs)} name:{name}",
        )
    node = model.proto.graph.node.add(op_type=operator.name, domain="" if operator.domain == "ai.onnx" else operator.domain)
    node.input.extend(inputs)
    node.output.extend(names)
    number = _debug_number(operator, name, inputs, names)
    note_origin(number, names)
    for key, value in sorted({**attributes, DEBUG_INFO_ID: number}.items()):
        model.set_attribute(node, key, value)
    if name or model.scope:
        node.name = model.scoped(name or operator.name)
    for key, value in model.attributes.items():
        model.set_attribute(node, key, value)
    model.note_node(node)
    _note_types(model, node, opset)
    return names


def _debug_number(operator: BuilderOperator, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> int:
    """Notes the node for the debug file. Returns: its number there."""
    return note(name, BUILDER_LAYER, {"category": "api", "api": operator.name.lower(), "inputs": list(inputs), "outputs": list(outputs)})


def _check_inputs(model: GraphModel, operator: BuilderOperator, inputs: Sequence[str]) -> None:
    least, most = operator.inputs
    if least > 0 and (len(inputs) < least or 0 < most < len(inputs)):
        bound = most if most > 0 else "inf"
        raise popart_exception(f"{operator.name} has invalid number of inputs {len(inputs)}. Must be between {least}..{bound}")
    for position, id in enumerate(inputs):
        if not id and (position >= least or position in operator.may_lack):
            continue
        if not model.may_read(id):
            known = ", ".join(sorted(model.readable()))
            raise popart_exception(
                f"Unknown tensor '{id}' ({f'valid tensors are {known}' if known else 'there are no valid tensors yet'})."
            )


def _note_types(model: GraphModel, node: onnx.NodeProto, opset: int) -> None:
    types = infer(model, node, opset)
    for id, type in zip(node.output, types, strict=True):
        if not id:
            continue
        model.add_type(id, type)
        sizes = () if type is None else type.tensor_type.shape.dim
        if any(size.dim_value < 0 for size in sizes):
            shape = f"[{' '.join(str(size.dim_value) for size in sizes)}]"
            raise popart_exception(
                f"Output '{id}' of node '{node.name or node.op_type}' has invalid shape, {shape}. Values must be non-negative in each "
                "shape dimension."
            )
