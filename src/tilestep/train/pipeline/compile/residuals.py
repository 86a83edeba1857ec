"""Chooses the values that a stage keeps from forward for backward.

It keeps no value that exists anyway: not the stage's arguments, which the task runner holds, and no value that depends on the weights
alone, because backward computes it from the weights that it gets. So if weights have changed meanwhile, backward computes with the new
weights and the old activations.

JAX says which other values backward reads: for `gelu(x)` six arrays of the size of `x`. One program would never write them to memory,
because it computes them where it reads them; two programs have to agree on some. Backward may compute elementwise values again. The
smallest set from which it can then get all that it reads is a minimum cut through the graph of forward's values, where each value weighs
its bytes: here `x` alone. [A maximum flow gives a minimum cut: Ford and Fulkerson, Maximal flow through a network, Canadian Journal of
Mathematics 8 (1956).]
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import DropVar, Jaxpr, JaxprEqn, Var

from tilestep.train.jaxprs import ELEMENTWISE, MOVES, PLAIN_CALLS, called, computed, inlined, is_variable, needed, read_by, spec_of
from tilestep.train.pipeline.compile.packing import SMALL_BYTES
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.untyped import Atom
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

# Primitives whose results are fused into what reads them: each of their elements comes of a few elements of the operands, and has no jumps
# but where it is not of floats any more. What marks a value (`name`, and `reduce_precision`, with which `jax.checkpoint` guards what its
# policy saves) is not among them: it is kept.
_FUSED: Final = (ELEMENTWISE | MOVES) - {
    *("asin", "atan", "atan2", "cbrt", "cosh", "erf_inv", "erfc", "sinh"),  # costly
    *("ceil", "floor", "is_finite", "nextafter", "rem", "round", "sign"),  # with jumps
    *("copy_p", "reduce_precision"),  # marks
}
_LONGEST: Final = 16  # chain of these that is computed again: one of `gelu` or of a norm has about ten
_RANDOM_KEY_BYTES: Final = 16  # JAX does not say them
_MOST_FLOW: Final = 2**30  # SciPy computes with 32 bits
_ENDLESS: Final = 2**31 - 1
_START, _END = 0, 1  # nodes of the graph

_Forward = Callable[[Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any], list[Any]]]
Linearise = Callable[
    [Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any], Any]
]  # (parameters' leaves, arguments) -> (the outputs' leaves, the auxiliary state's, the function of the backward pass)


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """How forward and backward share what is computed."""

    forward: _Forward  # (parameters' leaves, arguments) -> (leaves of the outputs, of the auxiliary state, kept values)
    specs: tuple[Any, ...]  # shapes and dtypes of the kept values
    away: tuple[int, ...]  # indices of those in the host's memory, where a policy of `jax.checkpoint` may put them
    kept_args: tuple[int, ...]  # indices of the arguments that backward reads
    kept_params: tuple[int, ...]  # indices of the parameters' leaves that it reads
    # (these parameters, these arguments, kept values) -> the function of the backward pass
    pullback: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Callable[[Sequence[Any]], Any]]


def residuals(
    placement: StagePlacement,
    linearise: Linearise,
    params: Sequence[jax.Array],
    args: Sequence[jax.Array],
    wanted: Sequence[Atom],
    *,
    least: bool,
) -> Residuals:
    """How a stage's forward and backward share their work.

    Args: params, args: shapes and dtypes. wanted: of what the function of the backward pass takes. least: whether what goes element by
        element may be computed again.
    """
    structure: Any = None
    counts = 0, 0

    def linearised(params: Sequence[jax.Array], args: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
        nonlocal structure, counts
        outputs, aux, pullback = linearise(params, args)
        leaves, structure = _jax.tree.flatten(pullback)
        counts = len(outputs), len(aux)
        return outputs, aux, leaves

    def passed_back(values: Sequence[jax.Array], gradients: Sequence[jax.Array]) -> Any:
        return _jax.tree.unflatten(structure, values)(list(gradients))

    closed = placement.traced(linearised, list(params), list(args))[0]
    if least:
        closed = placement.traced(inlined(closed, PLAIN_CALLS), *params, *args)[0]
    jaxpr, start = closed.jaxpr, sum(counts)
    own_params, own_args, leaves = jaxpr.invars[: len(params)], jaxpr.invars[len(params) :], jaxpr.outvars[start:]
    backward = placement.traced(passed_back, [_spec(atom) for atom in leaves], list(wanted))[0].jaxpr
    is_read = _read(backward, [True] * len(backward.outvars))[: len(leaves)]
    read = [atom for atom, is_needed in zip(leaves, is_read, strict=True) if is_needed and is_variable(atom)]
    kept = list(dict.fromkeys(_least(jaxpr, own_args, read, _FUSED if least else frozenset())))
    remade = needed(jaxpr.eqns, read, without=set(kept))
    takes = set(read_by(remade, read))
    values = [variable for variable in kept if variable not in own_args]
    kept_args = tuple(index for index, variable in enumerate(own_args) if variable in kept)
    kept_params = tuple(index for index, variable in enumerate(own_params) if variable in takes)
    # Within JAX's mesh of replicas and a stage's own devices equations would have to be traced once more.
    traces_again = placement.replicas is not None and placement.is_mesh
    if traces_again and remade:
        kept_params = tuple(range(len(params)))
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))

    def by_variable(linear: Sequence[jax.Array]) -> dict[Atom, Any]:
        return {atom: value for atom, value in zip(leaves, linear, strict=True) if is_variable(atom)}

    def forward(params: Sequence[jax.Array], args: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
        if traces_again:
            outputs, aux, linear = linearised(params, args)
            known = by_variable(linear)
            return outputs, aux, [known[variable] for variable in values]
        given, results = constants | dict(zip(jaxpr.invars, [*params, *args], strict=True)), [*jaxpr.outvars[:start], *values]
        is_looked_at = not any(isinstance(value, _jax.core.Tracer) for value in given.values())  # disable_jit, or debug_nans has found one
        if is_looked_at and not jaxpr.effects:  # then the stage's own lines run, with values
            linearise(params, args)
        everything = computed(jaxpr.eqns, given, results)
        return everything[: counts[0]], everything[counts[0] : start], everything[start:]

    def pullback(
        params: Sequence[jax.Array], args: Sequence[jax.Array], kept_values: Sequence[jax.Array]
    ) -> Callable[[Sequence[Any]], Any]:
        given = constants | dict(zip([own_params[index] for index in kept_params], params, strict=True))
        given |= dict(zip([own_args[index] for index in kept_args], args, strict=True)) | dict(zip(values, kept_values, strict=True))
        if not traces_again:
            given |= zip(read, computed(remade, given, read), strict=True)
        elif remade:  # values that depend on arguments are overwritten by those that forward has kept
            given = by_variable(linearised(params, list(map(_filler, own_args)))[2]) | given
        filled = [
            given[atom] if is_needed and is_variable(atom) else _filler(atom) for atom, is_needed in zip(leaves, is_read, strict=True)
        ]
        return lambda gradients: passed_back(filled, gradients)

    away = tuple(index for index, variable in enumerate(values) if spec_of(variable).memory_space == _jax.memory.Space.Host)
    specs = tuple(map(_spec, values))
    return Residuals(forward=forward, specs=specs, away=away, kept_args=kept_args, kept_params=kept_params, pullback=pullback)


def _spec(atom: Atom) -> Any:
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)


def _filler(atom: Atom) -> Any:
    """A constant, or zeros for a value that nobody reads."""
    return _jnp.zeros(spec_of(atom).shape, spec_of(atom).dtype) if is_variable(atom) else atom.val


def _least(jaxpr: Jaxpr, args: Sequence[Var], wanted: Sequence[Var], again: Collection[str]) -> list[Var]:
    """Variables that weigh least from which `wanted` can be computed, with parameters and constants, by the primitives in `again` alone.

    What depends on no argument can be computed by all, and weighs nothing.
    """
    numbers: dict[Atom, int] = {variable: number for number, variable in enumerate(args)}  # variables that depend on an argument
    sources: dict[Atom, list[Any]] = {}  # from which it can be computed again
    length: dict[Atom, int] = {}  # primitives one after the other in that computation
    for equation in jaxpr.eqns:
        operands = [atom for atom in equation.invars if is_variable(atom) and atom in numbers]
        if not operands and not equation.effects:
            continue
        chain = 1 + max((length.get(operand, 0) for operand in operands), default=0)
        is_again = chain <= _LONGEST and _is_elementwise(equation, again)
        for variable in equation.outvars:
            if not isinstance(variable, DropVar):
                numbers[variable] = len(numbers)
                if is_again:
                    sources[variable], length[variable] = list(dict.fromkeys(operands)), chain
    wanted = [variable for variable in wanted if variable in numbers]
    if sources.keys().isdisjoint(wanted):
        return wanted
    from scipy.sparse import csgraph, csr_array  # it takes 16 MiB, and training without a pipeline does without

    graphs: Any = csgraph  # whose types say nothing
    # Each variable is an edge of its weight, from where it is made to where it is read; an argument, which need not be written, weighs a
    # little less than another of its size.
    weights = [2 * _weight(variable) - (variable in args) for variable in numbers]
    unit = -(-sum(weights) // _MOST_FLOW)
    made, read = range(2, 2 * len(numbers) + 2, 2), range(3, 2 * len(numbers) + 2, 2)
    rows = [(made[number], read[number], max(1, weight // unit)) for number, weight in enumerate(weights)]
    for variable, number in numbers.items():
        from_where = [read[numbers[source]] for source in sources[variable]] if variable in sources else [_START]
        rows += [(source, made[number], _ENDLESS) for source in from_where]
    rows += [(read[numbers[variable]], _END, _ENDLESS) for variable in dict.fromkeys(wanted)]
    starts, ends, capacities = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    size = 2 * len(numbers) + 2
    graph: Any = csr_array((capacities, (starts, ends)), shape=(size, size))
    left = graph - graphs.maximum_flow(graph, _START, _END).flow
    left.data = np.maximum(left.data, 0)
    left.eliminate_zeros()
    # Of all least cuts the one nearest to the end: with it the fewest are computed again.
    behind = set(graphs.breadth_first_order(left.T.tocsr(), _END, return_predecessors=False).tolist())
    return [variable for variable, number in numbers.items() if read[number] in behind and made[number] not in behind]


def _is_elementwise(equation: JaxprEqn, again: Collection[str]) -> bool:
    """Whether an equation, or all in the function for which it stands, may be computed again."""
    inner = called(equation) if equation.primitive.name == "custom_jvp_call" else None
    if inner is not None:
        return bool(again) and all(_is_elementwise(own, again) for own in inner.eqns)
    return equation.primitive.name in again and not equation.effects and not _jumps(equation)


def _jumps(equation: JaxprEqn) -> bool:
    """Whether it makes of floats what is none, such as a comparison.

    With other roundings its results could be others: no element might be the greatest any more.
    """
    return not any(map(_is_float, equation.outvars)) and any(map(_is_float, equation.invars))


def _is_float(atom: Atom) -> bool:
    return _jnp.issubdtype(getattr(atom.aval, "dtype", np.int32), np.inexact)


def _weight(variable: Atom) -> int:
    """Bytes. A large array adds the bytes that a processor copies while the host passes one array; small ones share a pack."""
    aval = variable.aval
    if not hasattr(aval, "dtype"):
        return 1
    each = _RANDOM_KEY_BYTES if _jax.dtypes.issubdtype(aval.dtype, _jax.dtypes.extended) else aval.dtype.itemsize
    size = max(1, math.prod(aval.shape) * each)
    return size if size <= SMALL_BYTES else size + SMALL_BYTES


def _read(jaxpr: Jaxpr, wanted: Sequence[bool]) -> list[bool]:
    """Which arguments are read for the results that are wanted, functions that are jitted within looked into."""
    read = {variable for variable, is_wanted in zip(jaxpr.outvars, wanted, strict=True) if is_wanted and is_variable(variable)}
    for equation in reversed(jaxpr.eqns):
        results = [variable in read for variable in equation.outvars]
        if not any(results) and not equation.effects:
            continue
        inner = equation.params["jaxpr"].jaxpr if equation.primitive.name in ("jit", "pjit") and not equation.effects else None
        taken = [True] * len(equation.invars) if inner is None else _read(inner, results)
        read.update(variable for variable, is_taken in zip(equation.invars, taken, strict=True) if is_taken and is_variable(variable))
    return [variable in read for variable in jaxpr.invars]
