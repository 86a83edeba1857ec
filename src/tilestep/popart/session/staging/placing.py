"""Turns what a model and the options say about placement into the stages of a session."""

from collections.abc import Collection, Mapping, Sequence

from tilestep.popart.dataflow import Anchor
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.enums import RecomputationType, VirtualGraphMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.names import reservedGradientPrefix
from tilestep.popart.options import SessionOptions
from tilestep.popart.options.option_support import implicit_pipeline, phased
from tilestep.popart.session.model.analysis import Analysis
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.model.stages import Kind, Staging
from tilestep.popart.session.staging import checks
from tilestep.popart.session.staging.automatic import automatic_ipus, cost_of
from tilestep.popart.session.staging.placement import PlacedModel, PlacedOperator, StageHome, makers_of, operators_of, runs, split


def pipeline_homes(
    model: PlacedModel, ipu_of: Mapping[int, int], options: SessionOptions, *, batches: int, gradients: Collection[str]
) -> tuple[list[StageHome], dict[int, int]]:
    """(the forward stages, position of a node -> its stage).

    Args:
        ipu_of: position of a node -> its IPU.
        batches: of a step.
        gradients: tensors whose gradients are returned.

    Raises: popart_exception for stages that do not fit each other, and for fewer microbatches than stages.
    """
    graph, analysis, operators, loss = model.graph, model.analysis, model.operators, model.loss
    stated = {operator.position: operator.place.stage for operator in operators}
    stage_of = {position: ipu_of[position] if stage is None else stage for position, stage in stated.items()}
    checks.require_one_ipu_each(operators, stage_of, ipu_of)
    makers = {name: operator for operator in operators for name in operator.node.outputs if name}
    checks.require_order(makers, operators, stage_of)
    checks.require_variables_in_place(operators, frozenset(graph.variables) - model.constant, ipu_of)
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
    homes = {numbers[merged[stage]]: StageHome(ipu=ipus[stage]) for stage in forward}
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


def _backward(operators: Sequence[PlacedOperator], analysis: Analysis, stage_of: Mapping[int, int], wanted: Collection[str]) -> set[int]:
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


def phases_of(operators: Sequence[PlacedOperator], costs: Mapping[int, float], num_phases: int) -> dict[int, int]:
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


def phase_ipus(operators: Sequence[PlacedOperator], phase_of: Mapping[int, int], num_stages: int) -> dict[int, int]:
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


def phase_homes(graph: SessionGraph, ipu_of: Mapping[int, int], phase_of: Mapping[int, int]) -> tuple[list[StageHome], dict[int, int]]:
    """(the stages, position of a node -> its stage): phase after phase, and IPU after IPU within one."""
    homes: list[StageHome] = []
    placed: dict[int, int] = {}
    for phase in sorted(set(phase_of.values())):
        within, part = runs(graph, {position: ipu for position, ipu in ipu_of.items() if phase_of[position] == phase})
        placed |= {position: len(homes) + number for position, number in part.items()}
        homes += [StageHome(ipu=home.ipu, phase=phase) for home in within]
    return homes, placed


def staging_of(
    graph: SessionGraph,
    analysis: Analysis,
    options: SessionOptions,
    *,
    training: bool,
    loss: str | None,
    device: DeviceInfo,
    batches: int,
    anchors: Sequence[Anchor] = (),
) -> Staging:
    """The stages of a session.

    Args:
        analysis: of the graph.
        loss: the tensor that is differentiated; None in inference.
        device: of the session.
        batches: of a step.
        anchors: what is returned.

    Raises: popart_exception for places that do not fit each other, the options or the device, and for a pipeline that is never full.
    """
    mode = options.virtualGraphMode
    num_ipus = checks.ipus_of_replica(options, device.numIpus)
    constant = frozenset(graph.variables) if not training and options.constantWeights else frozenset[str]()
    operators = operators_of(graph, analysis, constant=constant)
    model = PlacedModel(graph=graph, analysis=analysis, operators=operators, constant=constant, loss=loss)
    if options.enablePipelining and mode is VirtualGraphMode.Manual:
        checks.require_called(operators)
    if mode is not VirtualGraphMode.Off:
        checks.require_all_or_no_ipus(operators, mode)
    if options.enablePipelining:
        checks.require_pipeline(operators, options, anchors, num_ipus)
    kind: Kind = "one"
    homes, placed = [StageHome(ipu=0)], {operator.position: 0 for operator in operators}
    if mode is not VirtualGraphMode.Off and operators:
        phase_of = _phases(model, options)
        ipu_of = _ipus(model, options, phase_of, num_ipus, training=training)
        if options.enablePipelining:
            kind = "pipelined"
            homes, placed = pipeline_homes(model, ipu_of, options, batches=batches, gradients=_gradients(anchors))
        elif phase_of is not None:
            kind = "phased"
            homes, placed = phase_homes(graph, ipu_of, phase_of)
        else:
            homes, placed = runs(graph, ipu_of)
            kind = "sharded" if len(homes) > 1 else "one"
    return Staging(
        kind=kind,
        stages=split(graph, analysis, homes, placed),
        num_ipus=num_ipus,
        loss_stage=_loss_stage(graph, placed, homes, loss),
    )


def _gradients(anchors: Sequence[Anchor]) -> list[str]:
    """Tensors whose gradients are returned."""
    prefix = reservedGradientPrefix()
    return [anchor.name.removeprefix(prefix) for anchor in anchors if anchor.name.startswith(prefix)]


def _phases(model: PlacedModel, options: SessionOptions) -> Mapping[int, int] | None:
    """Position of a node -> its phase; None without phases."""
    if not phased(options):
        return None
    costs = {each.position: cost_of(each, model.graph, model.analysis, training=False) for each in model.operators}
    return phases_of(model.operators, costs, int(options.executionPhaseSettings.phases))


def _ipus(
    model: PlacedModel, options: SessionOptions, phase_of: Mapping[int, int] | None, num_ipus: int, *, training: bool
) -> dict[int, int]:
    """Position of a node -> its IPU."""
    operators = model.operators
    if phase_of is not None:
        return phase_ipus(operators, phase_of, int(options.executionPhaseSettings.stages))
    if options.virtualGraphMode is VirtualGraphMode.Auto:
        weight = 2.0 if options.enableGradientAccumulation else 1.0  # each weight has an accumulator
        costs = {each.position: cost_of(each, model.graph, model.analysis, training=training, weight=weight) for each in operators}
        return automatic_ipus(operators, list(model.graph.inputs), costs, num_ipus, options.virtualGraphSplitRatios)
    return {operator.position: operator.place.ipu or 0 for operator in operators}


def _loss_stage(graph: SessionGraph, placed: Mapping[int, int], homes: Sequence[StageHome], loss: str | None) -> int:
    maker = None if loss is None else makers_of(graph.graph).get(loss)
    return len(homes) - 1 if maker is None else placed.get(maker, len(homes) - 1)
