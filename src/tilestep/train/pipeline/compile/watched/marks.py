"""Marks of values inside a pipeline's stages, and how they come out of a traced function.

`watched` gives its argument back. While a pipeline that watches something traces its stages, it also leaves a mark: an equation of the
primitive below. A stage's function then becomes one that returns the marked values beside its results, without any mark. For a
gradient it takes one more argument, the slot, that adds nothing to the value. The slot's cotangent is that of the marked value.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Primitive, Var
from jax.interpreters import ad, batching, mlir

from tilestep.messages import shown
from tilestep.train.jaxprs import CHECKPOINTS, PLAIN_CALLS, computed, loop_operands, programs_of
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

_ad: Any = ad  # JAX's types don't tell what these modules hold
_batching: Any = batching
_mlir: Any = mlir

_MARK: Final = "watched"  # the primitive's name
_LOOP: Final = "scan"

# (parameters, leaves of the arguments, slots by name) -> (the function's result, marked values by name)
Extracted = Callable[[Pytree, Sequence[jax.Array], Mapping[str, jax.Array]], tuple[Any, dict[str, jax.Array]]]


def watched(x: Any, name: str) -> Any:
    """The same value, marked so that a pipeline can return it: `Pipeline(..., watch=[name])`. Anywhere else the mark is nothing.

    A mark in what `jax.vmap` maps is of the values of all, with the mapped axis first. In the body of `jax.lax.scan` it is of the values
    of all iterations, with a leading axis of them. In `jax.jit`, `jax.checkpoint` and `jax.grad` it is what it is outside. In branches
    and bodies of `jax.lax.cond`, `switch` and `while_loop`, which may not run or run often, and in functions with gradients of their own,
    it can not be watched.

    Args:
        x: an array or a number.
        name: of the value, one of its own in the pipeline.

    Returns:
        `x`.

    Raises:
        TypeError: if `x` is no array of numbers, or the name no text.
        ValueError: if the name is empty.
    """
    if not isinstance(name, str):
        raise TypeError(f'name is {shown(name)}: it must be a text, as in watched(x, "hidden")')
    if not name:
        raise ValueError('name is empty: give the value one, as in watched(x, "hidden")')
    dtype = getattr(x, "dtype", None)
    if dtype is None and not isinstance(x, bool | int | float | complex):
        raise TypeError(f"x is a {type(x).__name__}: watched() marks one array; mark each array of a tree by itself")
    if dtype is not None and _jax.dtypes.issubdtype(dtype, _jax.dtypes.extended):
        raise TypeError("x is a random key: mark jax.random.key_data(key)")
    if dtype is not None and not (_jax.dtypes.issubdtype(dtype, np.number) or _jax.dtypes.issubdtype(dtype, np.bool_)):
        raise TypeError(f"x is an array of {dtype}: watched() marks an array of numbers")
    if not _is_watching():
        return x
    return _mark_p.bind(_jnp.asarray(x), name=name)


@functools.cache
def _watching() -> Any:
    """Whether what is being traced is a stage whose marks count; JAX's caches tell both apart."""
    return _jax.make_user_context(False)


def prepare_to_watch() -> None:
    """Lets JAX's caches know of marks, before a pipeline compiles anything: JAX compiles anew, once, what was compiled before."""
    _watching()


def _is_watching() -> bool:
    return _watching.cache_info().currsize > 0 and bool(_watching().value)


_mark_p: Any = Primitive(_MARK)
_mark_p.def_impl(lambda x, *, name: x)
_mark_p.def_abstract_eval(lambda aval, *, name: aval)
_mlir.register_lowering(_mark_p, lambda _, x, *, name: [x])


def _differentiated(primals: Sequence[Any], tangents: Sequence[Any], *, name: str) -> tuple[Any, Any]:
    return _mark_p.bind(primals[0], name=name), tangents[0]


def _mapped(operands: Sequence[Any], axes: Sequence[int], *, name: str) -> tuple[Any, int]:
    return _mark_p.bind(_jnp.moveaxis(operands[0], axes[0], 0), name=name), 0


_ad.primitive_jvps[_mark_p] = _differentiated
_batching.primitive_batchers[_mark_p] = _mapped


class WatchMark(NamedTuple):
    """A value that is marked in a traced function."""

    name: str  # name of the mark
    spec: Spec  # its shape and dtype, with leading axes of the loops around it
    inside: str | None  # the primitive out of which it can not come, such as "cond"; None: it can come out


def marks_of(jaxpr: Jaxpr) -> list[WatchMark]:
    """All marks in a traced function, in its order."""
    found: list[WatchMark] = []
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == _MARK:
            aval: Spec = equation.outvars[0].aval
            found.append(WatchMark(equation.params["name"], jax.ShapeDtypeStruct(aval.shape, aval.dtype), None))
            continue
        for mark in (mark for inner in programs_of(equation) for mark in marks_of(inner)):
            if name == _LOOP:
                shape = (equation.params["length"], *mark.spec.shape)
                found.append(mark._replace(spec=jax.ShapeDtypeStruct(shape, mark.spec.dtype)))
            else:
                found.append(mark if _is_open(name) else mark._replace(inside=mark.inside or name))
    return found


def _is_open(name: str) -> bool:
    """Whether marks come out of an equation of this primitive."""
    return name in (*PLAIN_CALLS, *CHECKPOINTS, _LOOP)


