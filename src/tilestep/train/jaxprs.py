"""A traced function as equations that can be told apart: which of them an output needs, and what goes from one set of them to another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from jax.extend.core import DebugInfo, DropVar, Jaxpr, Literal

from tilestep.train.untyped import jax as _jax

# Equations that stand for a function's, by the parameter that has it. A checkpoint's are computed again wherever they are.
_CALLS: Final = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}
_AGAIN: Final = ("checkpoint", "remat2")


def flat_jaxpr(function: Callable[..., Any], *args: Any) -> Any:
    """What JAX traces of a function of arrays, closed, with the equations of what it calls in place of the calls."""
    return _jax.make_jaxpr(inlined(_jax.make_jaxpr(function)(*args)))(*_jax.tree.leaves(args))


def inlined(closed: Any, calls: Collection[str] = tuple(_CALLS)) -> Callable[..., list[Any]]:
    """What is traced, as a function that makes no calls by these primitives."""
    return lambda *leaves: _evaluated(closed.jaxpr, closed.consts, leaves, calls)


def is_variable(atom: Any) -> bool:
    """Whether it is no constant."""
    return not isinstance(atom, Literal)


def called(equation: Any) -> Any | None:
    """The equations of the function for which an equation stands; None if it stands for itself."""
    inner = equation.params.get(_CALLS.get(equation.primitive.name, ""))
    inner = getattr(inner, "jaxpr", inner)
    return inner if inner is not None and len(inner.invars) == len(equation.invars) else None


def needed(equations: Sequence[Any], outputs: Iterable[Any], without: Collection[Any] = ()) -> list[Any]:
    """Of `equations` those that `outputs` need, in order, if the values in `without` are there anyway."""
    wanted = {atom for atom in outputs if is_variable(atom)} - set(without)
    found: list[Any] = []
    for equation in reversed(equations):
        if wanted.isdisjoint(equation.outvars):
            continue
        found.append(equation)
        wanted.difference_update(equation.outvars)
        wanted.update(atom for atom in equation.invars if is_variable(atom) and atom not in without)
    return found[::-1]


def read_by(equations: Iterable[Any], outputs: Iterable[Any]) -> list[Any]:
    """The variables that equations or outputs read, and no equation of them makes: each once, in order."""
    made: set[Any] = set()
    read: dict[Any, None] = {}
    for equation in equations:
        read.update(dict.fromkeys(atom for atom in equation.invars if is_variable(atom) and atom not in made))
        made.update(equation.outvars)
    read.update(dict.fromkeys(atom for atom in outputs if is_variable(atom) and atom not in made))
    return list(read)


def computed(equations: Sequence[Any], values: Mapping[Any, Any], outputs: Sequence[Any]) -> list[Any]:
    """The values of `outputs`. Equations keep the names and places in the source that they have. Args: values: of all variables that
    `read_by` names."""
    read = read_by(equations, outputs)
    names = DebugInfo("jit", "equations", ("",) * len(read), ("",) * len(outputs))
    return _jax.core.eval_jaxpr(Jaxpr((), read, outputs, equations, debug_info=names), (), *[values[variable] for variable in read])


def halves(closed: Any, first: int) -> tuple[Callable[[Sequence[Any]], tuple[list[Any], list[Any]]], Callable[..., list[Any]]]:
    """A function's work in two: first its `first` outputs, then the others, for which nothing is computed again that has arguments.

    Args: closed: of `flat_jaxpr`.
    Returns: (arguments -> (the first outputs, what the other half takes over), (arguments, what it takes over) -> the other outputs).
    """
    jaxpr = closed.jaxpr
    early, late = jaxpr.outvars[:first], jaxpr.outvars[first:]
    has_effects = any(equation.effects for equation in jaxpr.eqns)  # which keep their order, and come once: all is done at first
    before = jaxpr.eqns if has_effects else needed(jaxpr.eqns, early)
    given = {*jaxpr.invars, *jaxpr.constvars}
    moving = set(jaxpr.invars)  # what depends on an argument
    for equation in jaxpr.eqns:
        if not moving.isdisjoint(atom for atom in equation.invars if is_variable(atom)):
            moving.update(equation.outvars)
    made = {variable for equation in before for variable in equation.outvars if has_effects or variable in moving}
    after = needed(jaxpr.eqns, late, without=made)
    read = read_by(after, late)
    crossing = [variable for variable in read if variable in made]
    assert given.issuperset(variable for variable in read if variable not in made)  # all else is computed again
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))

    def now(args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        found = computed(before, constants | dict(zip(jaxpr.invars, args, strict=True)), [*early, *crossing])
        return found[:first], found[first:]

    def later(args: Sequence[Any], crossed: Sequence[Any]) -> list[Any]:
        values = constants | dict(zip(jaxpr.invars, args, strict=True)) | dict(zip(crossing, crossed, strict=True))
        return computed(after, values, late)

    return now, later


def _evaluated(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], calls: Collection[str]) -> list[Any]:
    values = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = equation.params.get(_CALLS[name]) if name in calls else None
        if inner is None:
            made = [variable for variable in equation.outvars if not isinstance(variable, DropVar)]
            values.update(zip(made, computed([equation], values, made), strict=True))
            continue
        operands = [_read(values, atom) for atom in equation.invars]
        if name in _AGAIN and equation.params["differentiated"] and equation.params["prevent_cse"] is not False:
            operands = _jax.lax.optimization_barrier(operands)  # so that it stays where it is
        with _jax.named_scope(str(equation.params.get("name", name))):
            found = _evaluated(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands, calls)
        values.update(zip(equation.outvars, found, strict=True))
    return [_read(values, atom) for atom in jaxpr.outvars]


def _read(values: Mapping[Any, Any], atom: Any) -> Any:
    return values[atom] if is_variable(atom) else atom.val
