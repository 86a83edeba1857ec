"""Where a model's operators run: what the builder's attributes say of each node, and the stages that placed operators make."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import onnx

from tilestep.onnx.interpreter.graph import Graph, Node, reads
from tilestep.popart.builder.graph import attribute_names as names
from tilestep.popart.session.model.analysis import Analysis
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.model.scaling import WIDE
from tilestep.popart.session.model.stages import SessionStage

_NOWHERE: Final = -1
_READ: Final = {names.VIRTUAL_GRAPH: "ipu", names.PIPELINE_STAGE: "stage", names.EXECUTION_PHASE: "phase"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an operator is to run; None where nothing says it.

    Attributes: ipu, stage, phase: numbers of the virtual graph, the pipeline stage and the execution phase.
    """

    ipu: int | None = None
    stage: int | None = None
    phase: int | None = None


@dataclass(frozen=True, kw_only=True)
class Inner:
    """An operator of a graph inside of another operator.

    Attributes:
        name: in words.
        graph: name of its graph.
    """

    name: str
    graph: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class PlacedOperator:
    """An operator that a device runs.

    Attributes:
        position: among the graph's nodes.
        place: as the model says it.
        added: whether it stands in no model: the session made it.
        inner: operators of graphs inside of it.
    """

    position: int
    node: Node
    place: Place
    added: bool = False
    inner: tuple[Inner, ...] = ()

    @property
    def name(self) -> str:
        """In words."""
        return named(self.node.proto, self.node.version)

    @property
    def reads(self) -> tuple[str, ...]:
        """Tensors that it reads, those that graphs inside of it read included."""
        return tuple(dict.fromkeys(reads(self.node)))


@dataclass(frozen=True, kw_only=True)
class PlacedModel:
    """A model with the operators that a device runs.

    Attributes:
        constant: variables that nothing changes.
        loss: the tensor that is differentiated; None in inference.
    """

    graph: SessionGraph
    analysis: Analysis
    operators: Sequence[PlacedOperator]
    constant: frozenset[str]
    loss: str | None


def operators_of(graph: SessionGraph, analysis: Analysis, *, constant: frozenset[str]) -> list[PlacedOperator]:
    """The operators that a device runs, in the graph's order: those whose results are not known before.

    Args: constant: variables that do not change, so that what is made of them alone is known, too.
    """
    protos = {name: node for node in graph.proto.graph.node for name in node.output if name}
    fixed = {*analysis.values, *constant}
    found: list[PlacedOperator] = []
    for position, node in enumerate(graph.graph.nodes):
        made = [name for name in node.outputs if name]
        if made and (fixed.issuperset(made) or _is_folded(node, fixed)):
            fixed.update(made)
            continue
        proto = next((protos[name] for name in _originals(made) if name in protos and protos[name].op_type == node.op_type), None)
        if proto is None and not made:
            proto = node.proto
        if proto is None:
            found.append(PlacedOperator(position=position, node=node, place=Place(), added=True))
        else:
            found.append(PlacedOperator(position=position, node=node, place=place_of(proto), inner=tuple(_inner(proto))))
    return _with_added(found)


def _with_added(operators: Sequence[PlacedOperator]) -> list[PlacedOperator]:
    """Gives the operators that stand in no model the places of those that read their results."""
    place_of_first_reader: dict[str, Place] = {}
    found: list[PlacedOperator] = []
    for operator in reversed(operators):
        if operator.added:
            readers = [place_of_first_reader[name] for name in operator.node.outputs if name in place_of_first_reader]
            operator = replace(operator, place=readers[0] if readers else Place())
        place_of_first_reader |= dict.fromkeys(operator.reads, operator.place)
        found.append(operator)
    return found[::-1]


def place_of(node: onnx.NodeProto) -> Place:
    """What a node's attributes say: -1 is nothing, as in the original."""
    stated = {_READ[each.name]: int(each.i) for each in node.attribute if each.name in _READ and each.i != _NOWHERE}
    return Place(**stated)


def named(node: onnx.NodeProto, version: int = 0, copied: Mapping[str, str] = MappingProxyType({})) -> str:
    """A node in words, as the original writes operators.

    Args:
        version: of its operator, if it is known.
        copied: inputs that come from another IPU -> names of their copies.
    """
    kind = f"{node.domain or 'ai.onnx'}.{node.op_type}" + (f":{version}" if version else "")
    known = f"{node.name} ({kind})" if node.name else kind
    inputs = ", ".join(copied.get(name, name) for name in node.input if name)
    return f"Op({known}, inputs=[{inputs}], outputs=[{', '.join(filter(None, node.output))}])"


def makers_of(graph: Graph) -> Mapping[str, int]:
    """Tensor -> position of the node that makes it."""
    return {name: position for position, node in enumerate(graph.nodes) for name in node.outputs if name}