def traced_with_marks(trace: Callable[[], Any]) -> Any:
    """The result of tracing something while marks count."""
    with _watching()(True):
        return trace()


def extracted(function: Callable[[Pytree, Sequence[jax.Array]], Pytree], names: frozenset[str]) -> Extracted:
    """A stage's function without its marks, which returns the values of those with these names, too.

    It traces the function each time, in the trace in which it is called, and computes its equations there.
    """

    def call(params: Pytree, args: Sequence[jax.Array], slots: Mapping[str, jax.Array]) -> tuple[Any, dict[str, jax.Array]]:
        closed, result = traced_with_marks(lambda: _jax.make_jaxpr(function, return_shape=True)(params, list(args)))
        leaves, seen = _Extraction(names, slots).of(closed.jaxpr, closed.consts, _jax.tree.leaves((params, list(args))))
        return _jax.tree.unflatten(_jax.tree.structure(result), leaves), seen

    return call


@_jax.custom_jvp
def _tapped(x: jax.Array, slot: jax.Array) -> jax.Array:
    """`x`, whose cotangent the slot gets, too. A sum with zeros would compute something."""
    del slot
    return x


@_tapped.defjvp
def _tapped_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return primals[0], tangents[0] + tangents[1]


class _Extraction:
    """Computes equations without their marks.

    Args: names: of the marks whose values are returned. slots: for the gradients of some of them.
    """

    def __init__(self, names: frozenset[str], slots: Mapping[str, jax.Array]) -> None:
        self._names, self._slots = names, slots

    def of(self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """(results, marked values by name)."""
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
        seen: dict[str, Any] = {}
        for equation in jaxpr.eqns:
            results, more = self._equation(equation, values)
            values |= results
            seen |= more
        return [_read(values, atom) for atom in jaxpr.outvars], seen

    def _equation(self, equation: JaxprEqn, values: Mapping[Any, Any]) -> tuple[dict[Any, Any], dict[str, Any]]:
        """(the results by their variables, marked values by name)."""
        name = equation.primitive.name
        inside = [] if name == _MARK else [mark.name for inner in programs_of(equation) for mark in marks_of(inner)]
        if name != _MARK and not (inside and _is_open(name)):
            outputs = [variable for variable in equation.outvars if not isinstance(variable, DropVar)]
            return dict(zip(outputs, computed([equation], values, outputs), strict=True)), {}
        operands = [_read(values, atom) for atom in equation.invars]
        if name == _MARK:
            results, seen = self._mark(equation.params["name"], operands[0])
        elif name in PLAIN_CALLS:
            inner: Any = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
            with _jax.named_scope(str(equation.params.get("name", name))):
                results, seen = self.of(inner.jaxpr, inner.consts, operands)
        else:
            results, seen = (self._loop if name == _LOOP else self._checkpoint)(equation, operands, self._slots_of(inside))
        return dict(zip(equation.outvars, results, strict=True)), seen

    def _mark(self, name: str, value: Any) -> tuple[list[Any], dict[str, Any]]:
        after = _tapped(value, self._slots[name]) if name in self._slots else value
        return [after], {name: value} if name in self._names else {}

    def _slots_of(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: self._slots[name] for name in names if name in self._slots}

    def _checkpoint(self, equation: JaxprEqn, operands: Sequence[Any], slots: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The same call of a function that returns marked values, too."""
        inner = equation.params["jaxpr"]
        inner = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())

        def function(operands: Sequence[Any], slots: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
            return _Extraction(self._names, slots).of(inner.jaxpr, inner.consts, operands)

        closed, result = _jax.make_jaxpr(function, return_shape=True)(list(operands), slots)
        body = closed.jaxpr
        opened = Jaxpr((), (*body.constvars, *body.invars), body.outvars, body.eqns, body.effects, body.debug_info)
        leaves = [*closed.consts, *_jax.tree.leaves((list(operands), slots))]
        results = equation.primitive.bind(*leaves, **{**equation.params, "jaxpr": opened})
        return _jax.tree.unflatten(_jax.tree.structure(result), results)

    def _loop(self, equation: JaxprEqn, operands: Sequence[Any], slots: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The same loop with marked values among what it stacks, and slots among what it goes over."""
        params, inner = equation.params, equation.params["jaxpr"]
        first, carried = loop_operands(equation)
        consts, start, rows = operands[:first], operands[first : first + carried], operands[first + carried :]

        def body(carry: Sequence[Any], row: tuple[Sequence[Any], Mapping[str, Any]]) -> tuple[list[Any], Any]:
            results, seen = _Extraction(self._names, row[1]).of(inner.jaxpr, inner.consts, [*consts, *carry, *row[0]])
            return results[:carried], (results[carried:], seen)

        options = {name: params[name] for name in ("length", "reverse", "unroll", "_split_transpose") if name in params}
        end, (stacked, seen) = _jax.lax.scan(body, list(start), (list(rows), dict(slots)), **options)
        return [*end, *stacked], seen


def _read(values: Mapping[Any, Any], atom: Var | Literal) -> Any:
    return atom.val if isinstance(atom, Literal) else values[atom]


def has_gradient(spec: Spec) -> bool:
    """Whether a value of such a dtype has one."""
    return bool(_jnp.issubdtype(spec.dtype, np.inexact))
