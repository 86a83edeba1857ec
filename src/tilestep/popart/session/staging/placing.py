"""Turns what a model and the options say about placement into the stages of a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilestep.popart.device_info import DeviceInfo
from tilestep.popart.enums import VirtualGraphMode
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.analysis import Analysis
from tilestep.popart.session.graph import SessionGraph
from tilestep.popart.session.staging import checks
from tilestep.popart.session.staging.pipelines import pipeline_homes
from tilestep.popart.session.staging.placement import Operator, makers_of, operators_of
from tilestep.popart.session.staging.splitting import Home, runs, split
from tilestep.popart.session.staging.stages import Kind, Staging


def staging_of(
    graph: SessionGraph,
    analysis: Analysis,
    options: SessionOptions,
    *,
    training: bool,
    loss: str | None,
    device: DeviceInfo,
    batches: int,
    gradients: Collection[str] = (),
) -> Staging:
    """The stages of a session.

    Args:
        analysis: of the graph.
        loss: the tensor that is differentiated; None in inference.
        device: of the session.
        batches: of a step.
        gradients: tensors whose gradients are returned.

    Raises: popart_exception for places that do not fit each other, the options or the device, and for a pipeline that is never full.
    """
    num_ipus = checks.ipus_of_replica(options, device.numIpus)
    constant = frozenset(graph.variables) if not training and options.constantWeights else frozenset[str]()
    operators = operators_of(graph, analysis, constant=constant)
    if options.virtualGraphMode is not VirtualGraphMode.Off:
        checks.require_all_or_no_ipus(operators, options.virtualGraphMode)
    if options.enablePipelining:
        checks.require_pipeline(operators, options, num_ipus)
    kind: Kind = "one"
    homes, placed = [Home(ipu=0)], {operator.position: 0 for operator in operators}
    if options.virtualGraphMode is not VirtualGraphMode.Off and operators:
        ipu_of = _ipus(operators)
        if options.enablePipelining:
            kind = "pipelined"
            homes, placed = pipeline_homes(
                graph, analysis, operators, ipu_of, options, loss=loss, batches=batches, gradients=gradients, constant=constant
            )
        else:
            homes, placed = runs(graph, ipu_of)
            kind = "sharded" if len(homes) > 1 else "one"
    return Staging(
        kind=kind,
        stages=split(graph, analysis, homes, placed),
        num_ipus=num_ipus,
        loss_stage=_loss_stage(graph, placed, homes, loss),
    )


def _ipus(operators: Sequence[Operator]) -> dict[int, int]:
    return {operator.position: operator.place.ipu or 0 for operator in operators}


def _loss_stage(graph: SessionGraph, placed: Mapping[int, int], homes: Sequence[Home], loss: str | None) -> int:
    maker = None if loss is None else makers_of(graph.graph).get(loss)
    return len(homes) - 1 if maker is None else placed.get(maker, len(homes) - 1)
