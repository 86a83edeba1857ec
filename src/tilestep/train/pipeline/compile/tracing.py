"""Traces a pipeline's stages for certain parameters and arguments: shapes of their values, and where each value comes from."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from tilestep.messages import shortened, shown
from tilestep.train.jaxprs import is_real, own_gradients
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.pipeline.compile.watched.marks import WatchMark, marks_of, traced_with_marks
from tilestep.train.pipeline.compile.watched.stage_watch import WatchedValue, require_marked, watch_of_stage, watched_params
from tilestep.train.pipeline.compile.watched.watch_keys import WatchList
from tilestep.train.replicas.collectives import replica_count, replica_index
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

Element = tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]  # (inputs, items, keyword items); of one microbatch, [1, ...] each
KEY: Final = "key"  # by which name a stage asks for a random key


@dataclass(frozen=True, kw_only=True)
class WrittenStage:
    """A stage as its author wrote it."""

    function: Callable[..., Any]
    name: str
    placement: StagePlacement
    wants_key: str  # "no", "must" or "may" be given one by name, which is so if it has a default

    def note(self, number: int, what: str) -> str:
        """For an exception."""
        return f"raised by stage {number} ({self.name}) of the pipeline, {what}"


@dataclass(frozen=True, kw_only=True)
class TracedStages:
    """All stages."""

    stages: tuple[Stage, ...]  # stages with shapes
    # for each stage, for each leaf that comes from the level before: (stage, index among its outputs' leaves)
    incoming: tuple[tuple[tuple[int, int], ...], ...]
    data: tuple[int, ...]  # for each stage, how many leaves come from before or from the element
    shared: int  # for each stage of the first level, how many of these are the run's `inputs`
    keyed: tuple[bool, ...]  # whether a stage gets a key, and so the number of the microbatch
    is_whole: bool  # whether the first level gets the elements of all microbatches each time, and so the number of the microbatch


def wants_key(function: Callable[..., Any]) -> str:
    """Whether a stage has a keyword-only parameter `key`: "no", "must" or "may" have one."""
    try:
        parameter = inspect.signature(function).parameters.get(KEY)
    except (TypeError, ValueError):  # some builtins have no signature
        return "no"
    if parameter is None or parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        return "no"
    return "must" if parameter.default is inspect.Parameter.empty else "may"


def trace(
    functions: Sequence[WrittenStage],
    levels: Sequence[Sequence[int]],
    params: Sequence[jax.Array],
    aux: Sequence[Any],
    element: Element,
    *,
    training: bool,
    key_impl: str | None,
    watch: WatchList | None = None,
) -> TracedStages:
    """Traces each stage's function once.

    Args: element: of one microbatch, or of all. key_impl: of the run's random key; None: there is none. watch: what is watched.
    Raises: what a function raises, with a note; ValueError for a captured array, for a stage that wants a key if there is none, and for
        what cannot be watched.
    """
    seen_params = [list[WatchedValue]() for _ in functions] if watch is None else watched_params(watch, levels, params)
    stages: list[Stage] = []
    marks: list[list[WatchMark]] = []
    incoming: list[tuple[tuple[int, int], ...]] = []
    data: list[int] = []
    shared = len(_jax.tree.leaves(element[0]))
    before: list[tuple[Any, tuple[int, int]]] = []  # the level before's outputs: (tree of one argument, (stage, its first leaf's index))
    for level, members in enumerate(levels):
        here: list[tuple[Any, tuple[int, int]]] = []
        for number in members:
            function = functions[number]
            given = _of_element(function, number, element) if not level else _of_outputs(function, [tree for tree, _ in before])
            traced, own_marks = _stage(
                function, number, given, params[number], aux[number], key_impl, gradient=training and level > 0, marks=watch is not None
            )
            if watch is not None:
                traced = replace(traced, watch=watch_of_stage(watch, own_marks, seen_params[number]))
            stages.append(traced)
            marks.append(own_marks)
            data.append(len(given.leaves))
            incoming.append(
                tuple((stage, first + offset) for tree, (stage, first) in before for offset in range(len(_jax.tree.leaves(tree))))
            )
            first = 0
            for tree in traced.outputs:
                here.append((tree, (number, first)))
                first += len(_jax.tree.leaves(tree))
        before = here
    if watch is not None:
        require_marked(watch, [function.name for function in functions], marks)
    keyed = tuple(key_impl is not None and function.wants_key != "no" for function in functions)
    is_whole = _is_whole(element)
    return TracedStages(stages=tuple(stages), incoming=tuple(incoming), data=tuple(data), shared=shared, keyed=keyed, is_whole=is_whole)


def _is_whole(element: Element) -> bool:
    return any(leaf.shape[0] > 1 for leaf in _jax.tree.leaves(element[1:]))


def spec_of(leaf: jax.Array) -> Any:
    """Shape and dtype as programs have them."""
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype, allow_extended_dtype=True)
    return jax.ShapeDtypeStruct(np.shape(leaf), dtype)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What a stage gets from before: leaves' shapes, the same as its function sees them, the axes that count replicas in them, and a call
    of its function with them."""

    leaves: list[jax.Array]
    seen: list[Any]
    axes: list[int | None]
    call: Callable[..., Any]  # (first arguments, leaves, number of the microbatch or None, keywords) -> result
    is_whole: bool = False


