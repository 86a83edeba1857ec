"""Finds the ways that values take between a pipeline's stages.

The outputs of a stage go to the stages after it, and their gradients come back. A stage may hand on some of its arguments as they are, such
as labels. Such a value need not pass through it: it goes from the stage that has made it to those that read it. A stage that does not read
it gets zeros of its shape instead. A value that no later stage reads goes nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax.extend.core import Jaxpr
from jax.sharding import Sharding

from tilestep.train.jaxprs import called, is_real, is_variable
from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.pipeline.compile.tracing import TracedStages
from tilestep.train.untyped import Atom
from tilestep.train.untyped import jax as _jax


class Route(NamedTuple):
    """The way of one value forward."""

    source: int  # index among the outputs that the stage's program returns
    destination: int  # the stage that reads it
    argument: int  # index among that stage's arguments
    sharding: Sharding | None  # to which it is copied; None: it is there


class Back(NamedTuple):
    """The way of gradients to one stage."""

    destination: int  # the stage that has made the arguments
    sources: tuple[int, ...]  # indices among the gradients of the arguments
    sharding: Sharding | None  # to which they are copied; None: they are there


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The ways of all values. Each attribute has an entry for each stage."""

    # indices of the outputs' leaves that its program returns: those that another stage reads, and all of the last level
    sent: tuple[tuple[int, ...], ...]
    ways: tuple[tuple[Route, ...], ...]  # ways of its outputs
    backs: tuple[tuple[Back, ...], ...]  # backs of its arguments' gradients
    blank: tuple[tuple[jax.Array | None, ...], ...]  # its arguments before any has come: zeros for those that it does not read, else None


def routes(traced: TracedStages, levels: Sequence[Sequence[int]], *, direct: bool) -> Routes:
    """Args: direct: whether values may bypass stages that hand them on."""
    stages = traced.stages
    level_of = {stage: level for level, members in enumerate(levels) for stage in members}
    last = levels[-1]  # the values that it hands on are results
    if direct and all(stage.placement.replicas is None for stage in stages):
        handing = [_handed_on(stage, len(traced.incoming[stage.number])) for stage in stages]
        sources = [of_stage[0] for of_stage in handing]
        unread = [frozenset[int]() if stage.number in last else handing[stage.number][1] for stage in stages]
    else:
        sources = [dict[int, int]() for _ in stages]
        unread = _never_read(traced, levels)
    ways: list[list[Route]] = [[] for _ in stages]
    backs: list[tuple[Back, ...]] = []
    blank: list[tuple[Any, ...]] = []
    for stage, incoming, skipped in zip(stages, traced.incoming, unread, strict=True):
        for index, (maker, source) in enumerate(incoming):
            while source in sources[maker]:
                maker, source = traced.incoming[maker][sources[maker][source]]
            if index not in skipped:
                ways[maker].append(Route(source, stage.number, index, _sharding(stages[maker], stage)))
        with _jax.ensure_compile_time_eval():  # other runs use them too, even where JAX traces this one
            zeros = [
                _zeros(stage.placement.spec(spec, 0)) if index in skipped else None
                for index, spec in enumerate(stage.args[: len(incoming)])
            ]
        blank.append(tuple(zeros))
        before = levels[level_of[stage.number] - 1] if level_of[stage.number] else ()
        backs.append(tuple(_back(stage, stages[maker], incoming) for maker in before))
    sent = [
        tuple(range(len(_jax.tree.leaves(stage.outputs)))) if stage.number in last else tuple(sorted({way.source for way in own}))
        for stage, own in zip(stages, ways, strict=True)
    ]
    among_sent = [tuple(way._replace(source=indices.index(way.source)) for way in own) for own, indices in zip(ways, sent, strict=True)]
    return Routes(sent=tuple(sent), ways=tuple(among_sent), backs=tuple(backs), blank=tuple(blank))


def _never_read(traced: TracedStages, levels: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """For each stage its arguments that neither it nor a later stage reads, and that are no results. Over processes: none."""
    stages = traced.stages
    unread = [frozenset[int]() for _ in stages]
    if not all(stage.placement.is_local for stage in stages):
        return unread
    readers: set[tuple[int, int]] = set()  # (stage, output) that the next level reads
    for level in reversed(levels):
        for number in level:
            handed, skipped = _handed_on(stages[number], len(traced.incoming[number]))
            read = {argument for output, argument in handed.items() if level is levels[-1] or (number, output) in readers}
            unread[number] = skipped - read
        for number in level:
            readers.update(pair for index, pair in enumerate(traced.incoming[number]) if index not in unread[number])
    return unread


def _zeros(spec: Any) -> jax.Array:
    return _jax.device_put(_jax.numpy.zeros(spec.shape, spec.dtype), spec.sharding)


def _back(stage: Stage, maker: Stage, incoming: Sequence[tuple[int, int]]) -> Back:
    sources = tuple(number for number, index in enumerate(stage.needs_gradient) if incoming[index][0] == maker.number)
    return Back(maker.number, sources, _sharding(stage, maker))


def _sharding(source: Stage, destination: Stage) -> Sharding | None:
    return None if source.placement == destination.placement else destination.placement.along(0)


def _handed_on(stage: Stage, count: int) -> tuple[dict[int, int], frozenset[int]]:
    """(output -> argument that it is, arguments from which the stage computes nothing), among values without gradients.

    Args: count: the number of arguments that come from other stages.
    """
    plain = [index for index in range(count) if not is_real(stage.args[index])]
    if not plain:
        return {}, frozenset()
    params, structure = _jax.tree.flatten(stage.params)

    def outputs(params: Sequence[jax.Array], args: Sequence[jax.Array]) -> list[jax.Array]:
        results, _, values = stage.watched_call(_jax.tree.unflatten(structure, params), args, stage.watch.slots())
        return [*_jax.tree.leaves(results), *values]

    arguments, read = _flow(stage.placement.traced(outputs, params, list(stage.args))[0].jaxpr)
    first, own = len(params), len(_jax.tree.leaves(stage.outputs))
    read.update(argument for output, argument in arguments.items() if output >= own)  # it is watched
    handed = {output: argument - first for output, argument in arguments.items() if output < own and argument - first in plain}
    return handed, frozenset(index for index in plain if first + index not in read)


def _flow(jaxpr: Jaxpr) -> tuple[dict[int, int], set[int]]:
    """(result -> argument that it is, arguments that an equation reads). Functions that it calls are searched, too."""
    same: dict[Atom, int] = {variable: index for index, variable in enumerate(jaxpr.invars)}
    read: set[int] = set()
    for equation in jaxpr.eqns:
        arguments = [same.get(atom) if is_variable(atom) else None for atom in equation.invars]
        inner = called(equation)
        if inner is None:
            read.update(index for index in arguments if index is not None)
            continue
        handed, read_inside = _flow(inner)
        read.update(index for index in (arguments[argument] for argument in read_inside) if index is not None)
        for output, argument in handed.items():
            if (index := arguments[argument]) is not None:
                same[equation.outvars[output]] = index
    return {output: same[atom] for output, atom in enumerate(jaxpr.outvars) if is_variable(atom) and atom in same}, read
