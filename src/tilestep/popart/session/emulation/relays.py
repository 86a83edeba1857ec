"""What a stage passes to the next one: all that some later stage needs, because a pipeline has no way past a stage.

The original's pipelines do the same: a copy between stages that are not neighbours is split into copies between neighbours
(PopART's transforms/pipeline.cpp, contiguateIpuCopies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilestep.popart.session.staging import Staging

_BEFORE = -1  # in place of a stage: it comes with the microbatch


@dataclass(frozen=True, kw_only=True)
class Relays:
    """What each stage gets and has.

    Attributes:
        incoming: of each stage, what it gets from the one before, and of the first what it gets of the microbatch: names, in order.
        params: of each stage, the variables that are trained there.
        aux: of each stage, its other variables.
        last: what the last stage returns: the loss in training.
    """

    incoming: tuple[tuple[str, ...], ...]
    params: tuple[tuple[str, ...], ...]
    aux: tuple[tuple[str, ...], ...]
    last: tuple[str, ...]


def relays_of(staging: Staging, *, inputs: Sequence[str], trained: Sequence[str], made: Mapping[str, int], last: Sequence[str]) -> Relays:
    """What each stage gets and has.

    A variable that several stages train belongs to the first of them, which passes it on: so its gradients come back and are summed.

    Args:
        inputs: of the model.
        trained: variables that get gradients.
        made: tensor -> the stage that makes it.
        last: what the last stage returns.
    """
    stages, learns = staging.stages, set(trained)
    home: dict[str, int] = {}
    for stage in stages:
        for name in stage.variables:
            if name in learns:
                home.setdefault(name, stage.number)
    source = {**dict.fromkeys(inputs, _BEFORE), **made, **home}
    incoming: list[tuple[str, ...]] = []
    wanted = [name for name in last if name in source]
    for stage in reversed(stages):
        borrowed = [name for name in stage.variables if home.get(name, stage.number) != stage.number]
        wanted = [name for name in dict.fromkeys((*wanted, *stage.reads, *borrowed)) if source.get(name, _BEFORE) < stage.number]
        incoming.append(tuple(wanted))
    return Relays(
        incoming=tuple(reversed(incoming)),
        params=tuple(tuple(name for name in stage.variables if home.get(name) == stage.number) for stage in stages),
        aux=tuple(tuple(name for name in stage.variables if name not in learns) for stage in stages),
        last=tuple(last),
    )
