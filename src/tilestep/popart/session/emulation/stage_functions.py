"""The stages of a session as those of a pipeline: functions of their parameters, and the shapes of what they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from tilestep.popart.ops.collectives import replicas
from tilestep.popart.session.emulation.stage_anchors import Relays, relays_of, watch_of
from tilestep.popart.session.graph import SessionGraph, Values
from tilestep.popart.session.marking import Mark
from tilestep.popart.session.plan import Plan
from tilestep.popart.session.recompute import Policy
from tilestep.popart.session.replication import AXIS
from tilestep.popart.session.segments import Segments
from tilestep.popart.session.staging import SessionStage
from tilestep.train import recomputed, watched
from tilestep.train.pipeline.compile.watch_keys import How
from tilestep.train.replicas.collectives import replica_axis
from tilestep.train.untyped import jax as _jax

Run = Callable[[Values, Values, Sequence[Any], Any], tuple[Any, Values]]  # (parameters, auxiliary state, what comes in, key)
_NAME: Final = " constant "  # how their names begin


def hoisted(run: Run, arguments: tuple[Any, ...], *, replicas: int) -> tuple[Run, dict[str, jax.ShapeDtypeStruct]]:
    """(the function with such arrays as further auxiliary state, their shapes by name).

    Args:
        arguments: shapes and dtypes of the function's.
        replicas: whose collectives it may have.
    """
    axes = [(AXIS, replicas)] if replicas > 1 else None
    found = _arrays(_jax.make_jaxpr(run, axis_env=axes)(*arguments).consts)
    if not found:
        return run, {}
    names = [f"{_NAME}{number}" for number in range(len(found))]

    def with_constants(params: Values, aux: Values, given: Sequence[Any], key: Any) -> tuple[Any, Values]:
        mine = {name: aux[name] for name in names}
        rest = params, {name: value for name, value in aux.items() if name not in mine}, given, key
        closed, shapes = _jax.make_jaxpr(run, return_shape=True)(*rest)
        values = iter(mine.values())
        consts = [next(values) if np.ndim(const) else const for const in closed.consts]
        outputs, new = _jax.tree.unflatten(_jax.tree.structure(shapes), _jax.core.eval_jaxpr(closed.jaxpr, consts, *_jax.tree.leaves(rest)))
        return outputs, {**new, **mine}

    return with_constants, {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in zip(names, found, strict=True)}


def _arrays(consts: Sequence[Any]) -> list[Any]:
    return [const for const in consts if np.ndim(const)]


Specs = dict[str, jax.ShapeDtypeStruct]  # by tensor
_NO_INPUTS: Final = jax.ShapeDtypeStruct((0,), np.float32)


@dataclass(frozen=True, kw_only=True)
class StageFunctions:
    """The stages of a session as those of a pipeline.

    Attributes:
        functions: (parameters[, auxiliary state], what comes in) -> what goes on, and the new auxiliary state if it has one. A function of
            a model that draws random numbers has a keyword `key`.
        params, aux: of each stage. Arrays that an operator has in itself are a part of the auxiliary state.
        elements: of a microbatch of one replica.
        inputs: their tensors.
        watch: what leaves the machine, as `Pipeline(watch=)` has it.
        periods: of how many microbatches one is returned, by key, where not each is.
    """

    functions: tuple[Callable[..., Any], ...]
    params: tuple[Specs, ...]
    aux: tuple[Specs, ...]
    elements: tuple[jax.ShapeDtypeStruct, ...]
    inputs: tuple[str, ...]
    watch: Mapping[Any, How]
    periods: Mapping[Any, int]


def stage_functions(
    plan: Plan, loss: str | None, *, loss_scale: float = 1.0, policies: Mapping[int, Policy] | None = None
) -> StageFunctions:
    """The stages of a session.

    Args:
        loss: the tensor that is differentiated; None in inference.
        loss_scale: what the gradients begin with.
        policies: what stages keep that compute something again, by number.
    """
    again = policies or {}
    graph, staging, kinds = plan.graph, plan.staging, plan.names.analysis.types
    made = {name: stage.number for stage in staging.stages for at in stage.nodes for name in graph.graph.nodes[at].outputs if name}
    trained = [] if loss is None else plan.names.trained
    if loss is None:  # nothing changes: all variables are parameters
        trained = [name for name in graph.variables if name not in graph.statistics]
    relays = relays_of(
        staging,
        inputs=list(graph.inputs),
        trained=trained,
        made=made,
        last=[] if loss is None else [loss],
    )
    if plan.synthetic:  # each stage has the inputs that it reads
        resident = [[name for name in stage.reads if name in graph.inputs] for stage in staging.stages]
        incoming = tuple(tuple(name for name in names if name not in graph.inputs) for names in relays.incoming)
        kept = tuple((*own, *more) for own, more in zip(relays.params if loss is None else relays.aux, resident, strict=True))
        relays = replace(relays, incoming=incoming, params=kept) if loss is None else replace(relays, incoming=incoming, aux=kept)
        made |= {name: number for number, names in reversed([*enumerate(resident)]) for name in names}
    watch = watch_of(plan, relays, made)
    spec = {**{name: _spec(kind) for name, kind in kinds.items()}, **{name: _spec(value) for name, value in graph.variables.items()}}
    key = jax.eval_shape(lambda: jax.random.key(0)) if graph.draws else None
    functions: list[Callable[..., Any]] = []
    params = tuple({name: spec[name] for name in names} for names in relays.params)
    aux: list[Specs] = []
    for stage, own in zip(staging.stages, params, strict=True):
        run = _run(graph, stage, relays, loss_scale, watch.marks[stage.number], again.get(stage.number), plan.segments)
        kept = {name: spec[name] for name in relays.aux[stage.number]}
        given = [spec[name] for name in relays.incoming[stage.number]] or [_NO_INPUTS] * (not stage.number)
        run, constants = hoisted(run, (own, kept, given, key), replicas=graph.replication.count)
        aux.append({**kept, **constants})
        named = _named(run, f"stage{stage.number}", has_aux=bool(aux[-1]), draws=graph.draws)
        functions.append(recomputed(named, again.get(stage.number)))
    return StageFunctions(
        functions=tuple(functions),
        params=params,
        aux=tuple(aux),
        elements=tuple(spec[name] for name in relays.incoming[0]) or (_NO_INPUTS,),
        inputs=relays.incoming[0],
        watch=watch.keys,
        periods=watch.periods,
    )


def _spec(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _run(
    graph: SessionGraph,
    stage: SessionStage,
    relays: Relays,
    loss_scale: float,
    marks: frozenset[str],
    policy: Policy | None,
    segments: Segments | None,
) -> Run:
    """Args: segments: of the only stage, if it computes something again."""
    made = {name for at in stage.nodes for name in graph.graph.nodes[at].outputs if name}
    number, is_named = stage.number, policy is not None or segments is not None
    is_last = number + 1 == len(relays.incoming)
    incoming = relays.incoming[number]
    outgoing = relays.last if is_last else relays.incoming[number + 1]

    def run(params: Values, aux: Values, given: Sequence[Any], key: Any) -> tuple[Any, Values]:
        known: Values = {**dict(zip(incoming, given if incoming else (), strict=True)), **params, **aux}

        def marking(found: Values) -> Mark:
            def mark(name: str, value: Any) -> Any:
                value = watched(value, name) if name in marks else value
                if is_named and name in made and isinstance(value, jax.Array):  # else it is a constant, which may decide shapes
                    value = checkpoint_name(value, name)
                if name in outgoing:
                    found[name] = value
                return value

            return mark

        with replicas(replica_axis() or "", graph.replication.count, native_groups=True):
            if segments is None:
                found = dict[str, Any]()
                _, statistics = graph.run_stage(stage, known, key, marking(found))
            else:
                found, statistics = segments.run(graph, known, key, marking)
        found = {**known, **found}
        outputs = tuple(jnp.asarray(found[name]) for name in outgoing)
        if is_last and outputs:
            outputs = (jnp.reshape(outputs[0], ()) * loss_scale,)
        return outputs, {name: statistics.get(name, value) for name, value in aux.items()}

    return run


def _named(run: Run, name: str, *, has_aux: bool, draws: bool) -> Callable[..., Any]:
    """A function with the parameters that a pipeline looks for."""

    def split(given: Sequence[Any], key: Any) -> Any:
        params, aux, rest = (given[0], given[1], given[2:]) if has_aux else (given[0], {}, given[1:])
        outputs, new = run(params, aux, rest, key)
        return (outputs, new) if has_aux else outputs

    def without_key(*given: Any) -> Any:
        return split(given, None)

    def with_key(*given: Any, key: Any) -> Any:
        return split(given, key)

    function = with_key if draws else without_key
    function.__name__ = function.__qualname__ = name
    return function
