"""Makes stages of placed operators: what each reads, and what it gives to later ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilestep.onnx.graph import reads
from tilestep.popart.session.analysis import Analysis
from tilestep.popart.session.graph import SessionGraph
from tilestep.popart.session.staging.placement import makers_of, readers_of
from tilestep.popart.session.staging.stages import SessionStage


@dataclass(frozen=True, kw_only=True)
class Home:
    """A stage without its operators. Attributes: ipu, phase: as a SessionStage has them."""

    ipu: int
    phase: int | None = None


def split(graph: SessionGraph, analysis: Analysis, homes: Sequence[Home], placed: Mapping[int, int]) -> tuple[SessionStage, ...]:
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


def runs(graph: SessionGraph, ipu_of: Mapping[int, int]) -> tuple[list[Home], dict[int, int]]:
    """Stages that run one after the other, each on one IPU: a stage has all operators of its IPU that can run when it begins.

    Args: ipu_of: position of a node -> its IPU.
    Returns: (the stages, position of a node -> its stage).
    """
    made = makers_of(graph.graph)
    needs = {
        position: {made[name] for name in reads(graph.graph.nodes[position]) if name in made and made[name] in ipu_of}
        for position in ipu_of
    }
    homes: list[Home] = []
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
        homes.append(Home(ipu=ipu))
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
