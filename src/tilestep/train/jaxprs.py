"""Traced functions as equations: which equations an output needs, which values cross from one set to another, and tables of primitives."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import jax
from jax.extend.core import ClosedJaxpr, DebugInfo, DropVar, Jaxpr, JaxprEqn, Literal, Var

from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

# Primitives that call a function, and the parameter that has its equations.
CALLS: Final = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}
CHECKPOINTS: Final = ("checkpoint", "remat2")  # calls whose equations are computed again in the backward pass
PLAIN_CALLS: Final = ("jit", "pjit", "closed_call")  # calls that are differentiated as their equations are
INLINE_CALLS: Final = tuple(name for name in CALLS if name not in CHECKPOINTS)  # calls that may be replaced by their equations

# Primitives that compute each element of their result from the same element of their operands, or from scalars.
ELEMENTWISE: Final = frozenset({
    "abs", "add", "add_any", "and", "asin", "atan", "atan2", "cbrt", "ceil", "clamp", "complex", "conj", "convert_element_type", "copy",
    "copy_p", "cos", "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "imag", "integer_pow",
    "is_finite", "le", "log", "log1p", "log2", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not", "one_minus_square",
    "or", "polynomial", "pow", "real", "reduce_precision", "rem", "round", "rsqrt", "select_n", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor",
})  # fmt: skip
# Primitives that only move elements.
MOVES: Final = frozenset({
    "broadcast_in_dim", "concatenate", "iota", "pad", "reshape", "rev", "slice", "split", "squeeze", "transpose",
})  # fmt: skip


def flat_jaxpr(function: Callable[..., Pytree], *args: Pytree) -> ClosedJaxpr:
    """The traced function, with the equations of called functions in place of the calls."""
    return flat_jaxpr_and_structure(function, *args)[0]


def flat_jaxpr_and_structure(function: Callable[..., Pytree], *args: Pytree) -> tuple[ClosedJaxpr, Any]:
    """(the function as `flat_jaxpr` has it, the structure of its result)."""
    closed, result = _jax.make_jaxpr(function, return_shape=True)(*args)
    return _jax.make_jaxpr(inlined(closed))(*_jax.tree.leaves(args)), _jax.tree.structure(result)


def inlined(closed: ClosedJaxpr, calls: Collection[str] = tuple(CALLS)) -> Callable[..., list[jax.Array]]:
    """The traced function as one that makes no calls by these primitives."""
    return lambda *leaves: _evaluated(closed.jaxpr, closed.consts, leaves, calls)


def is_variable(atom: Var | Literal) -> TypeGuard[Var]:
    """Whether an operand or output is no constant."""
    return not isinstance(atom, Literal)


def spec_of(atom: Var | Literal) -> Spec:
    """The shape and dtype of an operand or output."""
    return atom.aval


def called(equation: JaxprEqn) -> Jaxpr | None:
    """The function that an equation calls; None for an equation that is no call."""
    inner = equation.params.get(CALLS.get(equation.primitive.name, ""))
    inner = getattr(inner, "jaxpr", inner)
    return inner if inner is not None and len(inner.invars) == len(equation.invars) else None


def programs_of(equation: JaxprEqn) -> Iterator[Any]:
    """The programs among an equation's parameters, such as a loop's body: open or closed, which both have `eqns`."""
    for value in equation.params.values():
        parts: Sequence[Any] = value if isinstance(value, tuple | list) else (value,)
        yield from (part for part in parts if hasattr(getattr(part, "jaxpr", part), "eqns"))


def with_equations(program: Any, equations: Sequence[JaxprEqn]) -> Any:
    """A program with other equations. Args: program: open or closed. Since JAX 0.12 both are of one class, whose `jaxpr` is itself."""
    opened: Any = getattr(program, "jaxpr", program)
    changed = opened.replace(eqns=equations)
    return changed if opened is program else program.replace(jaxpr=changed)


def loop_operands(equation: JaxprEqn) -> tuple[int, int]:
    """(how many constants, how many carried values) come first among a scan's operands. The others are rows: each step gets one of them.

    The shapes say it. JAX's own parameter for it has changed its name.
    """
    body: Any = equation.params["jaxpr"]
    rows = _with_more_axes(equation.invars, body.invars)
    carried = len(equation.outvars) - _with_more_axes(equation.outvars, body.outvars)
    return len(equation.invars) - carried - rows, carried


def _with_more_axes(outside: Iterable[Var | Literal], inside: Iterable[Var | Literal]) -> int:
    """How many values of a loop have an axis more than their counterparts in one step."""
    return sum(len(spec_of(outer).shape) > len(spec_of(inner).shape) for outer, inner in zip(outside, inside, strict=True))


def needed(equations: Sequence[JaxprEqn], outputs: Iterable[Var | Literal], without: Collection[Var] = ()) -> list[JaxprEqn]:
    """The equations that `outputs` need, in order, if the values in `without` are known."""
    unknown = {atom for atom in outputs if is_variable(atom)} - set(without)
    result: list[JaxprEqn] = []
    for equation in reversed(equations):
        if unknown.isdisjoint(equation.outvars):
            continue
        result.append(equation)
        unknown.difference_update(equation.outvars)
        unknown.update(atom for atom in equation.invars if is_variable(atom) and atom not in without)
    return result[::-1]


def read_by(equations: Iterable[JaxprEqn], outputs: Iterable[Var | Literal]) -> list[Var]:
    """The variables that equations or outputs read and none of the equations computes: each once, in order."""
    results: set[Var] = set()
    read: dict[Var, None] = {}
    for equation in equations:
        read.update(dict.fromkeys(atom for atom in equation.invars if is_variable(atom) and atom not in results))
        results.update(equation.outvars)
    read.update(dict.fromkeys(atom for atom in outputs if is_variable(atom) and atom not in results))
    return list(read)


def computed(equations: Sequence[JaxprEqn], values: Mapping[Var, jax.Array], outputs: Sequence[Var | Literal]) -> list[jax.Array]:
    """The values of `outputs`. Equations keep their names and source locations.

    Args: values: of all variables that `read_by` names.
    """
    read = read_by(equations, outputs)
    names = DebugInfo("jit", "equations", ("",) * len(read), ("",) * len(outputs))
    return _jax.core.eval_jaxpr(Jaxpr((), read, outputs, equations, debug_info=names), (), *[values[variable] for variable in read])


def is_real(leaf: Any) -> bool:
    """Whether an array, or the shape of one, has a gradient: real or complex numbers have, integers and random keys have none."""
    dtype = leaf.dtype if hasattr(leaf, "dtype") else _jax.dtypes.result_type(leaf)
    return bool(_jax.numpy.issubdtype(dtype, _jax.numpy.inexact))


def own_gradients(program: Any) -> Iterator[JaxprEqn]:
    """The calls of functions of `jax.custom_vjp` in a program, open or closed, and in its loops and branches."""
    for equation in getattr(program, "jaxpr", program).eqns:
        if equation.primitive.name == "custom_vjp_call":
            yield equation
        else:
            for inner in programs_of(equation):
                yield from own_gradients(inner)


def gradient_of(equation: JaxprEqn) -> tuple[Callable[..., Any], Sequence[Spec]]:
    """The gradient of one equation: (a function of its operands, their specs)."""
    read = read_by([equation], ())
    real, outputs = ([variable for variable in own if is_real(spec_of(variable))] for own in (read, equation.outvars))

    def gradient(*operands: jax.Array) -> Any:
        known = dict(zip(read, operands, strict=True))
        values, pullback = _jax.vjp(
            lambda *given: computed([equation], known | dict(zip(real, given, strict=True)), outputs), *(known[each] for each in real)
        )
        return pullback([_jax.numpy.ones_like(value) for value in values])

    return gradient, [spec_of(variable) for variable in read]


def halves(
    closed: ClosedJaxpr, first: int
) -> tuple[Callable[[Sequence[jax.Array]], tuple[list[jax.Array], list[jax.Array]]], Callable[..., list[jax.Array]]]:
    """Cuts a function in two: the first half computes its `first` outputs, the second half the others.

    The second half computes only values again that depend on no argument.

    Args: closed: from `flat_jaxpr`.
    Returns: (arguments -> (the first outputs, values that cross), (arguments, values that cross) -> the other outputs).
    """
    jaxpr = closed.jaxpr
    early, late = jaxpr.outvars[:first], jaxpr.outvars[first:]
    has_effects = any(equation.effects for equation in jaxpr.eqns)  # they keep their order and happen once: all are in the first half
    before = jaxpr.eqns if has_effects else needed(jaxpr.eqns, early)
    inputs = {*jaxpr.invars, *jaxpr.constvars}
    dependent = set(jaxpr.invars)  # on an argument
    for equation in jaxpr.eqns:
        if not dependent.isdisjoint(atom for atom in equation.invars if is_variable(atom)):
            dependent.update(equation.outvars)
    known = {variable for equation in before for variable in equation.outvars if has_effects or variable in dependent}
    after = needed(jaxpr.eqns, late, without=known)
    read = read_by(after, late)
    crossing = [variable for variable in read if variable in known]
    assert inputs.issuperset(variable for variable in read if variable not in known)
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))

    def first_half(args: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        results = computed(before, constants | dict(zip(jaxpr.invars, args, strict=True)), [*early, *crossing])
        return results[:first], results[first:]

    def second_half(args: Sequence[jax.Array], crossed: Sequence[jax.Array]) -> list[jax.Array]:
        values = constants | dict(zip(jaxpr.invars, args, strict=True)) | dict(zip(crossing, crossed, strict=True))
        return computed(after, values, late)

    return first_half, second_half


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[jax.Array], calls: Collection[str]) -> list[jax.Array]:
    values = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    plain: list[JaxprEqn] = []  # equations in a row that are no calls: together they are evaluated faster than one by one
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = equation.params.get(CALLS[name]) if name in calls else None
        if inner is None:
            plain.append(equation)
            continue
        values.update(_computed_all(plain, values))
        plain.clear()
        operands = [_read(values, atom) for atom in equation.invars]
        if name in CHECKPOINTS and equation.params["differentiated"] and equation.params["prevent_cse"] is not False:
            operands = _jax.lax.optimization_barrier(operands)  # so that the compiler does not merge it with the first computation
        with _jax.named_scope(str(equation.params.get("name", name))):
            results = _evaluated(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands, calls)
        values.update(zip(equation.outvars, results, strict=True))
    values.update(_computed_all(plain, values))
    return [_read(values, atom) for atom in jaxpr.outvars]


def _computed_all(equations: Sequence[JaxprEqn], values: Mapping[Var, jax.Array]) -> dict[Var, jax.Array]:
    """All results of equations."""
    outputs = [variable for equation in equations for variable in equation.outvars if not isinstance(variable, DropVar)]
    return dict(zip(outputs, computed(equations, values, outputs), strict=True)) if equations else {}


def _read(values: Mapping[Var, jax.Array], atom: Var | Literal) -> jax.Array:
    return atom.val if isinstance(atom, Literal) else values[atom]
