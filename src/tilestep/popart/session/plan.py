"""Makes of a model, a data flow, options and an optimiser what a session runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from tilestep.popart.dataflow import Anchor, DataFlow, anchors_of
from tilestep.popart.device_info import DeviceInfo
from tilestep.popart.enums import RecomputationType
from tilestep.popart.exceptions import noted, popart_exception
from tilestep.popart.names import reservedAcclPrefix, reservedAccumPrefix, reservedGradientPrefix
from tilestep.popart.optimizers import AutomaticLossScaling, Optimizer, UpdateContext, UpdateRule
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.analysis import Analysis, Names, analyse
from tilestep.popart.session.fetched import Fetched
from tilestep.popart.session.graph import SessionGraph, Values, session_graph
from tilestep.popart.session.node_checks import require_node_attributes
from tilestep.popart.session.program import Gradients, Program
from tilestep.popart.session.reading import Model, read_model
from tilestep.popart.session.scaling import FINAL_SCALE, FINAL_SCALE_TYPE, automatic_scaling, observed
from tilestep.popart.session.staging import Staging, staging_of
from tilestep.popart.session.wide_loss import WIDE, add_wide_loss
from tilestep.popart.tensors import InputShapeInfo

Array = np.ndarray[Any, Any]
_RECOMPUTE: Final = "__recompute_output_in_backward_pass"
_ACTING: Final = frozenset({"Abort", "PrintTensor"})
_ACCUMULATE: Final = (reservedAccumPrefix(), reservedAcclPrefix())  # how names of state begin that each microbatch changes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a session runs.

    Attributes:
        graph: the model.
        names: what may be anchored, with types.
        anchors: what is returned, sorted by name.
        program: functions of one device.
        rule: of the optimiser; None in inference.
        first: first values of the variables and of the optimiser's state, by name.
        batches, accumulation: batches of a step, microbatches of a batch.
        staging: which operators run on which IPU.
    """

    graph: SessionGraph
    names: Names
    anchors: Sequence[Anchor]
    program: Program
    rule: UpdateRule | None
    first: Mapping[str, Array]
    batches: int
    accumulation: int
    staging: Staging

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
) -> Plan:
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
    if not training and options.enableGradientAccumulation:
        raise popart_exception("Gradient Accumulation only available when training.")
    accumulation = int(options.accumulationFactor) if options.enableGradientAccumulation else 1
    anchors = anchors_of(flow)
    graph, analysis, source = _analysed(read, anchors, loss, training=training, shapes=shapes, options=options)
    _require_one_recomputation(graph, options)
    require_node_attributes(graph.proto.graph, analysis.types.get)
    prefix = reservedGradientPrefix()
    staging = staging_of(
        graph,
        analysis,
        options,
        training=training,
        loss=source,
        device=device,
        batches=flow.batchesPerStep(),
        gradients=[anchor.name.removeprefix(prefix) for anchor in anchors if anchor.name.startswith(prefix)],
    )
    trained = [name for name in graph.variables if name in analysis.differentiable]
    scaling = automatic_scaling(options, training=training, accumulation=accumulation)
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
    )
    fetched = names.fetched(anchor.name for anchor in anchors)
    _require_work(graph, {*fetched.tensors, *fetched.gradients.values(), *([] if loss is None else [loss])})
    return Plan(
        graph=graph,
        names=names,
        anchors=anchors,
        program=Program(
            graph,
            anchors=anchors,
            fetched=fetched,
            gradients=None if rule is None or source is None else _gradients(source, rule, fetched, trained, names, looked_at),
            batches=flow.batchesPerStep(),
            accumulation=accumulation,
        ),
        rule=rule,
        first=_first_values(graph, rule, trained),
        batches=flow.batchesPerStep(),
        accumulation=accumulation,
        staging=staging,
    )


def _analysed(
    read: Model, anchors: Sequence[Anchor], loss: str | None, *, training: bool, shapes: InputShapeInfo, options: SessionOptions
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


def _require_one_recomputation(graph: SessionGraph, options: SessionOptions) -> None:
    asked = any(attribute.name == _RECOMPUTE for node in graph.proto.graph.node for attribute in node.attribute)
    if asked and options.autoRecomputation != RecomputationType.NoRecompute:
        raise popart_exception("A mixture of auto and manual recomputation is not supported")


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
        replication_factor=1,
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


def _first_values(graph: SessionGraph, rule: UpdateRule | None, trained: Sequence[str]) -> dict[str, Array]:
    """First values of variables, and of the optimiser's state: those of a saved model where it has them.

    Raises: popart_exception for a value of another shape, and for a weight that has the name of the state.
    """
    variables = dict(graph.variables)
    if rule is None:
        return variables
    params: dict[str, Any] = {name: graph.variables[name] for name in trained}
    state = rule.init(params)
    for name in sorted({name for node in graph.proto.graph.node for name in node.input} & graph.variables.keys()):
        if name in state.tensors:  # in a saved model no node reads those
            raise popart_exception(f"A weight is called '{name}', as a tensor of the optimiser's state is: call the weight otherwise")
    saved = {tensor.name: tensor for tensor in graph.proto.graph.initializer if tensor.name in state.tensors}
    tensors: Values = {name: np.asarray(value) for name, value in state.tensors.items()}
    for name, tensor in saved.items():
        array = graph.model.array_of(tensor)
        if array.shape != tensors[name].shape:
            raise popart_exception(
                f"The model's '{name}' has shape {list(array.shape)}, and the optimiser's has {list(tensors[name].shape)}"
            )
        tensors[name] = array.astype(tensors[name].dtype)
    return variables | tensors
