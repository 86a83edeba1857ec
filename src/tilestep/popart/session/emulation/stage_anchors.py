"""What leaves the machine of a session of several stages: its anchors, as what a pipeline watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AnchorReturnTypeId
from tilestep.popart.session.emulation.relays import Relays
from tilestep.popart.session.plan import Plan
from tilestep.train import gradient, parameter
from tilestep.train.pipeline.compile.watch_keys import How

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
