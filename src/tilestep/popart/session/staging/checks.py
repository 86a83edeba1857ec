"""What places of operators must fulfil, with the original's words.

Source: PopART's ir.cpp (verifyVirtualGraphIds, verifyPipelineSettings) and transforms/pipeline.cpp.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AnchorReturnTypeId, VirtualGraphMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions
from tilestep.popart.options.option_support import implicit_pipeline, replicas_of
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.model.stages import Staging
from tilestep.popart.session.staging.placement import PlacedOperator, makers_of, named

_CALL: Final = "Call"
_TURN_ON: Final = " Choose VirtualGraphMode.Auto, or Manual and name each operator's IPU by builder.virtualGraph."


def ipus_of_replica(options: SessionOptions, num_ipus: int) -> int:
    """IPUs of one replica. Args: num_ipus: of the device. Raises: popart_exception if replicas cannot share them."""
    replicas = replicas_of(options)
    if num_ipus % replicas:
        raise popart_exception(
            "For replicated graphs, the number of IPUs must be divisible by the replication factor. "
            f"replicatedGraphCount is {replicas}, and the device has {num_ipus} IPUs."
        )
    return num_ipus // replicas


def require_all_or_no_ipus(operators: Sequence[PlacedOperator], mode: VirtualGraphMode) -> None:
    """Raises: popart_exception if some operators have a virtual graph and others have none, or if none has one in mode Manual."""
    stated = [(each.name, each.place.ipu) for operator in operators for each in (operator, *operator.inner)]
    counts = Counter(ipu for _, ipu in stated if ipu is not None)
    missing = [name for name, ipu in stated if ipu is None]
    if counts and missing:
        lines = "".join(f"  {ipu} : {count}\n" for ipu, count in sorted(counts.items()))
        raise popart_exception(
            "Either all Ops must have their virtual graph ids set, or none must. Op count per virtual graph id\n"
            f"{lines}Ops with no virtual graph id :  \n" + "".join(f"  {name}\n" for name in missing)
        )
    if missing and mode is VirtualGraphMode.Manual:
        raise popart_exception(
            f"SessionOptions flag virtualGraphMode is {mode}, but no Ops have been annotated with virtual graph information. This is an "
            "inconsistent combination. Set it with builder.virtualGraph, or choose VirtualGraphMode.Auto"
        )


def require_called(operators: Sequence[PlacedOperator]) -> None:
    """Raises: popart_exception if a Call of a pipeline is on another IPU than an operator that it calls."""
    for operator in operators:
        for inner in operator.inner if operator.node.op_type == _CALL else ():
            rule = "When pipelining, subgraph ops must have a virtual graph id"
            if inner.place.ipu is None:
                raise popart_exception(f'Op {inner.name} in subgraph "{inner.graph}" does not have a virtual graph id. {rule} set.')
            if inner.place.ipu != operator.place.ipu:
                raise popart_exception(
                    f'The virtual graph id ({inner.place.ipu}) for Op {inner.name} in subgraph "{inner.graph}" does not match the virtual '
                    f"graph id ({operator.place.ipu}) of the calling op. {rule} matching the calling op. To call one subgraph from several "
                    "pipeline stages, make one for each virtual graph."
                )


def require_pipeline(operators: Sequence[PlacedOperator], options: SessionOptions, anchors: Sequence[Anchor], num_ipus: int) -> None:
    """Raises: popart_exception for options that do not go with a pipeline, and if only some operators have a pipeline stage.

    Args: num_ipus: of a replica.
    """
    mode = options.virtualGraphMode
    is_off = mode is VirtualGraphMode.Off
    if implicit_pipeline(options) and (is_off or num_ipus == 1):
        acquire = "" if num_ipus > 1 else " Acquire a device with an IPU for each stage of each replica."
        raise popart_exception(
            f"Pipelining requires more than 1 IPU (currently {num_ipus}) and the 'virtualGraphMode' session option to not be "
            f"VirtualGraphMode::Off (currently VirtualGraphMode::{mode.name}).{_TURN_ON if is_off else ''}{acquire}"
        )
    if is_off:
        raise popart_exception(f"Pipelining requires the 'virtualGraphMode' session option to not be VirtualGraphMode::Off.{_TURN_ON}")
    missing = [operator.name for operator in operators if operator.place.stage is None]
    if missing and len(missing) < len(operators):
        raise popart_exception(
            "Only some ops have had their pipeline stage set. Ops missing the pipeline stage:" + "".join(f"\n  {name}" for name in missing)
        )
    if not implicit_pipeline(options):
        _require_explicit(options, anchors)


def _require_explicit(options: SessionOptions, anchors: Sequence[Anchor]) -> None:
    """Raises: popart_exception for what a pipeline with explicit main loops cannot do."""
    if not options.explicitRecomputation:
        raise popart_exception(
            "[Pipeline::addDynamicStashOps] Explicit pipelining requires explicit recomputation to be enabled. Set explicitRecomputation"
        )
    for anchor in anchors:
        if anchor.kind is AnchorReturnTypeId.EveryN:
            raise popart_exception(
                f"[Explicit Pipeline] Cannot execute when an anchor has AnchorReturnType 'EveryN'. That of {anchor.name} is: choose 'All'"
            )


def require_one_ipu_each(operators: Sequence[PlacedOperator], stage_of: Mapping[int, int], ipu_of: Mapping[int, int]) -> None:
    """Raises: popart_exception if a pipeline stage is on two virtual graphs, or has a negative number.

    Args: stage_of, ipu_of: position of a node -> its pipeline stage, its IPU.
    """
    stages: dict[int, list[PlacedOperator]] = {}
    for operator in operators:
        stages.setdefault(stage_of[operator.position], []).append(operator)
    for stage, members in sorted(stages.items()):
        if stage < 0:
            raise popart_exception(f"Op has bad pipeline stage {stage}: {members[0].name}. Stages count from 0")
        ipus = sorted({ipu_of[member.position] for member in members})
        if len(ipus) > 1:
            raise popart_exception(
                f"Ops [{', '.join(member.name for member in members)}] have the same pipeline stage {stage}, but different virtual graph "
                f"ids {{{', '.join(map(str, ipus))}}}. All ops with the same pipeline stage must also have the same virtual graph id"
            )


def require_order(makers: Mapping[str, PlacedOperator], operators: Sequence[PlacedOperator], stage_of: Mapping[int, int]) -> None:
    """Raises: popart_exception if a tensor is read in an earlier pipeline stage than it is made.

    Args:
        makers: tensor -> the operator that makes it.
        stage_of: position of a node -> its pipeline stage.
    """
    for reader in operators:
        for name in reader.reads:
            maker = makers.get(name)
            if maker is not None and stage_of[maker.position] > stage_of[reader.position]:
                raise popart_exception(
                    f"Tensor {name} is consumed in an earlier pipeline stage than it is produced\n"
                    f"Producer {maker.name} has pipeline stage {stage_of[maker.position]}\n"
                    f"Consumer {reader.name} has pipeline stage {stage_of[reader.position]}"
                )


def require_variables_in_place(operators: Sequence[PlacedOperator], variables: frozenset[str], ipu_of: Mapping[int, int]) -> None:
    """Raises: popart_exception if a variable is read on two IPUs of a pipeline, which would need copies of what each step changes."""
    homes: dict[str, PlacedOperator] = {}
    for operator in operators:
        for name in operator.reads:
            if name in variables:
                first = homes.setdefault(name, operator)
                if ipu_of[first.position] != ipu_of[operator.position]:
                    raise popart_exception(
                        f"Can not copy variable tensor {name} between virtual graphs when pipelining. All pipeline stages using this "
                        f"tensor should be on the same graph. {first.name} is on virtual graph {ipu_of[first.position]}, {operator.name} "
                        f"on {ipu_of[operator.position]}"
                    )


def require_depth(options: SessionOptions, batches: int, num_stages: int) -> None:
    """Raises: popart_exception if fewer microbatches follow each other than there are stages, backward ones included."""
    if options.enableGradientAccumulation:
        what, depth = "gradient accumulation factor", int(options.accumulationFactor)
    else:
        what, depth = "batchesPerStep", batches
    if depth < num_stages:
        raise popart_exception(
            f"For pipelining, depth ({what}) must equal at least the number of pipeline stages ({num_stages}). It is {depth}"
        )


def require_one_recomputation_each(
    operators: Sequence[PlacedOperator], backward: Collection[int], stage_of: Mapping[int, int], ipu_of: Mapping[int, int]
) -> None:
    """Raises: popart_exception if a tensor would be computed again twice: for the backward pass of its stage, and for a later stage.

    A pipeline that recomputes keeps what its stages read from others. What a stage makes for a later one on the same IPU is not kept.
    The backward pass of a stage may read what the stage's own operators read.

    Args:
        backward: stages that have a backward pass.
        stage_of, ipu_of: position of a node -> its pipeline stage, its IPU.
    """
    makers = {name: operator.position for operator in operators for name in operator.node.outputs if name}
    readers: dict[str, list[PlacedOperator]] = {}
    for operator in operators:
        for name in operator.reads:
            readers.setdefault(name, []).append(operator)
    for name, maker in makers.items():
        stage, reading = stage_of[maker], readers.get(name, [])
        late = [operator for operator in reading if stage_of[operator.position] != stage]
        passed_on = any(ipu_of[operator.position] != ipu_of[maker] for operator in reading)  # so that it is kept
        if stage in backward and late and len(late) < len(reading) and not passed_on:
            raise popart_exception(
                "SessionOptions::autoRecomputation == RecomputationType::Pipeline is not compatible with the partitioning of operations "
                f"over pipeline stages. To-stash Tensor '{name}' must be restored for recomputation of a descendent that is not a direct "
                f"consumer on more than 1 PipelineStage, but this is currently not supported. {late[0].name} of pipeline stage "
                f"{stage_of[late[0].position]} reads it"
            )


def require_ipus(graph: SessionGraph, staging: Staging, options: SessionOptions) -> None:
    """Raises: popart_exception for an operator on an IPU that a replica does not have, and for IPUs that nothing would run on."""
    if options.virtualGraphMode is VirtualGraphMode.Off and staging.num_ipus > 1:
        replicas = replicas_of(options)
        raise popart_exception(
            f"If virtual graphs are disabled, the replicated graph count ({replicas}) needs to be equal to the number of IPUs "
            f"({replicas * staging.num_ipus}). Set virtualGraphMode, or ask for a device with fewer IPUs"
        )
    stage_of = {position: stage for stage in staging.stages for position in stage.nodes}
    makers = makers_of(graph.graph)
    for stage in staging.stages:
        if 0 <= stage.ipu < staging.num_ipus:
            continue
        node = graph.graph.nodes[next((position for position in stage.nodes if graph.graph.nodes[position].inputs), stage.nodes[0])]
        foreign = [name for name in node.inputs if name in makers and stage_of[makers[name]].ipu != stage.ipu]
        name = named(node.proto, node.version, {name: f"{name}_c{stage.ipu}" for name in foreign})
        raise popart_exception(f"{name} has been assigned to an invalid virtual graph {stage.ipu}. numIPUs = {staging.num_ipus}.")