def _of_outputs(function: WrittenStage, before: Sequence[Any]) -> _Given:
    leaves, structure = _jax.tree.flatten(tuple(before))

    def call(own: Sequence[jax.Array], args: Sequence[jax.Array], _: Any, words: Mapping[str, Any]) -> Any:
        return function.function(*own, *_jax.tree.unflatten(structure, args), **words)

    return _Given(leaves=leaves, seen=leaves, axes=[0] * len(leaves), call=call)


def _of_element(function: WrittenStage, number: int, element: Element) -> _Given:
    """Arguments of the first level: the leaves of what is in the element have an axis of microbatches, then one of replicas."""
    inputs, items, keywords = element
    if function.wants_key != "no" and KEY in keywords:
        raise ValueError(
            f"stage {number} ({function.name}) has a keyword-only argument {KEY!r}, which is a random key, and the microbatches' mapping "
            f"has {KEY!r}, too: give one of them another name"
        )
    several = function.placement.replicas is not None

    def of_replica(leaf: jax.Array) -> Any:
        spec = spec_of(leaf)
        return jax.ShapeDtypeStruct((spec.shape[0], *spec.shape[2:]) if several else spec.shape, spec.dtype)

    constants = [spec_of(leaf) for leaf in _jax.tree.leaves(inputs)]
    moving, structure = _jax.tree.flatten((items, keywords))
    inputs_structure = _jax.tree.structure(inputs)

    is_whole = _is_whole(element)

    def call(own: Sequence[jax.Array], args: Sequence[jax.Array], microbatch: jax.Array, words: Mapping[str, Any]) -> Any:
        given = _jax.tree.unflatten(inputs_structure, args[: len(constants)])
        take: Callable[[Any], Any] = lambda leaf: _jax.lax.dynamic_index_in_dim(leaf, microbatch, keepdims=False) if is_whole else leaf[0]  # noqa: E731
        some, named = _jax.tree.unflatten(structure, [take(leaf) for leaf in args[len(constants) :]])
        return function.function(*own, *given, *some, **named, **words)

    specs = [of_replica(leaf) for leaf in moving]
    seen = [*constants, *(jax.ShapeDtypeStruct(spec.shape[1:], spec.dtype) for spec in specs)]
    axes = [*(None for _ in constants), *(1 for _ in specs)]
    return _Given(leaves=[*constants, *specs], seen=seen, axes=axes, call=call, is_whole=is_whole)


def _stage(
    function: WrittenStage,
    number: int,
    given: _Given,
    params: Pytree,
    aux: Pytree,
    key_impl: str | None,
    *,
    gradient: bool,
    marks: bool,
) -> tuple[Stage, list[WatchMark]]:
    """(the stage, its marks). Args: gradient: whether its arguments need one. marks: whether its marks count."""
    if function.wants_key == "must" and key_impl is None:
        raise ValueError(f"stage {number} ({function.name}) asks for a random key: give step() or run() a key, such as jax.random.key(0)")
    placement = function.placement
    params_spec, shardings = _jax.tree.map(spec_of, params), tuple(leaf.sharding for leaf in _jax.tree.leaves(params))
    aux_spec = _jax.tree.map(lambda leaf: _less(spec_of(leaf), placement), aux)
    aux_leaves, aux_structure = _jax.tree.flatten(aux_spec)
    count, with_aux = len(given.leaves), bool(aux_leaves)
    keyed = key_impl is not None and function.wants_key != "no"

    def call(params: Pytree, args: Sequence[jax.Array]) -> tuple[tuple[Any, ...], Any]:
        params, args = _jax.tree.map(_strong, params), [_strong(leaf) for leaf in args]
        own = (params, _jax.tree.unflatten(aux_structure, args[count : count + len(aux_leaves)])) if with_aux else (params,)
        words = {KEY: _key(key_impl, number, *args[-2:])} if keyed else {}
        result = given.call(own, args[:count], args[-1] if given.is_whole else None, words)
        if not with_aux:
            return _spread(result), aux_spec
        outputs, new = _with_aux(function, number, result)
        return _spread(outputs), _require_alike(function, number, aux_spec, new)

    extras = [jax.ShapeDtypeStruct(_key_shape(key_impl), np.uint32)] if keyed else []
    if keyed or given.is_whole:
        extras.append(jax.ShapeDtypeStruct((), np.int32))
    leaves = [*given.leaves, *aux_leaves, *extras]
    outputs, closed, found = _outputs(function, number, call, params_spec, leaves, given.seen, marks=marks)
    stage = Stage(
        number=number,
        placement=placement,
        call=call,
        params=params_spec,
        param_shardings=shardings,
        args=tuple(leaves),
        axes=(*given.axes, *(0 for _ in aux_leaves), *(None for _ in extras)),
        aux=aux_spec,
        needs_gradient=tuple(index for index, leaf in enumerate(given.leaves) if gradient and is_real(leaf)),
        outputs=outputs,
        text=f"{closed.jaxpr} {[np.asarray(value).tolist() for value in closed.consts]}",
        own_gradients=tuple(own_gradients(closed.jaxpr)),
    )
    return stage, found


