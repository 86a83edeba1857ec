"""What holds for sessions whose stages work at once: anchors, clipping, stale weights, the forward part as a program of its own."""

from collections.abc import Sequence
from typing import Final

from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AccumulateOuterFragmentSchedule, AnchorReturnTypeId
from tilestep.popart.exceptions import noted, popart_exception
from tilestep.popart.optimizers import Optimizer
from tilestep.popart.optimizers.clipping import clip_groups
from tilestep.popart.options import SessionOptions
from tilestep.popart.options.option_support import implicit_pipeline
from tilestep.popart.session.model.analysis import Analysis, Fetched
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.program.program import SessionProgram
from tilestep.popart.session.recompute import recompute_policies
from tilestep.popart.session.staging import Staging
from tilestep.popart.session.stale import StaleWeights
from tilestep.popart.session.streams import is_synthetic

FORWARD_ONLY: Final = "implicitPipeliningFwdOnly"  # the handle of the program that runs a pipeline's forward part


def require_pipelined(options: SessionOptions, anchors: Sequence[Anchor], optimizer: Optimizer | None) -> None:
    """Checks what pipelines don't have.

    Raises: popart_exception for an anchor "EveryN", and for clipping without a schedule in which all gradients are there at once.
    """
    if not options.enablePipelining:
        return
    every = next((anchor for anchor in anchors if anchor.kind == AnchorReturnTypeId.EveryN), None)
    if every is not None and implicit_pipeline(options):
        start = "AnchorReturnType::EVERYN is not valid for pipelined models"
        raise noted(popart_exception(start), f"It is that of '{every.name}': choose All, Final or Sum.")
    serial = options.accumulateOuterFragmentSettings.schedule is AccumulateOuterFragmentSchedule.Serial
    if serial and optimizer is not None and optimizer.getClipNormSettings():
        raise popart_exception(
            "Incompatible accumulateOuterFragmentSchedule used with gradient clipping, "
            "SessionOptions::accumulateOuterFragmentSettings.schedule can not be set to AccumulateOuterFragmentSchedule::Serial in a "
            "pipeline: set it to AccumulateOuterFragmentSchedule.OverlapMemoryOptimized"
        )


def stale_weights(
    graph: SessionGraph, analysis: Analysis, staging: Staging, options: SessionOptions, optimizer: Optimizer | None, loss: str | None
) -> StaleWeights | None:
    """The gradients of a pipeline that trains without accumulation; None for any other session.

    Args: loss: the tensor that is differentiated.
    Raises: popart_exception for clipping across stages, and for a weight that is also read after the stage of the loss.
    """
    if staging.kind != "pipelined" or optimizer is None or loss is None or options.enableGradientAccumulation:
        return None
    trained = [name for name in graph.variables if name in analysis.differentiable]
    _require_clipping_in_stages(optimizer, staging, trained)
    return StaleWeights(
        graph,
        staging,
        loss=loss,
        trained=trained,
        types=analysis.types,
        policies=recompute_policies(graph, analysis.types, options, staging),
    )


def _require_clipping_in_stages(optimizer: Optimizer, staging: Staging, trained: Sequence[str]) -> None:
    homes = {name: stage.number for stage in staging.stages for name in stage.variables}
    for names, _ in clip_groups(optimizer.getClipNormSettings(), tuple(trained)):
        stages = sorted({homes[name] for name in names if name in homes})
        if len(stages) > 1:
            raise popart_exception(
                f"Gradients are clipped by the norm over weights of the stages {', '.join(map(str, stages))}, which are updated at "
                "different times without gradient accumulation: set enableGradientAccumulation, or give each stage a group of its own, "
                "ClipNormSettings.clipWeights(...)"
            )


def restored_tensors(graph: SessionGraph, analysis: Analysis, staging: Staging, options: SessionOptions) -> frozenset[str]:
    """Tensors that a pipeline may keep for backward, so that Restored___ and their name can be anchored.

    These are the inputs and results of operators before the stage of the loss, but those that don't depend on a microbatch. With
    recomputation an operator's results are not kept, but what stages read and give is.
    """
    if staging.kind != "pipelined" or not analysis.differentiable:
        return frozenset()
    kept: set[str] = set()
    recomputes = recompute_policies(graph, analysis.types, options, staging)
    for stage in staging.stages[: staging.loss_stage]:
        kept.update(stage.reads, stage.gives)
        if stage.number not in recomputes:
            kept.update(name for position in stage.nodes for name in graph.graph.nodes[position].outputs if name)
    return frozenset(kept & analysis.types.keys() - analysis.known)


def forward_program(
    graph: SessionGraph, options: SessionOptions, anchors: Sequence[Anchor], fetched: Fetched, *, batches: int, accumulation: int
) -> SessionProgram | None:
    """The forward part of a pipeline that trains, which changes no weight; None if the options don't ask for it.

    It takes as many microbatches as a step, and returns the anchors that its operators make. Statistics of batch norms change in it, as
    the original's do: it runs the operators of the training.
    """
    if not options.createImplicitPipeliningFwdOnlyProgram:
        return None
    own = [anchor for anchor in anchors if anchor.name in fetched.tensors]
    return SessionProgram(
        graph,
        anchors=own,
        fetched=Fetched(tensors=fetched.tensors),
        gradients=None,
        batches=batches,
        accumulation=accumulation,
        resident=is_synthetic(options),
    )
