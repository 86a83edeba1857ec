"""Makes of a model, a data flow, options and an optimiser what a session runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder.loading import GivenModel, read_model
from tilestep.popart.dataflow import Anchor, DataFlow, anchors_of
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.exceptions import noted, popart_exception
from tilestep.popart.names import reservedAcclPrefix, reservedAccumPrefix, reservedGradientPrefix
from tilestep.popart.optimizers import AutomaticLossScaling, Optimizer, UpdateContext, UpdateRule
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.model.analysis import Analysis, Fetched, Names, analyse
from tilestep.popart.session.model.graph import SessionGraph, session_graph
from tilestep.popart.session.model.replication import Replication, sum_over
from tilestep.popart.session.model.scaling import FINAL_SCALE, FINAL_SCALE_TYPE, WIDE, add_wide_loss, automatic_scaling, observed
from tilestep.popart.session.model.tuning import require_node_attributes
from tilestep.popart.session.program.pipelined import forward_program, require_pipelined, restored_tensors, stale_weights
from tilestep.popart.session.program.program import Gradients, SessionProgram
from tilestep.popart.session.program.replicated import ReplicatedProgram
from tilestep.popart.session.recompute import Segments, require_one_recomputation, segments_of
from tilestep.popart.session.staging import Staging, staging_of
from tilestep.popart.session.streams import is_synthetic, left_on_device
from tilestep.popart.session.weights import first_values, shared_by_replicas
from tilestep.popart.tensors import InputShapeInfo

_MOST_TURNS: Final = 2**31 - 1  # the compiled program counts the turns of its loops in 32 bits
_ACTING: Final = frozenset({"Abort", "PrintTensor"})
_ACCUMULATE: Final = (reservedAccumPrefix(), reservedAcclPrefix())  # how names of state begin that each microbatch changes


@dataclass(frozen=True, kw_only=True)
class SessionPlan:
    """What a session runs.

    Attributes:
        graph: the model.
        names: what may be anchored, with types.
        anchors: what is returned, sorted by name.
        program: functions of one device, or of all replicas.
        replication: the replicas, with what each has of its own.
        rule: of the optimiser; None in inference.
        first: first values of the variables and of the optimiser's state, by name.
        batches, accumulation: batches of a step, microbatches of a batch.
        staging: which operators run on which IPU.
        forward: functions of a pipeline's forward part alone; None if the options don't ask for it.
        loss: the tensor that is differentiated; None in inference.
        synthetic: whether inputs stay on the device, and anchors do.
        segments: what the emulated machine computes again in a session of one stage; None: nothing.
    """

    graph: SessionGraph
    names: Names
    anchors: Sequence[Anchor]
    program: SessionProgram | ReplicatedProgram
    replication: Replication
    rule: UpdateRule | None
    first: Mapping[str, Array]
    batches: int
    accumulation: int
    staging: Staging
    forward: SessionProgram | ReplicatedProgram | None = None
    loss: str | None = None
    synthetic: bool = False
    segments: Segments | None = None

    def type_of(self, name: str) -> jax.ShapeDtypeStruct | None:
        """A tensor's shape and dtype; None if there is no such tensor."""
        return self.names.type_of(name)


def plan_of(
    model: Any,
    flow: DataFlow,
    *,
    shapes: InputShapeInfo,
    options: SessionOptions,
    device: DeviceInfo,
    loss: str | None = None,
    optimizer: Optimizer | None = None,
) -> SessionPlan:
    """Plans a session.

    Args:
        model: a ModelProto, its bytes, or a path.
        device: of the session.
        loss, optimizer: in training.

    Raises: popart_exception for a model, an anchor, a loss or a placement that does not fit.
    """
    training = optimizer is not None
    read = read_model(model)
    if not training and not flow.nAnchors():
        raise popart_exception("User must specify an anchor tensor when doing inference.")
    accumulation = int(options.accumulationFactor) if options.enableGradientAccumulation else 1
    for name, count in (("batchesPerStep", flow.batchesPerStep()), ("accumulationFactor", accumulation)):
        if count > _MOST_TURNS:
            raise popart_exception(f"{name} is {count}: at most {_MOST_TURNS:,} are counted. Give a lower number, and call run more often.")
    anchors = anchors_of(flow)
    require_pipelined(options, anchors, optimizer)
    graph, analysis, source = _analysed(read, anchors, loss, training=training, shapes=shapes, options=options)
    require_one_recomputation(graph, options)
    require_node_attributes(graph.proto.graph, analysis.types.get)
    staging = staging_of(
        graph, analysis, options, training=training, loss=source, device=device, batches=flow.batchesPerStep(), anchors=anchors
    )
    trained = [name for name in graph.variables if name in analysis.differentiable]
    scaling = automatic_scaling(options, accumulation=accumulation, replication=graph.replication)
    rule = (
        None
        if optimizer is None
        else optimizer.rule(
            _context(graph, trained, options, accumulation, scaling, analysis.types[loss].dtype if loss else np.dtype(np.float32))
        )
    )
    looked_at = observed(options, graph, analysis)
    state = {} if rule is None else _state_types(rule, graph, trained)
    if scaling is not None:
        state[FINAL_SCALE] = FINAL_SCALE_TYPE
    names = Names(
        analysis=analysis,
        variables=tuple(graph.variables),
        state=state,
        accumulators=frozenset(name for name in state if name.startswith(_ACCUMULATE) or name == FINAL_SCALE),
        trained=trained,
        restored=restored_tensors(graph, analysis, staging, options),
    )
    fetched = names.fetched(anchor.name for anchor in anchors)
    _require_work(graph, {*fetched.tensors, *fetched.gradients.values(), *([] if loss is None else [loss])})
    synthetic = is_synthetic(options)
    computed = left_on_device(anchors) if synthetic else anchors
    program = SessionProgram(
        graph,
        anchors=computed,
        fetched=fetched,
        gradients=None if rule is None or source is None else _gradients(source, rule, fetched, trained, names, looked_at),
        batches=flow.batchesPerStep(),
        accumulation=accumulation,
        stale=stale_weights(graph, analysis, staging, options, optimizer, source),
        resident=synthetic,
    )
    forward = forward_program(graph, options, computed, fetched, batches=flow.batchesPerStep(), accumulation=accumulation)
    replication = shared_by_replicas(graph, rule, optimizer)

    def replicated(program: SessionProgram) -> SessionProgram | ReplicatedProgram:
        if replication.count == 1:
            return program
        return ReplicatedProgram(program, replication, anchors=program.anchors, inputs=graph.inputs, state=state)

    return SessionPlan(
        graph=graph,
        names=names,
        anchors=anchors,
        program=replicated(program),
        replication=replication,
        rule=rule,
        first=first_values(graph, rule, trained, replication),
        batches=flow.batchesPerStep(),
        accumulation=accumulation,
        staging=staging,
        forward=None if forward is None else replicated(forward),
        loss=source,
        synthetic=synthetic,
        segments=_segments(graph, analysis, options, staging),
    )


