"""Loops whose steps are tiny, compiled so that a step is one kernel of the CPU instead of dozens.

XLA's CPU programs start each group of fused operations as a kernel of its own, which takes about a third of a microsecond: nearly all the
time of a step of thirty operations on a few hundred numbers. For small loops XLA has another way, a whole computation compiled in one
piece, to which it turns by itself only where there is no product of matrices and no scatter (its pass small-while-loop-hoisting, which
marks calls with the attribute used here). Here products are let in whose sizes the compiled piece multiplies well, and scatters are
written as loops. Values are those of the ordinary program to rounding.

It is done where all of this holds: the arrays are on one CPU device; each of the program's scans has a step of the operations listed
below, without effects, on few numbers; jaxlib is one with which it was tested; and the variable TILESTEP_TINY_STEPS is not false. All other
programs are compiled as they are.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, final

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from tilestep.settings import tiny_steps_wanted
from tilestep.train.jaxprs import ELEMENTWISE, INLINE_CALLS, MOVES, spec_of
from tilestep.train.offload import is_on_host
from tilestep.train.untyped import Pytree, Spec, Structure
from tilestep.train.untyped import jax as _jax

MOST_NUMBERS: Final = 1024  # of a value: in larger ones, kernels of their own cost little
MOST_PRODUCTS: Final = 8192  # multiplications of a product of matrices: of 8 x 32 x 32, where the compiled piece is still the faster
MOST_WORK: Final = 65536  # numbers that a step makes, and multiplications of its products
_LEAST_STEPS: Final = 2  # XLA takes a loop of one step apart, and then it would see the call's arguments

_OPTIONS: Final = {  # of the whole program: only products that the compiled piece can do
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_multi_thread_eigen": False,
}
_TESTED: Final = version("jaxlib").split(".")[:2] in (["0", "10"], ["0", "12"])
_ATTRIBUTES: Final = {"xla_cpu_small_call": "true", "inlineable": "false"}
_DTYPES: Final = frozenset({"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"})
OPERATIONS: Final = (ELEMENTWISE | MOVES | frozenset({
    "argmax", "argmin", "bitcast_convert_type", "dot_general", "dynamic_slice", "dynamic_update_slice", "expand_dims", "gather",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "scatter", "scatter-add", "stack", "unstack",
})) - {  # not tested
    "asin", "atan", "complex", "conj", "erf_inv", "erfc", "imag", "log2", "one_minus_square", "polynomial", "real", "reduce_precision",
}  # fmt: skip
_SCATTERS: Final = frozenset({"scatter", "scatter-add"})

_tracing = threading.local()  # .program: the _Traced of the program that this thread traces

Step = Callable[[Any, Any], tuple[Any, Any]]  # (carry, element) -> (carry, row of results)


@final
class Chosen:
    """A loop's program, jitted in the faster of the two ways, which the first call finds. Its scans of steps are calls of `scan`."""

    def __init__(self, run: Callable[..., Any], *, shardings: Pytree) -> None:
        """Args: run: donates its first argument. shardings: of what it returns."""
        self._run = run
        self._ordinary = _jax.jit(run, donate_argnums=0, out_shardings=shardings)
        self._call: Callable[..., Any] = self._first
        self._steps: list[_Step] = []  # tiny ones that have been seen: JAX traces what it knows no second time

    @property
    def is_quick(self) -> bool:
        """Whether the arguments of the last call were those of tiny steps."""
        return self._call not in (self._first, self._ordinary)

    def trace(self, *args: Pytree) -> Any:
        """What `jax.jit` says of the ordinary program."""
        return self._ordinary.trace(*args)

    def __call__(self, *args: Pytree) -> Any:
        try:
            return self._call(*args)
        except _OtherStepsError:
            return self._first(*args)

    def _first(self, *args: Pytree) -> Any:
        self._call = self._ordinary
        if _TESTED and tiny_steps_wanted() and _on_one_cpu(args):
            with _Traced() as found:
                self._ordinary.trace(*args)
            self._steps += found.steps
            if self._steps and not found.others:
                quick = self._quick()
                try:
                    result = quick(*args)
                except _OtherStepsError:
                    pass
                except jax.errors.JaxRuntimeError as error:  # of the compiler: nothing is donated yet
                    if "UNIMPLEMENTED" not in str(error):
                        raise
                else:
                    self._call = quick
                    return result
        return self._ordinary(*args)

    def _quick(self) -> Callable[..., Any]:
        def quick(*args: Pytree) -> Any:
            with _Traced(marks=True, steps=self._steps) as marked:
                return self._run(*args), marked.numbers

        quick.__name__ = quick.__qualname__ = self._run.__name__
        jitted = _jax.jit(quick, donate_argnums=0, compiler_options=_OPTIONS)
        return lambda *args: jitted(*args)[0]


