"""Which way values go between a pipeline's stages.

What a stage computes goes to the stages after it, and gradients of it come back. What a stage has been given and hands on as it is, such as
labels, need not pass through it: it goes from the stage that has made it to those that read it. A stage that does not read it gets zeros
of its shape in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilestep.train.jaxprs import called, is_variable
from tilestep.train.pipeline.compile.stage import Stage, is_real
from tilestep.train.pipeline.compile.tracing import Traced
from tilestep.train.untyped import jax as _jax


class Way(NamedTuple):
    """Of one value forward. Attributes: source: its place among what the stage's program returns of its outputs. taker, place: which
    argument of whom it is. sharding: where it is copied to; None: it is there."""

    source: int
    taker: int
    place: int
    sharding: Any


class Back(NamedTuple):
    """Of gradients to one stage. Attributes: giver: who has given the arguments. sources: their places among the gradients. sharding: where
    they are copied to; None: they are there."""

    giver: int
    sources: tuple[int, ...]
    sharding: Any


@dataclass(frozen=True, kw_only=True)
class Routes:
    """Of all stages' values.

    Attributes: ways, backs: of each stage. sent: of each stage, the places of the outputs' leaves that its program returns: those that go
    somewhere, and all of the last level. blank: its arguments before any has come.
    """

    sent: tuple[tuple[int, ...], ...]
    ways: tuple[tuple[Way, ...], ...]
    backs: tuple[tuple[Back, ...], ...]
    blank: tuple[tuple[Any, ...], ...]


def routes(traced: Traced, levels: Sequence[Sequence[int]], *, direct: bool) -> Routes:
    """Args: direct: whether values may leave out stages that hand them on."""
    stages = traced.stages
    level_of = {stage: level for level, members in enumerate(levels) for stage in members}
    direct = direct and all(stage.place.replicas is None for stage in stages)
    passing = [_passing(stage, len(traced.incoming[stage.number])) if direct else ({}, frozenset[int]()) for stage in stages]
    handed = [of_stage[0] for of_stage in passing]
    last = levels[-1]  # what it hands on is a result
    unread = [frozenset[int]() if stage.number in last else passing[stage.number][1] for stage in stages]
    ways: list[list[Way]] = [[] for _ in stages]
    backs: list[tuple[Back, ...]] = []
    blank: list[tuple[Any, ...]] = []
    for stage, incoming, skipped in zip(stages, traced.incoming, unread, strict=True):
        for place, (giver, source) in enumerate(incoming):
            while source in handed[giver]:
                giver, source = traced.incoming[giver][handed[giver][source]]
            if place not in skipped:
                ways[giver].append(Way(source, stage.number, place, _sharding(stages[giver], stage)))
        kinds = [(stage.args[place], place in skipped) for place in range(len(incoming))]
        with _jax.ensure_compile_time_eval():  # they are for other runs too, even where JAX traces this one
            zeros = [_jax.device_put(_jax.numpy.zeros(k.shape, k.dtype), stage.place.whole) if skip else None for k, skip in kinds]
        blank.append(tuple(zeros))
        backs.append(tuple(_backs(stage, stages, incoming, levels[level_of[stage.number] - 1] if level_of[stage.number] else ())))
    sent = [
        tuple(range(len(_jax.tree.leaves(stage.outputs)))) if stage.number in last else tuple(sorted({way.source for way in own}))
        for stage, own in zip(stages, ways, strict=True)
    ]
    renamed = [tuple(way._replace(source=places.index(way.source)) for way in own) for own, places in zip(ways, sent, strict=True)]
    return Routes(sent=tuple(sent), ways=tuple(renamed), backs=tuple(backs), blank=tuple(blank))


def _backs(stage: Stage, stages: Sequence[Stage], incoming: Sequence[tuple[int, int]], before: Sequence[int]) -> list[Back]:
    found: list[Back] = []
    for giver in before:
        sources = tuple(index for index, place in enumerate(stage.needs_gradient) if incoming[place][0] == giver)
        found.append(Back(giver, sources, _sharding(stage, stages[giver])))
    return found


def _sharding(giver: Stage, taker: Stage) -> Any:
    return None if giver.place == taker.place else taker.place.along(0)


def _passing(stage: Stage, count: int) -> tuple[dict[int, int], frozenset[int]]:
    """(of outputs that are arguments as they are: which; arguments of which nothing is computed), if they have no gradient.

    Args: count: of arguments that come from other stages.
    """
    plain = [place for place in range(count) if not is_real(stage.args[place])]
    if not plain:
        return {}, frozenset()
    params, structure = _jax.tree.flatten(stage.params)

    def outputs(params: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        return _jax.tree.leaves(stage.call(_jax.tree.unflatten(structure, params), args)[0])

    jaxpr = stage.place.traced(outputs, params, list(stage.args))[0].jaxpr
    handed, read = _flow(jaxpr)
    first = len(params)
    found = {out: argument - first for out, argument in handed.items() if argument - first in plain}
    return found, frozenset(place for place in plain if first + place not in read)


def _flow(jaxpr: Any) -> tuple[dict[int, int], set[int]]:
    """(of results that are arguments as they are: which; arguments of which something is computed), functions that it calls looked into."""
    same = {variable: place for place, variable in enumerate(jaxpr.invars)}
    read: set[int] = set()
    for equation in jaxpr.eqns:
        given = [same.get(atom) if is_variable(atom) else None for atom in equation.invars]
        inner = called(equation)
        if inner is None:
            read.update(place for place in given if place is not None)
            continue
        handed, taken = _flow(inner)
        read.update(place for place in (given[argument] for argument in taken) if place is not None)
        for out, argument in handed.items():
            if (place := given[argument]) is not None:
                same[equation.outvars[out]] = place
    return {out: same[atom] for out, atom in enumerate(jaxpr.outvars) if is_variable(atom) and atom in same}, read
