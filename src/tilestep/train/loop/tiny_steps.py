"""Loops whose steps are tiny, compiled so that a step is one kernel of the CPU instead of dozens.

An XLA:CPU program starts each group of fused operations as a separate kernel. A start takes about a third of a microsecond. A step of
thirty operations on a few hundred numbers takes little more time than its starts. XLA can compile a small loop's computation as one kernel.
Its pass small-while-loop-hoisting marks such calls with an attribute, but only those without matrix products and scatters. This file sets
the attribute itself. It allows products of the sizes that one kernel multiplies well, and writes scatters as loops. The values are those of
the ordinary program up to rounding.

A program is compiled so if all of this is true:

- The arrays are on one CPU device.
- Each step that the program scans has few numbers, no effects, and only operations of the list below.
- This jaxlib has been tested.
- The variable TILESTEP_TINY_STEPS is not false.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, final

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from tilestep.settings import tiny_steps_wanted
from tilestep.train.convolutions import has_slow_convolutions, with_quick_convolutions
from tilestep.train.jaxprs import ELEMENTWISE, INLINE_CALLS, MOVES, programs_of, spec_of, with_equations
from tilestep.train.offload import is_on_host
from tilestep.train.untyped import Pytree, Spec, Structure
from tilestep.train.untyped import jax as _jax

MOST_NUMBERS: Final = 1024  # of a value: with larger ones the start of a kernel costs little
MOST_PRODUCTS: Final = 8192  # multiplications of a matrix product: those of 8 x 32 x 32, with which one kernel is still faster
MOST_WORK: Final = 65536  # numbers that a step computes, and multiplications of its products
_LEAST_STEPS: Final = 2  # XLA unrolls a loop of one step, and then it would see the call's arguments

_OPTIONS: Final = {  # of the whole program: only products that one kernel can compute
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

_tracing = threading.local()  # .program: the _Trace of the program that this thread traces

Step = Callable[[Any, Any], tuple[Any, Any]]  # (carry, element) -> (carry, row of results)


@final
class LoopProgram:
    """A loop's program. The first call chooses how it is compiled: with tiny steps, with quick convolutions, or as it is.

    Its scans call `scan`.
    """

    def __init__(self, run: Callable[..., Any], *, shardings: Pytree) -> None:
        """Args: run: the loop. Its first argument is donated. shardings: those of its results."""
        self._run = run
        self._ordinary = _jax.jit(run, donate_argnums=0, out_shardings=shardings)
        self._convolving = _jax.jit(with_quick_convolutions(self._ordinary), donate_argnums=0, out_shardings=shardings)
        self._call: Callable[..., Any] = self._first
        self._steps: list[_Step] = []  # all tiny steps so far, because JAX does not trace equal arguments a second time

    @property
    def is_quick(self) -> bool:
        """Whether the last call ran the program with tiny steps."""
        return self._call not in (self._first, self._ordinary, self._convolving)

    @property
    def has_quick_convolutions(self) -> bool:
        """Whether the last call ran the program whose convolutions were written anew."""
        return self._call is self._convolving

    def trace(self, *args: Pytree) -> Any:
        """The ordinary program, traced as `jax.jit(...).trace` does."""
        return self._ordinary.trace(*args)

    def __call__(self, *args: Pytree) -> Any:
        try:
            return self._call(*args)
        except _OtherStepsError:
            return self._first(*args)

    def _first(self, *args: Pytree) -> Any:
        self._call = self._ordinary
        if not _on_one_cpu(args):
            return self._ordinary(*args)
        if _TESTED and tiny_steps_wanted():
            with _Trace() as trace:
                self._ordinary.trace(*args)
            self._steps += trace.steps
            if self._steps and not trace.has_other_steps:
                quick = self._quick()
                try:
                    result = quick(*args)
                except _OtherStepsError:
                    pass
                except jax.errors.JaxRuntimeError as error:  # the compiler's error: no argument is donated yet
                    if "UNIMPLEMENTED" not in str(error):
                        raise
                else:
                    self._call = quick
                    return result
        if has_slow_convolutions(self._ordinary.trace(*args).jaxpr):
            self._call = self._convolving
        return self._call(*args)

    def _quick(self) -> Callable[..., Any]:
        def quick(*args: Pytree) -> Any:
            with _Trace(marks=True, steps=self._steps) as trace:
                return self._run(*args), trace.checksums

        quick.__name__ = quick.__qualname__ = self._run.__name__
        jitted = _jax.jit(quick, donate_argnums=0, compiler_options=_OPTIONS)
        return lambda *args: jitted(*args)[0]


def scan(step: Step, carry: Pytree, elements: Pytree, *, length: int) -> tuple[Pytree, Pytree]:
    """The same as `jax.lax.scan`, for the functions of a LoopProgram."""
    program: _Trace | None = getattr(_tracing, "program", None)
    if program is None:
        return _jax.lax.scan(step, carry, elements, length=length)
    specs = _jax.tree.map(_spec, (carry, _jax.tree.map(lambda rows: _jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype), elements)))
    is_offloaded = any(map(is_on_host, _jax.tree.leaves((carry, elements))))  # a spec has no memory
    if not program.marks:
        if is_offloaded or length < _LEAST_STEPS or not all(map(_is_small, _jax.tree.leaves(specs))):
            program.has_other_steps = True
            return _jax.lax.scan(step, carry, elements, length=length)
        closed, result = _jax.make_jaxpr(step, return_shape=True)(*specs)
        traced = _Step(closed=closed, specs=specs, structure=_jax.tree.structure(result))
        if traced.is_tiny:
            program.steps.append(traced)
        else:
            program.has_other_steps = True
        return _jax.lax.scan(traced.ordinary, carry, elements, length=length)
    traced = next((traced for traced in program.steps if traced.specs == specs), None)
    if is_offloaded or traced is None or length < _LEAST_STEPS:
        raise _OtherStepsError
    checksum, carry, rows = _marked_scan(traced, carry, elements, length)
    program.checksums.append(checksum)
    return carry, rows


@dataclass(frozen=True, kw_only=True)
class _Step:
    """A traced step.

    Attributes: closed: its equations. specs: those of the carry and of an element. structure: that of its result.
    """

    closed: ClosedJaxpr
    specs: Any
    structure: Structure

    @property
    def is_tiny(self) -> bool:
        """Whether XLA can compile the step as one kernel, and the step becomes faster by that."""
        if self.closed.effects or not all(map(_is_small, self.closed.consts)):
            return False
        work = _work(self.closed.jaxpr)
        return work is not None and work <= MOST_WORK

    def ordinary(self, carry: Pytree, element: Pytree) -> tuple[Pytree, Pytree]:
        """The step as a function, compiled as XLA compiles any other one."""
        return _jax.tree.unflatten(self.structure, jaxpr_as_fun(self.closed)(*_jax.tree.leaves((carry, element))))


@dataclass
class _Trace:
    """The steps of a program while JAX traces it.

    Attributes:
        marks: whether `scan` marks tiny steps for XLA. If not, it only collects them.
        steps: the tiny steps.
        has_other_steps: whether the program has steps that are not tiny.
        checksums: values that the program must return beside its results.
    """

    marks: bool = False
    steps: list[_Step] = field(default_factory=list[_Step])
    has_other_steps: bool = False
    checksums: list[Any] = field(default_factory=list[Any])

    def __enter__(self) -> _Trace:
        _tracing.program = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _tracing.program = None


class _OtherStepsError(Exception):
    """The program was chosen for arguments of other specs, with which its steps were tiny."""


def _marked_scan(step: _Step, carry: Pytree, elements: Pytree, length: int) -> tuple[jax.Array, Pytree, Pytree]:
    """A scan with a step that XLA compiles as one kernel. Returns: (a checksum, carry, rows).

    XLA aborts the process if a call that it compiles so has an unused parameter. It also removes uses without an effect. So each argument
    changes a checksum that the program returns. XLA replaces a parameter that is always the same constant. So constants are passed from
    step to step like the carry.
    """
    closed = _unscattered(step.closed)
    program = closed.jaxpr.replace(constvars=[], invars=[*closed.jaxpr.constvars, *closed.jaxpr.invars])
    run = jaxpr_as_fun(closed.replace(jaxpr=program, consts=[]))

    def once(checksum: jax.Array, constants: Sequence[jax.Array], carry: Pytree, element: Pytree) -> Any:
        with set_xla_metadata(**dict.fromkeys(_ATTRIBUTES)):
            leaves = _jax.tree.leaves((constants, carry, element))
            for leaf in leaves:
                checksum = checksum ^ _bits(leaf)
            return checksum, constants, *_jax.tree.unflatten(step.structure, run(*leaves))

    def body(state: Pytree, element: Pytree) -> Pytree:
        with set_xla_metadata(**_ATTRIBUTES):
            *state, rows = _jax.jit(once)(*state, element)
        return tuple(state), rows

    state = _jax.numpy.uint8(0), list(closed.consts), carry
    (checksum, _, carry), rows = _jax.lax.scan(body, state, elements, length=length)
    return checksum, carry, rows


def _bits(array: jax.Array) -> jax.Array:
    """Eight bits of an array's first number."""
    first = array[(0,) * array.ndim]
    if first.dtype == bool:
        return first.astype("uint8")
    bits = _jax.lax.bitcast_convert_type(first, f"uint{8 * first.dtype.itemsize}")
    return bits.astype("uint8")


