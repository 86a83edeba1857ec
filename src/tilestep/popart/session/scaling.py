"""Automatic loss scaling in a session: what is looked at, and the anchor `finalLossScale`."""

from __future__ import annotations

from typing import Final

import jax
import numpy as np

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers import AutomaticLossScaling, ForwardNode, tracked_tensors
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.analysis import Analysis
from tilestep.popart.session.graph import SessionGraph
from tilestep.popart.session.replication import Replication, sum_over

FINAL_SCALE: Final = "finalLossScale"  # the optimiser's loss scaling times what has become of it
FINAL_SCALE_TYPE: Final = jax.ShapeDtypeStruct((), np.dtype(np.float32))


def automatic_scaling(
    options: SessionOptions, *, training: bool, accumulation: int, replication: Replication
) -> AutomaticLossScaling | None:
    """How the loss scaling of a session follows its gradients; None if it doesn't.

    Raises: popart_exception in inference, and for settings out of their range.
    """
    if not options.automaticLossScalingSettings.enabled:
        return None
    if not training:
        raise popart_exception("[AutomaticLossScale transform] Only compatible when doing training")
    reduce = None if replication.count == 1 else sum_over(None)
    return AutomaticLossScaling.of(options.automaticLossScalingSettings, accumulation=accumulation, reduce=reduce)


def observed(options: SessionOptions, graph: SessionGraph, analysis: Analysis) -> tuple[str, ...]:
    """The tensors whose gradients automatic loss scaling looks at; none if it is off.

    Raises: popart_exception if there are none to look at, or one that is named has no gradient of float16.
    """
    settings = options.automaticLossScalingSettings
    if not settings.enabled:
        return ()
    halves = {name for name in analysis.differentiable if analysis.types[name].dtype == np.float16}
    nodes = [ForwardNode(op_type=node.op_type, inputs=tuple(node.input), outputs=tuple(node.output)) for node in graph.proto.graph.node]
    backward = halves & _after_variables(graph)
    names = tracked_tensors(settings, nodes, variables=graph.variables, float16_gradients=backward)
    for name in names:
        if name not in halves:
            raise popart_exception(
                f"[AutomaticLossScale transform] Unsupported data type for to-track tensor '{name}': it has no gradient of float16"
            )
    return names


def _after_variables(graph: SessionGraph) -> set[str]:
    """The variables and what is computed with them: no other gradient is needed for an update, so the original computes no other."""
    found = set(graph.variables)
    for node in graph.proto.graph.node:
        if not found.isdisjoint(node.input):
            found.update(node.output)
    return found
