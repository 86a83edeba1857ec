"""What places of operators must fulfil, with the original's words.

Source: PopART's ir.cpp (verifyVirtualGraphIds, verifyPipelineSettings) and transforms/pipeline.cpp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tilestep.popart.enums import VirtualGraphMode
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.staging.placement import Operator


def ipus_of_replica(options: SessionOptions, num_ipus: int) -> int:
    """IPUs of one replica. Args: num_ipus: of the device. Raises: popart_exception if they cannot be shared out."""
    replicas = int(options.replicatedGraphCount) if options.enableReplicatedGraphs else 1
    if num_ipus % replicas:
        raise popart_exception(
            f"For replicated graphs, the number of IPUs must be divisible by the replication factor. The device has {num_ipus} IPUs, and "
            f"there are {replicas} replicas"
        )
    return num_ipus // replicas


def require_all_or_no_ipus(operators: Sequence[Operator], mode: VirtualGraphMode) -> None:
    """Raises: popart_exception if some operators have a virtual graph and others have none, or if none has one in mode Manual."""
    stated = [(name, place.ipu) for operator in operators for name, place in ((operator.name, operator.place), *operator.inner)]
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


def require_pipeline(operators: Sequence[Operator], options: SessionOptions, num_ipus: int) -> None:
    """Raises: popart_exception if there is nothing to pipeline over, or pipeline stages do not fit virtual graphs.

    Args: num_ipus: of a replica.
    """
    mode = options.virtualGraphMode
    explicit = options.useHostCopyOps and options.enableExplicitMainLoops
    if not explicit and (mode is VirtualGraphMode.Off or num_ipus == 1):
        raise popart_exception(
            f"Pipelining requires more than 1 IPU (currently {num_ipus}) and the 'virtualGraphMode' session option to not be "
            f"VirtualGraphMode::Off (currently {mode})."
        )
    if mode is VirtualGraphMode.Off:
        raise popart_exception("Pipelining requires the 'virtualGraphMode' session option to not be VirtualGraphMode::Off.")
    missing = [operator.name for operator in operators if operator.place.stage is None]
    if missing and len(missing) < len(operators):
        raise popart_exception(
            "Only some ops have had their pipeline stage set. Ops missing the pipeline stage:" + "".join(f"\n  {name}" for name in missing)
        )
    if not missing:
        _require_one_ipu_each(operators)


def _require_one_ipu_each(operators: Sequence[Operator]) -> None:
    stages: dict[int, list[Operator]] = {}
    for operator in operators:
        stages.setdefault(operator.place.stage or 0, []).append(operator)
    for stage, members in sorted(stages.items()):
        if stage < 0:
            raise popart_exception(f"Op has bad pipeline stage {stage}: {members[0].name}. Stages count from 0")
        ipus = {member.place.ipu for member in members}
        if len(ipus) > 1:
            shown = ", ".join(str(ipu) for ipu in sorted(ipus, key=lambda ipu: -1 if ipu is None else ipu))
            raise popart_exception(
                f"Ops [{', '.join(member.name for member in members)}] have the same pipeline stage {stage}, but different virtual graph "
                f"ids {{{shown}}}. All ops with the same pipeline stage must also have the same virtual graph id"
            )


def require_order(makers: Mapping[str, Operator], operators: Sequence[Operator], stage_of: Mapping[int, int]) -> None:
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


def require_variables_in_place(operators: Sequence[Operator], variables: frozenset[str], ipu_of: Mapping[int, int]) -> None:
    """Raises: popart_exception if a variable is read on two IPUs of a pipeline, which would need copies of what each step changes."""
    homes: dict[str, Operator] = {}
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
