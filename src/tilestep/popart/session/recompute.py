"""What the backward pass computes again, as policies of `jax.checkpoint`: the names of the tensors that each stage keeps.

Recomputation changes memory and time. It changes a value only in a pipeline without accumulation, where backward computes again with newer
weights. What is kept, by the original's rules (recompute.cpp, intervals.cpp and pipeline.cpp):

    by hand         all but the operators marked Recompute
    Standard        the results that are alive where, in each of some intervals of operators, the fewest bytes are
    NormOnly        all but the results of norms
    RecomputeAll    what is marked Checkpoint. Without explicitRecomputation also all after the last of these, which without any is all
    in a pipeline without explicit loops:
        Pipeline    of each stage what it reads, and what is marked Checkpoint
        others      of each stage what it reads and gives, and what is marked Checkpoint
        In the stage of the loss, whose backward follows its forward at once, also all after the last tensors marked Checkpoint.
"""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np

from tilestep.onnx.interpreter.graph import Node, reads
from tilestep.popart.builder.graph.attribute_names import RECOMPUTE_OUTPUT
from tilestep.popart.enums import RecomputationType, RecomputeType
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions
from tilestep.popart.options.option_support import implicit_pipeline, phased
from tilestep.popart.session.model.analysis import Analysis, Types
from tilestep.popart.session.model.graph import Mark, SessionGraph, Values
from tilestep.popart.session.staging import SessionStage, Staging
from tilestep.popart.session.staging.placement import StageHome, split

Policy = Callable[..., Any]  # as jax.checkpoint takes it
_NORMS: Final = frozenset({"BatchNormalization", "GroupNormalization", "InstanceNormalization"})
_FEWER: Final = 0.75  # intervals are so much shorter than those of the least memory; source: intervals.cpp


def recompute_policies(graph: SessionGraph, types: Types, options: SessionOptions, staging: Staging) -> dict[int, Policy]:
    """The policies of the stages that compute something again, by their numbers."""
    found = {stage.number: recompute_policy(graph, types, options, staging, stage) for stage in staging.stages}
    return {number: policy for number, policy in found.items() if policy is not None}


def recompute_policy(graph: SessionGraph, types: Types, options: SessionOptions, staging: Staging, stage: SessionStage) -> Policy | None:
    """What a stage keeps, if it computes something again: the policy of `jax.checkpoint` around its function.

    The function must give each tensor its name by `jax.ad_checkpoint.checkpoint_name`. What the stage reads is its arguments, which
    `jax.checkpoint` keeps.

    Args: types: shape and dtype of each tensor, by name.
    """
    kept = kept_tensors(graph, types, options, staging, stage)
    return None if kept is None else jax.checkpoint_policies.save_only_these_names(*sorted(kept))


def kept_tensors(
    graph: SessionGraph, types: Types, options: SessionOptions, staging: Staging, stage: SessionStage
) -> frozenset[str] | None:
    """Results of a stage's operators that are kept for the backward pass; None if nothing is computed again. Args: as before."""
    nodes = [graph.graph.nodes[position] for position in stage.nodes]
    made = frozenset(name for node in nodes for name in node.outputs if name)
    if not graph.training or not made:
        return None
    marks = _marks(graph)
    chosen = options.autoRecomputation
    if chosen is RecomputationType.NoRecompute:
        kept = made - marks.again
    elif staging.kind == "pipelined" and implicit_pipeline(options):
        kept = _in_pipeline(nodes, made & marks.kept, stage, staging, chosen)
    else:
        kept = made & _of_graph(graph.graph.nodes, types, options, marks)
    return None if kept >= made else frozenset(kept)


@dataclass(frozen=True, kw_only=True)
class _Marks:
    """Tensors that the model itself marks.

    Attributes: kept: as Checkpoint. again: as Recompute.
    """

    kept: frozenset[str]
    again: frozenset[str]


def require_one_recomputation(graph: SessionGraph, options: SessionOptions) -> None:
    """Raises: popart_exception for a model that marks what is computed again where the options choose it, or in a pipeline."""
    again = _marks(graph).again
    if again and options.autoRecomputation is not RecomputationType.NoRecompute and not phased(options):
        raise popart_exception("A mixture of auto and manual recomputation is not supported")
    if again and implicit_pipeline(options):
        raise popart_exception(
            "When pipelining is enabled, user annotation for recomputation is not allowed. Set autoRecomputation to "
            f"RecomputationType.Pipeline, and keep single tensors with builder.checkpointOutput. The operator that makes {min(again)} is "
            "marked Recompute"
        )
    if options.autoRecomputation is RecomputationType.Pipeline and not options.enablePipelining and graph.training:
        raise popart_exception(
            "Invalid RecomputationType::Pipeline in autoAnnotate when using implicit pipelining: it is for sessions with enablePipelining; "
            "choose Standard"
        )


def _marks(graph: SessionGraph) -> _Marks:
    found: dict[int, set[str]] = {RecomputeType.Checkpoint.value: set(), RecomputeType.Recompute.value: set()}
    for node in graph.proto.graph.node:
        for attribute in node.attribute:
            if attribute.name == RECOMPUTE_OUTPUT and attribute.i in found:
                found[attribute.i].update(filter(None, node.output))
    return _Marks(kept=frozenset(found[RecomputeType.Checkpoint.value]), again=frozenset(found[RecomputeType.Recompute.value]))


def _in_pipeline(
    nodes: Sequence[Node], marked: frozenset[str], stage: SessionStage, staging: Staging, chosen: RecomputationType
) -> frozenset[str]:
    if stage.number >= staging.loss_stage:
        return marked | _after_last(nodes, marked, stage.reads)
    return marked if chosen is RecomputationType.Pipeline else marked | {*stage.gives}


