"""What leaves the machine of a session of several stages: its anchors, as what a pipeline watches.

The original's pipelines do the same: a copy between stages that are not neighbours is split into copies between neighbours
(PopART's transforms/pipeline.cpp, contiguateIpuCopies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AnchorReturnTypeId
from tilestep.popart.session.plan import Plan
from tilestep.popart.session.staging import Staging
from tilestep.train import gradient, parameter
from tilestep.train.pipeline.compile.watch_keys import How

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


Key = Any  # of what a pipeline watches


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What a pipeline watches.

    Attributes:
        keys: "all", "sum" or "last", by key, as `Pipeline(watch=)` has them.
        periods: of how many microbatches one is returned, by key, where not each is.
        marks: of each stage, the tensors that are marked there.
    """

    keys: Mapping[Key, How]
    periods: Mapping[Key, int]
    marks: tuple[frozenset[str], ...]


def watch_of(plan: Plan, relays: Relays, made: Mapping[str, int]) -> Watch:
    """What a pipeline watches for a session's anchors.

    A tensor is watched in the stage that makes it, and an input in the first. An array of the optimiser's state leaves as its weight would,
    which has as many elements. A variable that nothing changes never leaves with a run.

    Args: made: tensor -> the stage that makes it.
    """
    home = {name: number for number, names in enumerate(relays.params) for name in names}
    places = {**dict.fromkeys(relays.incoming[0], 0), **home, **made}
    found = plan.names.fetched(anchor.name for anchor in plan.anchors)
    weights = {**{name: name for name in (*found.variables, *found.accumulators)}, **found.updated}
    single = plan.staging.kind == "one" and plan.accumulation == 1  # a run of the pipeline has one microbatch, whose value needs no place
    keys: dict[Key, How] = {}
    periods: dict[Key, int] = {}
    marks: dict[int, set[str]] = {}
    for anchor in plan.anchors:
        how = _how(anchor) if single or not plan.synthetic else "last"
        if anchor.name in weights:
            weight = _weight(weights[anchor.name], home)
            if weight is not None and plan.loss is not None:
                key: Key = parameter(home[weight], weight)
                _add(keys, key, "last" if how == "sum" else how)
                periods.setdefault(key, anchor.period)
                periods[key] = min(periods[key], anchor.period)
            continue
        tensor = found.gradients.get(anchor.name, anchor.name)
        if tensor in places and tensor not in plan.names.analysis.values:  # what is known is in no program
            marks.setdefault(places[tensor], set()).add(tensor)
            key = gradient(tensor) if anchor.name in found.gradients else tensor
            _add(keys, key, how)
            periods[key] = anchor.period
    periods = {} if plan.synthetic else {key: period for key, period in periods.items() if period > 1}
    return Watch(keys=keys, periods=periods, marks=tuple(frozenset(marks.get(number, ())) for number in range(len(relays.incoming))))


def _how(anchor: Anchor) -> How:
    if anchor.is_stacked:
        return "all"
    return "sum" if anchor.kind is AnchorReturnTypeId.Sum else "last"


def _add(keys: dict[Key, How], key: Key, how: How) -> None:
    """Adds a key; of two anchors of one weight the one of more values counts."""
    if keys.get(key) != "all":
        keys[key] = how


def _weight(name: str, home: Mapping[str, int]) -> str | None:
    """The weight that a variable is, or whose state it is; None: it is trained nowhere."""
    if name in home:
        return name
    found: Sequence[str] = sorted((weight for weight in home if name.endswith(weight)), key=len)
    return found[-1] if found else None