def readers_of(graph: Graph, positions: Iterable[int]) -> dict[str, list[int]]:
    """Tensor -> positions of the nodes that read it, among those given."""
    found: dict[str, list[int]] = {}
    for position in positions:
        for name in dict.fromkeys(reads(graph.nodes[position])):
            found.setdefault(name, []).append(position)
    return found


def _originals(outputs: Iterable[str]) -> Iterator[str]:
    """Names of outputs in the model as it was given: a copy of the last operators, for a wide loss, has others."""
    for name in outputs:
        yield name
        yield name.removesuffix(WIDE)


def _is_folded(node: Node, fixed: set[str]) -> bool:
    """Whether a node makes constants of constants."""
    drawn = node.operator is not None and node.operator.random
    return bool(node.inputs) and not drawn and not node.subgraphs and fixed.issuperset(filter(None, reads(node)))


def _inner(node: onnx.NodeProto) -> Iterator[Inner]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for each in attribute.g.node:
                if each.op_type != "Constant":
                    yield Inner(name=named(each), graph=attribute.g.name, place=place_of(each))
                    yield from _inner(each)


@dataclass(frozen=True, kw_only=True)
class StageHome:
    """A stage without its operators. Attributes: ipu, phase: as a SessionStage has them."""

    ipu: int
    phase: int | None = None


def split(graph: SessionGraph, analysis: Analysis, homes: Sequence[StageHome], placed: Mapping[int, int]) -> tuple[SessionStage, ...]:
    """The stages of a graph.

    Args:
        homes: the stages, in order.
        placed: position of a node -> its stage. Nodes that it lacks make what is known before, and run where they are read.
    """
    stage_of = _completed(graph, analysis, placed)
    made = makers_of(graph.graph)
    inputs, variables = graph.inputs.keys(), graph.variables.keys()
    nodes: list[list[int]] = [[] for _ in homes]
    for position in range(len(graph.graph.nodes)):
        nodes[stage_of[position]].append(position)
    wanted: list[dict[str, None]] = [
        dict.fromkeys(name for position in positions for name in reads(graph.graph.nodes[position]) if name) for positions in nodes
    ]
    foreign = [[name for name in names if name in made and stage_of[made[name]] != number] for number, names in enumerate(wanted)]
    passed = [[name for name in names if name not in analysis.values] for names in foreign]
    later = [{name for names in passed[number + 1 :] for name in names} for number in range(len(homes))]
    return tuple(
        SessionStage(
            number=number,
            ipu=home.ipu,
            phase=home.phase,
            nodes=tuple(nodes[number]),
            reads=(*(name for name in wanted[number] if name in inputs), *passed[number]),
            variables=tuple(name for name in wanted[number] if name in variables),
            gives=tuple(name for position in nodes[number] for name in graph.graph.nodes[position].outputs if name in later[number]),
            known={name: analysis.values[name] for name in foreign[number] if name in analysis.values},
        )
        for number, home in enumerate(homes)
    )


def runs(graph: SessionGraph, ipu_of: Mapping[int, int]) -> tuple[list[StageHome], dict[int, int]]:
    """Stages that run one after the other, each on one IPU: a stage has all operators of its IPU that can run when it begins.

    Args: ipu_of: position of a node -> its IPU.
    Returns: (the stages, position of a node -> its stage).
    """
    made = makers_of(graph.graph)
    needs = {
        position: {made[name] for name in reads(graph.graph.nodes[position]) if name in made and made[name] in ipu_of}
        for position in ipu_of
    }
    homes: list[StageHome] = []
    placed: dict[int, int] = {}
    left = sorted(ipu_of)
    while left:
        ready = next(position for position in left if needs[position] <= placed.keys())
        ipu, rest = ipu_of[ready], list[int]()
        for position in left:
            if ipu_of[position] == ipu and needs[position] <= placed.keys():
                placed[position] = len(homes)
            else:
                rest.append(position)
        homes.append(StageHome(ipu=ipu))
        left = rest
    return homes, placed


def _completed(graph: SessionGraph, analysis: Analysis, placed: Mapping[int, int]) -> dict[int, int]:
    """The stage of each node. A node that is not placed runs where the first reader of its results does.

    One whose results are known may read shapes: it runs where those tensors are already, so that nothing is passed on for it.
    """
    every = graph.graph.nodes
    stage_of = dict(placed)
    made, read = makers_of(graph.graph), readers_of(graph.graph, range(len(every)))

    def first_reader(*tensors: str) -> int:
        return min((stage_of[reader] for name in tensors for reader in read.get(name, ()) if reader in stage_of), default=0)

    for position in reversed(range(len(every))):
        if position not in stage_of and not analysis.values.keys() >= set(filter(None, every[position].outputs)):
            stage_of[position] = first_reader(*every[position].outputs)
    for position, node in enumerate(every):
        if position not in stage_of:
            shaped = [name for name in reads(node) if name not in analysis.values]
            where = [stage_of[made[name]] if name in made else first_reader(name) for name in shaped]
            stage_of[position] = max(where, default=first_reader(*node.outputs))
    return stage_of