def _key(key_impl: str | None, number: int, data: Any, microbatch: jax.Array) -> Any:
    """The random key of a stage, a replica and a microbatch: it depends on these and the run's alone."""
    key = _jax.random.fold_in(_jax.random.wrap_key_data(data, impl=key_impl), number)
    return _jax.random.fold_in(key, microbatch * replica_count() + replica_index())


def _key_shape(key_impl: str | None) -> tuple[int, ...]:
    return _jax.eval_shape(lambda: _jax.random.key_data(_jax.random.key(0, impl=key_impl))).shape


def _less(spec: Spec, placement: StagePlacement) -> Any:
    """One replica's."""
    return spec if placement.replicas is None else jax.ShapeDtypeStruct(spec.shape[1:], spec.dtype)


def _with_aux(function: WrittenStage, number: int, result: Pytree) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"stage {number} ({function.name}) has auxiliary state: it must return (outputs, the new state)")
    return result


def _require_alike(function: WrittenStage, number: int, old: Pytree, new: Pytree) -> Any:
    """Raises: TypeError if the auxiliary state has changed its shapes or dtypes."""
    said: Callable[[Any], str] = lambda leaf: f"{leaf.dtype}{list(leaf.shape)}"  # noqa: E731
    new = _jax.tree.map(_strong, new)
    after, before = _jax.tree.map(said, new), _jax.tree.map(said, old)
    if after != before:
        raise TypeError(
            f"stage {number} ({function.name}) has auxiliary state {before}, but returned {after}: structure, shapes and dtypes must stay"
        )
    return new


def _outputs(
    function: WrittenStage,
    number: int,
    call: Callable[..., Any],
    params: Pytree,
    args: Sequence[Spec],
    seen: Sequence[Spec],
    *,
    marks: bool,
) -> tuple[Any, ClosedJaxpr, list[WatchMark]]:
    """(shapes and dtypes of a stage's outputs, what it computes, its marks).

    Args: seen: what its function gets of `args`. marks: whether marks count.
    Raises: what its function raises, with a note; ValueError for a captured array.
    """
    try:
        trace_it = functools.partial(function.placement.traced, call, params, list(args))
        closed, (outputs, _) = traced_with_marks(trace_it) if marks else trace_it()
    except Exception as error:
        error.add_note(
            function.note(number, f"with arguments {shown([str(_jax.core.ShapedArray(leaf.shape, leaf.dtype)) for leaf in seen])}")
        )
        raise
    captured = [value for value in closed.consts if getattr(value, "ndim", 0)]
    if captured:
        names = shortened(", ".join(_captured_name(function.function, value) for value in captured), 200)
        raise ValueError(
            f"stage {number} ({function.name}) has captured {names}: what a stage computes with must come as a parameter, from the stage "
            "before or from `inputs`, for it may be on another device"
        )
    return outputs, closed, marks_of(closed.jaxpr) if marks else []


def _spread(result: Pytree) -> tuple[Any, ...]:
    """A stage's result as arguments of the next one: a tuple's items, anything else as it is."""
    result = _jax.tree.map(_strong, result)
    return tuple(result) if isinstance(result, tuple) else (result,)


def _strong(leaf: jax.Array) -> Any:
    """A value whose dtype counts in what is computed with it. Weak types of JAX end where a stage does: programs are compiled without."""
    if not hasattr(leaf, "dtype"):
        leaf = _jax.numpy.asarray(leaf)
    return _jax.lax.convert_element_type(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf


def _captured_name(function: Any, value: jax.Array) -> str:
    """How the author called an array that a function has captured."""
    text = f"{value.dtype}[{','.join(map(str, value.shape))}]"
    inner = inspect.unwrap(function)
    variables = inspect.getclosurevars(inner) if inspect.isfunction(inner) else None
    for name, variable in {**variables.nonlocals, **variables.globals}.items() if variables is not None else ():
        alike = isinstance(variable, np.ndarray | jax.Array) and (variable.shape, variable.dtype) == (value.shape, value.dtype)
        if alike and np.array_equal(np.asarray(variable), np.asarray(value)):
            return f"{name} ({text})"
    return f"an array {text}"
