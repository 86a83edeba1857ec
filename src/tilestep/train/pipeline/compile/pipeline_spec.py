"""The description of a pipeline that its programs follow from, whatever the shapes of its parameters are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from tilestep.train.offload import Offload
from tilestep.train.pipeline.compile.tracing import WrittenStage
from tilestep.train.pipeline.compile.updates.updates import OptimizerPlan
from tilestep.train.pipeline.compile.watched.watch_keys import WatchList
from tilestep.train.schedules.schedule import Schedule
from tilestep.train.untyped import Pytree

Leaf = tuple[int, int]  # (stage, index among its parameters' leaves)
Path = tuple[int, tuple[Any, ...]]  # (stage, keys within its parameters)


@final
@dataclass(frozen=True, kw_only=True)
class PipelineSpec:
    """A pipeline as its author describes it."""

    functions: tuple[WrittenStage, ...]  # the stages, in order
    schedule: Schedule  # the order of their tasks
    optimizer: OptimizerPlan | None  # how stages are updated; None in inference
    ties: tuple[tuple[Path, ...], ...]  # groups of paths to parameters that stay equal
    nest: Callable[[Sequence[Pytree]], Pytree]  # (an entry for each stage) -> the author's tree, in which concurrent stages are a list
    offload: Offload  # which parameters are in the host's memory, as for `placed`
    packed: bool  # whether programs take small arrays as one, and values bypass stages that only pass them on
    watch: WatchList | None = None
    # (the trees of the last level's outputs) -> for each of them the indices of the leaves that somebody gets, see hidden.py; None:
    # somebody looks at all
    given_out: Callable[[Sequence[Pytree]], Sequence[frozenset[int]]] | None
    gives_loss: bool  # whether somebody gets the loss