def _work(program: Jaxpr) -> int | None:
    """How many numbers a jaxpr computes and multiplies; None for one with an untested operation or a value that is too large."""
    total = 0
    for eqn in program.eqns:
        name = eqn.primitive.name
        if not all(_is_small(spec_of(v)) for v in eqn.outvars) or eqn.effects:
            return None
        total += sum(math.prod(spec_of(v).shape) for v in eqn.outvars)
        if name in INLINE_CALLS:
            for each in programs_of(eqn):
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


def _is_small(spec: Spec) -> bool:
    return 0 < math.prod(spec.shape) <= MOST_NUMBERS and str(spec.dtype) in _DTYPES


def _unscattered(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with loops in place of its scatters."""

    def changed(eqn: JaxprEqn) -> JaxprEqn:
        name = eqn.primitive.name
        if name in INLINE_CALLS:
            return eqn.replace(params={k: _unscattered(v) if hasattr(v, "jaxpr") else v for k, v in eqn.params.items()})
        if name not in _SCATTERS:
            return eqn
        scattered = functools.partial(_scattered, adds=name == "scatter-add", params=eqn.params)
        (call,) = _jax.make_jaxpr(_jax.jit(scattered))(*(v.aval for v in eqn.invars)).jaxpr.eqns
        return call.replace(invars=eqn.invars, outvars=eqn.outvars)

    return with_equations(closed, [changed(eqn) for eqn in closed.eqns])


def _scattered(operand: jax.Array, indices: jax.Array, updates: Pytree, *, adds: bool, params: Pytree) -> Any:
    """The same as `jax.lax.scatter`, or `scatter_add` if `adds`, by a loop over the windows of `updates`."""
    lax, numpy, numbers = _jax.lax, _jax.numpy, params["dimension_numbers"]
    inside = numbers.update_window_dims
    outside = [d for d in range(updates.ndim) if d not in inside]
    sizes = iter([updates.shape[d] for d in inside])
    flat = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = [1 if d in flat else next(sizes) for d in range(operand.ndim)]
    windows = updates.transpose((*outside, *inside)).reshape(-1, *window)
    if indices.dtype.itemsize == 1:
        indices = indices.astype("int16")  # it holds the size of any small array
    starts: list[Any] = [numpy.zeros(len(windows), indices.dtype)] * operand.ndim
    for position, d in enumerate(numbers.scatter_dims_to_operand_dims):
        starts[d] = indices[..., position].reshape(-1)
    for d, batched in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        starts[d] = lax.broadcasted_iota(indices.dtype, indices.shape[:-1], batched).reshape(-1)

    bounds = [numpy.asarray(size - extent, indices.dtype) for size, extent in zip(operand.shape, window, strict=True)]

    def put(operand: jax.Array, row: Pytree) -> tuple[Any, None]:
        start, update = row
        # A negative start of a slice would count from the end.
        clamped = [lax.clamp(numpy.zeros_like(bound), at, bound) for at, bound in zip(start, bounds, strict=True)]
        old = lax.dynamic_slice(operand, clamped, window)
        new = old + update if adds else update
        if params["mode"] == lax.GatherScatterMode.FILL_OR_DROP:
            new = numpy.where(functools.reduce(operator.and_, map(operator.eq, clamped, start)), new, old)
        return lax.dynamic_update_slice(operand, new, clamped), None

    return lax.scan(put, operand, (tuple(starts), windows))[0]


def _spec(array: jax.Array) -> Spec:
    return _jax.ShapeDtypeStruct(array.shape, array.dtype)


def _on_one_cpu(args: Pytree) -> bool:
    arrays = [leaf for leaf in _jax.tree.leaves(args) if isinstance(leaf, jax.Array)] or [_jax.numpy.empty(())]
    devices = {device for array in arrays for device in array.devices()}
    return len(devices) == 1 and devices.pop().platform == "cpu"
