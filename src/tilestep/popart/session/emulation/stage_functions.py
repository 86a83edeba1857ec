"""The stages of a session as those of a pipeline: functions of their parameters, and the shapes of what they have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AnchorReturnTypeId
from tilestep.popart.ops.collectives import replicas
from tilestep.popart.session.model.graph import Mark, SessionGraph, Values
from tilestep.popart.session.model.replication import AXIS
from tilestep.popart.session.plan import SessionPlan
from tilestep.popart.session.recompute import Policy, Segments
from tilestep.popart.session.staging import SessionStage, Staging
from tilestep.train import gradient, parameter, recomputed, watched
from tilestep.train.pipeline.compile.watched.watch_keys import How
from tilestep.train.replicas.collectives import replica_axis
from tilestep.train.untyped import jax as _jax

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


WatchKey = Any


@dataclass(frozen=True, kw_only=True)
class WatchPlan:
    """What a pipeline watches.

    Attributes:
        keys: "all", "sum" or "last", by key, as `Pipeline(watch=)` has them.
        periods: of how many microbatches one is returned, by key, where not each is.
        marks: of each stage, the tensors that are marked there.
    """

    keys: Mapping[WatchKey, How]
    periods: Mapping[WatchKey, int]
    marks: tuple[frozenset[str], ...]


def watch_of(plan: SessionPlan, relays: Relays, made: Mapping[str, int]) -> WatchPlan:
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
    keys: dict[WatchKey, How] = {}
    periods: dict[WatchKey, int] = {}
    marks: dict[int, set[str]] = {}
    for anchor in plan.anchors:
        how = _how(anchor) if single or not plan.synthetic else "last"
        if anchor.name in weights:
            weight = _weight(weights[anchor.name], home)
            if weight is not None and plan.loss is not None:
                key: WatchKey = parameter(home[weight], weight)
                _add(keys, key, "last" if how == "sum" else how)
                periods.setdefault(key, anchor.period)
                periods[key] = min(periods[key], anchor.period)
            continue
        tensor = found.gradients.get(anchor.name, anchor.name)
        if tensor in places and tensor not in plan.names.analysis.values:  # no program has known values
            marks.setdefault(places[tensor], set()).add(tensor)
            key = gradient(tensor) if anchor.name in found.gradients else tensor
            _add(keys, key, how)
            periods[key] = anchor.period
    periods = {} if plan.synthetic else {key: period for key, period in periods.items() if period > 1}
    return WatchPlan(keys=keys, periods=periods, marks=tuple(frozenset(marks.get(number, ())) for number in range(len(relays.incoming))))


def _how(anchor: Anchor) -> How:
    if anchor.is_stacked:
        return "all"
    return "sum" if anchor.kind is AnchorReturnTypeId.Sum else "last"


def _add(keys: dict[WatchKey, How], key: WatchKey, how: How) -> None:
    """Adds a key; of two anchors of one weight the one of more values counts."""
    if keys.get(key) != "all":
        keys[key] = how


def _weight(name: str, home: Mapping[str, int]) -> str | None:
    """The weight that a variable is, or whose state it is; None: it is trained nowhere."""
    if name in home:
        return name
    found: Sequence[str] = sorted((weight for weight in home if name.endswith(weight)), key=len)
    return found[-1] if found else None


Run = Callable[[Values, Values, Sequence[Any], Any], tuple[Any, Values]]  # (parameters, auxiliary state, what comes in, key)
_NAME: Final = " constant "  # how their names begin


def hoisted(run: Run, arguments: tuple[Any, ...], *, replicas: int) -> tuple[Run, dict[str, jax.ShapeDtypeStruct]]:
    """(the function with such arrays as further auxiliary state, their shapes by name).

    Args:
        arguments: shapes and dtypes of the function's.
        replicas: whose collectives it may have.
    """
    axes = [(AXIS, replicas)] if replicas > 1 else None
    found = [const for const in _jax.make_jaxpr(run, axis_env=axes)(*arguments).consts if np.ndim(const)]
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
    plan: SessionPlan, loss: str | None, *, loss_scale: float = 1.0, policies: Mapping[int, Policy] | None = None
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
