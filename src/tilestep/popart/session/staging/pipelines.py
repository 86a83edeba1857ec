"""The stages of a pipeline: which there are, which are one, and how many the backward pass adds.

A model has P forward stages. The backward pass of stage s is stage 2L - s, with the stage L of the loss, so that there are 2P - 1 in all.
Source: PopART's transforms/pipeline.cpp (mergeConsecutivePipelineStages) and ir.cpp (getNumPipelineStages, getMaxPipelineStage).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilestep.popart.enums import RecomputationType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions
from tilestep.popart.options.placement_checks import implicit_pipeline
from tilestep.popart.session.analysis import Analysis
from tilestep.popart.session.graph import SessionGraph
from tilestep.popart.session.staging import checks
from tilestep.popart.session.staging.placement import Operator
from tilestep.popart.session.staging.splitting import Home


def pipeline_homes(
    graph: SessionGraph,
    analysis: Analysis,
    operators: Sequence[Operator],
    ipu_of: Mapping[int, int],
    options: SessionOptions,
    *,
    loss: str | None,
    batches: int,
    gradients: Collection[str],
    constant: frozenset[str],
) -> tuple[list[Home], dict[int, int]]:
    """(the forward stages, position of a node -> its stage).

    Args:
        ipu_of: position of a node -> its IPU.
        batches: of a step.
        gradients: tensors whose gradients are returned.
        constant: variables that nothing changes.

    Raises: popart_exception for stages that do not fit each other, and for fewer microbatches than stages.
    """
    stated = {operator.position: operator.place.stage for operator in operators}
    stage_of = {position: ipu_of[position] if stage is None else stage for position, stage in stated.items()}
    checks.require_one_ipu_each(operators, stage_of, ipu_of)
    makers = {name: operator for operator in operators for name in operator.node.outputs if name}
    checks.require_order(makers, operators, stage_of)
    checks.require_variables_in_place(operators, frozenset(graph.variables) - constant, ipu_of)
    loss_stage = None if loss is None or loss not in makers else stage_of[makers[loss].position]
    separate = bool(options.createImplicitPipeliningFwdOnlyProgram)
    ipus = {stage_of[position]: ipu for position, ipu in ipu_of.items()}
    forward, backward = sorted(ipus), set[int]()
    if loss_stage is not None:
        last = 2 * loss_stage + separate
        wanted = {name for name in graph.variables if name in analysis.differentiable} | set(gradients)
        backward = _backward(operators, analysis, stage_of, wanted)
        for stage in backward:
            ipus.setdefault(last - stage, ipus[stage])
    merged = {stage: stage for stage in ipus} if separate else _merged(ipus)
    every = set(merged.values())
    for stage in range(len(every)):
        if stage not in every:
            raise popart_exception(f"The set of pipeline stages for all Ops contains {len(every)} stages, but stage {stage} is missing")
    checks.require_depth(options, batches, len(every))
    numbers = {stage: number for number, stage in enumerate(sorted({merged[each] for each in forward}))}
    placed = {position: numbers[merged[stage]] for position, stage in stage_of.items()}
    if options.autoRecomputation is RecomputationType.Pipeline and implicit_pipeline(options):
        checks.require_one_recomputation_each(operators, {numbers[merged[stage]] for stage in backward}, placed, ipu_of)
    homes = {numbers[merged[stage]]: Home(ipu=ipus[stage]) for stage in forward}
    return [homes[number] for number in sorted(homes)], placed


def _merged(ipus: Mapping[int, int]) -> dict[int, int]:
    """Stage -> its number after each stage has become one with the stage before it on the same IPU."""
    stages = sorted(ipus)
    found: dict[int, int] = {}
    before, shift = ipus[stages[0]], 0
    for stage in stages:
        shift += stage > 0 and ipus[stage] == before
        found[stage] = stage - shift
        before = ipus[stage]
    return found


def _backward(operators: Sequence[Operator], analysis: Analysis, stage_of: Mapping[int, int], wanted: Collection[str]) -> set[int]:
    """Forward stages with operators through which gradients go on to something wanted. Args: wanted: tensors whose gradients are."""
    leading = set(wanted)
    stages: set[int] = set()
    for operator in operators:
        if leading.isdisjoint(operator.reads):
            continue
        made = {name for name in operator.node.outputs if name}
        leading |= made
        if not analysis.differentiable.isdisjoint(made):
            stages.add(stage_of[operator.position])
    return stages
