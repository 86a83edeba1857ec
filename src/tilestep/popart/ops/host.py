"""Operators by which a running program speaks to its host: it prints values as text, and it stops."""

import functools
import sys
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array
from tilestep.popart.exceptions import popart_exception, poplar_application_runtime_error
from tilestep.popart.ops.collectives import is_replicated, on_several_devices
from tilestep.popart.ops.describing import DOMAIN

_AUTO, _SCIENTIFIC = 0, 2  # numbers of formats of floats; 1 is that without exponent, 3 the shortest text of each
_LARGEST_FIXED, _SMALLEST_FIXED = 1e8, 1e-4  # magnitudes between which numbers are written without an exponent


@dataclass(frozen=True, kw_only=True)
class Format:
    """How values are written.

    Attributes:
        threshold: elements above which only those at the edges are written; 0: all are.
        edge_items: of each axis, at its beginning and its end.
        line_width: characters; 0: a line has no end.
        digits: of a float.
        floats: the number of its format: automatic, fixed, with exponent, none.
        separator: between elements.
        brackets: around each axis.
    """

    threshold: int
    edge_items: int
    line_width: int
    digits: int
    floats: int
    separator: str
    brackets: tuple[str, str]


def written(values: Array, form: Format) -> str:
    """The text of an array."""
    decimals, exponent = _decimals(values, form), _has_exponent(values, form)
    formatter: Any = {"float_kind": lambda value: _number(value, form, decimals, exponent)}
    text = np.array2string(
        values,
        max_line_width=form.line_width or sys.maxsize,
        separator=form.separator,
        threshold=form.threshold or sys.maxsize,
        edgeitems=form.edge_items,
        formatter=formatter if values.dtype.kind == "f" else None,
    )
    return text.translate(str.maketrans("[]", "".join(form.brackets)))


def _finite(values: Array) -> Array:
    magnitudes = np.abs(values[np.isfinite(values)].astype(np.float64))
    return magnitudes[magnitudes > 0]


def _has_exponent(values: Array, form: Format) -> bool:
    if form.floats != _AUTO:
        return form.floats == _SCIENTIFIC
    magnitudes = _finite(values)
    return bool(magnitudes.size) and (magnitudes.max() >= _LARGEST_FIXED or magnitudes.min() < _SMALLEST_FIXED)


def _decimals(values: Array, form: Format) -> int:
    """Digits behind the point, so that the largest number has `digits` in all."""
    magnitudes = _finite(values)
    before = len(str(int(magnitudes.max()))) if magnitudes.size else 1
    return max(form.digits - before, 0)


def _number(value: Any, form: Format, decimals: int, exponent: bool) -> str:
    if form.floats > _SCIENTIFIC:
        return str(value)
    return f"{value:.{max(form.digits - 1, 0)}e}" if exponent else f"{value:.{decimals}f}"


_GRADIENT_PREFIX: Final = "Gradient___"
ABORT_PREFIX: Final = "Abort Program"


@op("PrintTensor", domain=DOMAIN, random=True)  # a known input is printed by the program too, each time that it runs
def print_tensor(
    call: Call,
    x: Any,
    *,
    print_gradient: int = 1,
    title: str = "",
    summariseThreshold: int = 1000,
    edgeItems: int = 3,
    maxLineWidth: int = 75,
    digits: int = 8,
    floatFormat: int = 0,
    separator: int = 32,
    openBracket: int = 91,
    closeBracket: int = 93,
) -> Any:
    """x, whose values go to stderr when the program runs, and so do those of its gradient if `print_gradient`.

    Args:
        title: stands in front of the values; the name of the input if it is empty.
        separator, openBracket, closeBracket: code points.
    Raises: popart_exception in a branch or a loop of several replicas.
    """
    _require_outside(call)
    form = Format(
        threshold=summariseThreshold,
        edge_items=edgeItems,
        line_width=maxLineWidth,
        digits=digits,
        floats=floatFormat,
        separator=chr(separator),
        brackets=(chr(openBracket), chr(closeBracket)),
    )
    name = title or call.node.inputs[0]
    of_gradient = (f"{title}_gradient" if title else f"{_GRADIENT_PREFIX}{name}") if print_gradient else ""
    return _printed(jnp.asarray(x), name, of_gradient, form)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _printed(x: Any, title: str, of_gradient: str, form: Format) -> Any:
    jax.debug.callback(functools.partial(_print, title, form), x, ordered=_is_ordered())
    return x


def _require_outside(call: Call) -> None:
    """Raises: popart_exception in a branch or a loop of several replicas, because replicas that do not take it run it too."""
    if call.run.inside and is_replicated():
        raise popart_exception(
            f"{call.node.place} is inside of {call.run.inside}, which several replicas run for different lengths or not at all: put it "
            "outside, or set replicatedGraphCount to 1"
        )


def _is_ordered() -> bool:
    """JAX has an order of calls on one device only."""
    return not on_several_devices()


def _printed_forward(x: Any, title: str, of_gradient: str, form: Format) -> tuple[Any, None]:
    return _printed(x, title, of_gradient, form), None


def _printed_backward(title: str, of_gradient: str, form: Format, kept: None, cotangent: Any) -> tuple[Any]:
    if of_gradient:
        jax.debug.callback(functools.partial(_print, of_gradient, form), cotangent, ordered=_is_ordered())
    return (cotangent,)


_printed.defvjp(_printed_forward, _printed_backward)


def _print(title: str, form: Format, values: Any) -> None:
    sys.stderr.write(f"{title}: {written(np.asarray(values), form)}\n")
    sys.stderr.flush()


@op("Abort", domain=DOMAIN, random=True)  # it has no result that could be known
def abort(call: Call, condition: Any = None) -> tuple[Any, ...]:
    """Stops the program when it runs, if the condition is not 0 or absent: the run raises an error that `aborted` knows.

    Raises: popart_exception in a branch or a loop of several replicas.
    """
    if condition is not None and condition.size > 1:
        raise popart_exception("Conditional abort op can only test a scalar tensor")
    _require_outside(call)
    place = call.node.name or "a node without a name"
    value = jnp.ones((), bool) if condition is None else jnp.asarray(condition).reshape(()) != 0
    jax.debug.callback(functools.partial(_abort, place), value, ordered=_is_ordered())
    return ()


def _abort(place: str, condition: Any) -> None:
    if condition:
        raise poplar_application_runtime_error(f"{ABORT_PREFIX}: {place} (ai.graphcore.Abort) stopped it")


def aborted(error: BaseException) -> poplar_application_runtime_error | None:
    """The error of an Abort that made a run fail; None if another thing did. Args: error: as JAX raises it from the run."""
    text = str(error)
    start = text.find(ABORT_PREFIX)
    return None if start < 0 else poplar_application_runtime_error(text[start:].splitlines()[0])
