"""VirtualGraphMode.ExecutionPhases: the phase of each operator, and the IPU that runs it.

Phase i runs on the IPUs whose number modulo the number of stages is i modulo that number, so that IPUs take turns.
Source: PopART's transforms/streamingmemory.cpp (apply) and transforms/streamingmemoryopinserter.cpp (sanitizePlacementAnnotation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.session.graph import SessionGraph
from tilestep.popart.session.staging.placement import Operator
from tilestep.popart.session.staging.splitting import Home, runs


def phases_of(operators: Sequence[Operator], costs: Mapping[int, float], num_phases: int) -> dict[int, int]:
    """Position of a node -> its phase. One without a phase gets one by its weights; none runs before what it reads.

    Args:
        operators: in an order in which they can run.
        costs: position of a node -> bytes of its weights.

    Raises: popart_exception for a phase that does not exist.
    """
    share = sum(costs.values()) / num_phases
    makers: dict[str, int] = {}
    found: dict[int, int] = {}
    phase, spent = 0, 0.0
    for operator in operators:
        cost = costs[operator.position]
        if spent > 0 and spent + cost > share and phase < num_phases - 1:
            phase, spent = phase + 1, 0.0
        spent += cost
        stated = operator.place.phase
        if stated is not None and stated >= num_phases:
            raise popart_exception(f"[StreamingMemory] Maximum phase is {num_phases - 1}, but op {operator.name} has phase {stated}.")
        before = [found[makers[name]] for name in operator.reads if name in makers]
        found[operator.position] = max([phase if stated is None else stated, *before])
        makers.update((name, operator.position) for name in operator.node.outputs if name)
    return found


def phase_ipus(operators: Sequence[Operator], phase_of: Mapping[int, int], num_stages: int) -> dict[int, int]:
    """Position of a node -> its IPU. Raises: popart_exception for one on an IPU that has no turn in its phase."""
    found: dict[int, int] = {}
    for operator in operators:
        phase, ipu = phase_of[operator.position], operator.place.ipu
        if ipu is not None and phase % num_stages != ipu % num_stages:
            raise popart_exception(
                f"[StreamingMemory] Op {operator.name} inconsistent execution phase {phase} and virtual graph ID {ipu}: with "
                f"{num_stages} stages, phase {phase} runs on virtual graph {phase % num_stages}"
            )
        found[operator.position] = phase % num_stages if ipu is None else ipu
    return found


def phase_homes(graph: SessionGraph, ipu_of: Mapping[int, int], phase_of: Mapping[int, int]) -> tuple[list[Home], dict[int, int]]:
    """(the stages, position of a node -> its stage): phase after phase, and IPU after IPU within one."""
    homes: list[Home] = []
    placed: dict[int, int] = {}
    for phase in sorted(set(phase_of.values())):
        within, part = runs(graph, {position: ipu for position, ipu in ipu_of.items() if phase_of[position] == phase})
        placed |= {position: len(homes) + number for position, number in part.items()}
        homes += [Home(ipu=home.ipu, phase=phase) for home in within]
    return homes, placed