def _of_graph(nodes: Sequence[Node], types: Types, options: SessionOptions, marks: _Marks) -> frozenset[str]:
    made = frozenset(name for node in nodes for name in node.outputs if name)
    match options.autoRecomputation:
        case RecomputationType.Standard:
            return made & _least_alive(nodes, types)
        case RecomputationType.NormOnly:
            return made - {name for node in nodes if node.op_type in _NORMS for name in node.outputs}
        case _:
            return marks.kept if options.explicitRecomputation else marks.kept | _after_all(nodes, marks.kept)


def _after_last(nodes: Sequence[Node], marked: Collection[str], inputs: Collection[str]) -> frozenset[str]:
    """Results that depend on an input or a marked tensor from which no later marked one is made: computing them again saves nothing."""
    leads: set[str] = set()  # to a marked tensor
    for node in reversed(nodes):
        if any(name in leads or name in marked for name in node.outputs if name):
            leads.update(reads(node))
    behind = {name for name in (*inputs, *marked) if name not in leads}
    for node in nodes:
        if not behind.isdisjoint(reads(node)):
            behind.update(name for name in node.outputs if name)
    return frozenset(behind)


def _after_all(nodes: Sequence[Node], marked: Collection[str]) -> frozenset[str]:
    """Results from which a result of the graph is made by a way without a marked tensor."""
    read = {name for node in nodes for name in reads(node)}
    found = {name for node in nodes for name in node.outputs if name and name not in read}
    for node in reversed(nodes):
        made = {name for name in node.outputs if name}
        if not made.isdisjoint(found) and made.isdisjoint(marked):
            found.update(reads(node))
    return frozenset(found)


def _least_alive(nodes: Sequence[Node], types: Types) -> frozenset[str]:
    """Results that the Standard rule keeps."""
    alive = _alive(nodes)
    size = functools.partial(_bytes, types=types)
    kept: set[str] = set()
    for begin, end in intervals(len(nodes)):
        best = min(range(begin, end), key=lambda position: sum(size(nodes[each].outputs) for each in alive[position]))
        kept.update(name for each in alive[best] for name in nodes[each].outputs if name)
    return frozenset(kept)


def _alive(nodes: Sequence[Node]) -> list[frozenset[int]]:
    """For each node the nodes whose results are still read after it, and itself."""
    maker = {name: position for position, node in enumerate(nodes) for name in node.outputs if name}
    sources = [{maker[name] for name in reads(node) if name in maker} for node in nodes]
    left = [0] * len(nodes)
    for own in sources:
        for source in own:
            left[source] += 1
    alive: set[int] = set()
    result: list[frozenset[int]] = []
    for position, own in enumerate(sources):
        for source in own:
            left[source] -= 1
            if not left[source]:
                alive.discard(source)
        alive.add(position)
        result.append(frozenset(alive))
    return result


def _bytes(names: Iterable[str], types: Types) -> int:
    return sum(math.prod(types[name].shape) * np.dtype(types[name].dtype).itemsize for name in names if name in types)


def intervals(count: int) -> list[tuple[int, int]]:
    """Parts of a sequence, first longer then shorter ones, as (begin, end). Source: getDecreasingIntervals in intervals.cpp."""
    if count == 1:
        return [(0, 1)]
    size = int((int(math.sqrt(2.0 * count)) - 1) * _FEWER)
    found: list[tuple[int, int]] = []
    begin = 0
    while size > 0 and begin + size <= count:
        found.append((begin, begin + size))
        begin += size
        size -= 1
    return [*found, *((each, each + 1) for each in range(begin, count))]


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Operators that run together, one group after the other.

    Attributes:
        parts: of the model, in order.
        policy: of `jax.checkpoint`: which tensors are kept.
    """

    parts: tuple[SessionStage, ...]
    policy: Policy

    def run(self, graph: SessionGraph, values: Values, key: Any, marking: Callable[[Values], Mark]) -> tuple[Values, Values]:
        """Runs the model for one microbatch.

        Args:
            values: inputs and variables, by name.
            key: a random key, if the model draws.
            marking: what each tensor's name and value are given to, which names it for `jax.checkpoint`, and puts values into its argument.

        Returns:
            (these values, new statistics), by name.
        """
        known, found, state = dict(values), dict[str, Any](), dict[str, Any]()
        for part in self.parts:

            def segment(given: Values, part: SessionStage = part) -> tuple[Values, Values, Values]:
                marked = dict[str, Any]()
                return *graph.run_stage(part, given, key, marking(marked)), marked

            given = {name: known[name] for name in (*part.reads, *part.variables)}
            results = jax.checkpoint(segment, policy=self.policy)(given)
            for all_of, own in zip((known, state, found), results, strict=True):
                all_of.update(own)
        return found, state


def segments_of(graph: SessionGraph, analysis: Analysis, options: SessionOptions, staging: Staging) -> Segments | None:
    """The segments of a session of one stage. Each ends with results that are kept. None if nothing is computed again."""
    (stage,) = staging.stages
    kept = kept_tensors(graph, analysis.types, options, staging, stage)
    if kept is None:
        return None
    homes: list[StageHome] = []
    placed: dict[int, int] = {}
    ended = True  # the segment before
    for position in stage.nodes:
        made = {name for name in graph.graph.nodes[position].outputs if name}
        if made <= analysis.values.keys():
            continue
        if ended and made.isdisjoint(kept):
            homes.append(StageHome(ipu=0))
        placed[position] = max(0, len(homes) - 1)
        ended = not made.isdisjoint(kept)
    parts = split(graph, analysis, homes or [StageHome(ipu=0)], placed)
    return Segments(parts=parts, policy=jax.checkpoint_policies.save_only_these_names(*sorted(kept)))