def scan(step: Step, carry: Pytree, elements: Pytree, *, length: int) -> tuple[Pytree, Pytree]:
    """What `jax.lax.scan` gives; for the programs of Chosen."""
    program: _Traced | None = getattr(_tracing, "program", None)
    if program is None:
        return _jax.lax.scan(step, carry, elements, length=length)
    kinds = _jax.tree.map(_kind, (carry, _jax.tree.map(lambda rows: _jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype), elements)))
    away = any(map(is_on_host, _jax.tree.leaves((carry, elements))))  # which `kinds` do not tell
    if not program.marks:
        if away or length < _LEAST_STEPS or not all(map(_is_small, _jax.tree.leaves(kinds))):
            program.others = True
            return _jax.lax.scan(step, carry, elements, length=length)
        closed, returned = _jax.make_jaxpr(step, return_shape=True)(*kinds)
        known = _Step(closed=closed, kinds=kinds, structure=_jax.tree.structure(returned))
        if known.is_tiny:
            program.steps.append(known)
        else:
            program.others = True
        return _jax.lax.scan(known.ordinary, carry, elements, length=length)
    known = next((known for known in program.steps if known.kinds == kinds), None)
    if away or known is None or length < _LEAST_STEPS:
        raise _OtherStepsError
    number, carry, rows = _marked_scan(known, carry, elements, length)
    program.numbers.append(number)
    return carry, rows


@dataclass(frozen=True, kw_only=True)
class _Step:
    """A step that has been traced.

    Attributes: kinds: (of the carry, of an element). structure: of what it returns.
    """

    closed: ClosedJaxpr
    kinds: Any
    structure: Structure

    @property
    def is_tiny(self) -> bool:
        """Whether it can be compiled in one piece, and gains by it."""
        if self.closed.effects or not all(map(_is_small, self.closed.consts)):
            return False
        work = _work(self.closed.jaxpr)
        return work is not None and work <= MOST_WORK

    def ordinary(self, carry: Pytree, element: Pytree) -> tuple[Pytree, Pytree]:
        """As it is."""
        return _jax.tree.unflatten(self.structure, jaxpr_as_fun(self.closed)(*_jax.tree.leaves((carry, element))))


@dataclass
class _Traced:
    """What is found, or changed, while a program is traced.

    Attributes:
        marks: whether steps are marked; else it is only found which are tiny.
        steps: those that are.
        others: whether there are steps that are not.
        numbers: what the program must return beside.
    """

    marks: bool = False
    steps: list[_Step] = field(default_factory=list[_Step])
    others: bool = False
    numbers: list[Any] = field(default_factory=list[Any])

    def __enter__(self) -> _Traced:
        _tracing.program = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _tracing.program = None


class _OtherStepsError(Exception):
    """The program was chosen for arguments of other kinds, with which its steps were tiny."""


def _marked_scan(known: _Step, carry: Pytree, elements: Pytree, length: int) -> tuple[jax.Array, Pytree, Pytree]:
    """(a number, carry, rows) of a scan with a step that XLA compiles in one piece.

    XLA ends the process if a call that it compiles so has a parameter without a use, and it takes away uses that come to nothing. So each
    argument has a part in a number that the program returns. When XLA finds that a call is given a constant it puts that into the call, in
    the parameter's place: so what is the same in all steps is carried through the call.
    """
    closed = _unscattered(known.closed)
    program = closed.jaxpr.replace(constvars=[], invars=[*closed.jaxpr.constvars, *closed.jaxpr.invars])
    run = jaxpr_as_fun(closed.replace(jaxpr=program, consts=[]))

    def once(number: jax.Array, fixed: Sequence[jax.Array], carry: Pytree, element: Pytree) -> Any:
        with set_xla_metadata(**dict.fromkeys(_ATTRIBUTES)):
            leaves = _jax.tree.leaves((fixed, carry, element))
            for leaf in leaves:
                number = number ^ _bits(leaf)
            return number, fixed, *_jax.tree.unflatten(known.structure, run(*leaves))

    def body(state: Pytree, element: Pytree) -> Pytree:
        with set_xla_metadata(**_ATTRIBUTES):
            *state, rows = _jax.jit(once)(*state, element)
        return tuple(state), rows

    state = _jax.numpy.uint8(0), list(closed.consts), carry
    (number, _, carry), rows = _jax.lax.scan(body, state, elements, length=length)
    return number, carry, rows


def _bits(array: jax.Array) -> jax.Array:
    """Eight bits of an array's first number."""
    first = array[(0,) * array.ndim]
    if first.dtype == bool:
        return first.astype("uint8")
    bits = _jax.lax.bitcast_convert_type(first, f"uint{8 * first.dtype.itemsize}")
    return bits.astype("uint8")