def _segments(graph: SessionGraph, analysis: Analysis, options: SessionOptions, staging: Staging) -> Segments | None:
    """What the plan of a session of one stage computes again; None if it computes nothing again."""
    if staging.kind != "one" or _acts(graph.graph):  # JAX computes nothing again that acts outside of the program
        return None
    return segments_of(graph, analysis, options, staging)


def _acts(graph: Graph) -> bool:
    """Whether an operator, or one inside of it, acts outside of the program."""
    return any(node.op_type in _ACTING or any(map(_acts, node.subgraphs)) for node in graph.nodes)


def _analysed(
    read: GivenModel, anchors: Sequence[Anchor], loss: str | None, *, training: bool, shapes: InputShapeInfo, options: SessionOptions
) -> tuple[SessionGraph, Analysis, str | None]:
    """(the graph, what is known of it, the tensor that is differentiated): a float16 loss may get a float32 copy for that."""
    asked = {anchor.name.removeprefix(reservedGradientPrefix()) for anchor in anchors}
    graph = session_graph(read, training=training, shapes=shapes, options=options)
    analysis = analyse(graph, loss, asked)
    if loss is None or not options.ensureFp32LossScaleTensor or analysis.types[loss].dtype != np.float16:
        return graph, analysis, loss
    halves = {name for name, kind in analysis.types.items() if kind.dtype == np.float16}
    graph = session_graph(read, training=training, shapes=shapes, options=options, change=lambda proto: add_wide_loss(proto, loss, halves))
    source = f"{loss}{WIDE}"
    return graph, analyse(graph, source, asked), source


def _require_work(graph: SessionGraph, wanted: set[str]) -> None:
    """Raises: popart_exception if no operator leads to what is returned or trained, or acts outside of the program."""
    for node in graph.graph.nodes:
        if node.op_type in _ACTING or not wanted.isdisjoint(node.outputs):
            return
    raise noted(
        popart_exception("All operations in the main graph were pruned, nothing to compute"),
        f"The anchors are {', '.join(sorted(wanted)) or 'none'}: anchor a tensor that an operator makes.",
    )


def _context(
    graph: SessionGraph,
    trained: Sequence[str],
    options: SessionOptions,
    accumulation: int,
    scaling: AutomaticLossScaling | None,
    loss_dtype: np.dtype[Any],
) -> UpdateContext:
    return UpdateContext(
        params={name: jax.ShapeDtypeStruct(graph.variables[name].shape, graph.variables[name].dtype) for name in trained},
        accumulation_factor=accumulation,
        gradient_accumulation=bool(options.enableGradientAccumulation),
        replication_factor=graph.replication.count,
        reduce=None if graph.replication.count == 1 else sum_over(None),
        groups=graph.replication.group_sums(trained),
        reduction=options.accumulationAndReplicationReductionType,
        mean_strategy=options.meanAccumulationAndReplicationReductionStrategy,
        loss_dtype=loss_dtype,
        automatic_loss_scaling=scaling,
    )


def _state_types(rule: UpdateRule, graph: SessionGraph, trained: Sequence[str]) -> dict[str, jax.ShapeDtypeStruct]:
    state = jax.eval_shape(rule.init, {name: graph.variables[name] for name in trained})
    return {**state.hyper, **state.tensors}


def _gradients(loss: str, rule: UpdateRule, fetched: Fetched, trained: Sequence[str], names: Names, looked_at: Sequence[str]) -> Gradients:
    taps = {name: names.analysis.types[name] for name in (*fetched.gradients.values(), *looked_at) if name not in trained}
    return Gradients(loss=loss, rule=rule, trained=trained, taps=taps, observed=looked_at)