def _work(program: Jaxpr) -> int | None:
    """How many numbers a jaxpr makes and multiplies; None if anything in it is unknown or too large."""
    total = 0
    for eqn in program.eqns:
        name = eqn.primitive.name
        if not all(_is_small(spec_of(v)) for v in eqn.outvars) or eqn.effects:
            return None
        total += sum(math.prod(spec_of(v).shape) for v in eqn.outvars)
        if name in INLINE_CALLS:
            for each in _programs(eqn):
                work = _work(each)
                if work is None:
                    return None
                total += work
        elif name == "dot_general":
            contracted = eqn.params["dimension_numbers"][0][0]
            products = math.prod(spec_of(eqn.outvars[0]).shape) * math.prod(spec_of(eqn.invars[0]).shape[d] for d in contracted)
            if products > MOST_PRODUCTS:
                return None
            total += products
        elif name in _SCATTERS:
            total += math.prod(spec_of(eqn.invars[2]).shape)
        elif name not in OPERATIONS:
            return None
    return total


def _is_small(kind: Spec) -> bool:
    return 0 < math.prod(kind.shape) <= MOST_NUMBERS and str(kind.dtype) in _DTYPES


def _programs(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """The jaxprs of an operation that has some."""
    for value in eqn.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):  # pyright: ignore[reportUnknownVariableType]
            inner = getattr(each, "jaxpr", each)  # pyright: ignore[reportUnknownArgumentType]
            if hasattr(inner, "eqns"):
                yield inner


def _unscattered(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with each of its scatters as a loop."""

    def changed(eqn: JaxprEqn) -> JaxprEqn:
        name = eqn.primitive.name
        if name in INLINE_CALLS:
            return eqn.replace(params={k: _unscattered(v) if hasattr(v, "jaxpr") else v for k, v in eqn.params.items()})
        if name not in _SCATTERS:
            return eqn
        scattered = functools.partial(_scattered, adds=name == "scatter-add", params=eqn.params)
        (call,) = _jax.make_jaxpr(_jax.jit(scattered))(*(v.aval for v in eqn.invars)).jaxpr.eqns
        return call.replace(invars=eqn.invars, outvars=eqn.outvars)

    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=[changed(eqn) for eqn in closed.jaxpr.eqns]))


def _scattered(operand: jax.Array, indices: jax.Array, updates: Pytree, *, adds: bool, params: Pytree) -> Any:
    """What `jax.lax.scatter` or `scatter_add` gives, one window of `updates` after the other."""
    lax, numpy, numbers = _jax.lax, _jax.numpy, params["dimension_numbers"]
    inside = numbers.update_window_dims
    outside = [d for d in range(updates.ndim) if d not in inside]
    sizes = iter([updates.shape[d] for d in inside])
    flat = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = [1 if d in flat else next(sizes) for d in range(operand.ndim)]
    windows = updates.transpose((*outside, *inside)).reshape(-1, *window)
    if indices.dtype.itemsize == 1:
        indices = indices.astype("int16")  # which has all sizes of small arrays
    starts: list[Any] = [numpy.zeros(len(windows), indices.dtype)] * operand.ndim
    for position, d in enumerate(numbers.scatter_dims_to_operand_dims):
        starts[d] = indices[..., position].reshape(-1)
    for d, batched in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        starts[d] = lax.broadcasted_iota(indices.dtype, indices.shape[:-1], batched).reshape(-1)

    most = [numpy.asarray(size - own, indices.dtype) for size, own in zip(operand.shape, window, strict=True)]

    def put(operand: jax.Array, this: Pytree) -> tuple[Any, None]:
        wanted, update = this
        # Slices take a negative place for one from the end.
        start = [lax.clamp(numpy.zeros_like(bound), at, bound) for at, bound in zip(wanted, most, strict=True)]
        there = lax.dynamic_slice(operand, start, window)
        new = there + update if adds else update
        if params["mode"] == lax.GatherScatterMode.FILL_OR_DROP:
            new = numpy.where(functools.reduce(operator.and_, map(operator.eq, start, wanted)), new, there)
        return lax.dynamic_update_slice(operand, new, start), None

    return lax.scan(put, operand, (tuple(starts), windows))[0]


def _kind(array: jax.Array) -> Spec:
    return _jax.ShapeDtypeStruct(array.shape, array.dtype)


def _on_one_cpu(args: Pytree) -> bool:
    arrays = [leaf for leaf in _jax.tree.leaves(args) if isinstance(leaf, jax.Array)] or [_jax.numpy.empty(())]
    devices = {device for array in arrays for device in array.devices()}
    return len(devices) == 1 and devices.pop().platform == "cpu"
