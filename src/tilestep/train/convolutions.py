"""Convolutions within loops, written as XLA:CPU computes them quickly.

XLA:CPU has quick kernels for convolutions whose channels are last. Its pass conv-canonicalization writes others so, but not within loops
and branches. There a convolution with channels first, and most gradients of one, can take ten times as long. This file writes those as
the pass would.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun

from tilestep.train.jaxprs import CALLS, spec_of, with_equations
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_CONVOLUTION: Final = "conv_general_dilated"
# Primitives within which the pass writes nothing, and their parameters that have equations.
_REPEATED: Final = {"cond": ("branches",), "scan": ("jaxpr",), "while": ("cond_jaxpr", "body_jaxpr")}
_QUICK_DTYPES: Final = frozenset({"float16", "float32"})
_MOST_WINDOW_DIMENSIONS: Final = 3

Program = Callable[..., Pytree]


def has_slow_convolutions(closed: ClosedJaxpr) -> bool:
    """Whether `with_quick_convolutions` would write a traced function in another way."""
    return _rewritten(closed, within=False) is not closed


def with_quick_convolutions(function: Program) -> Program:
    """The same function, in whose loops and branches XLA:CPU computes convolutions as quickly as outside. Last digits may differ."""

    def quick(*args: Pytree) -> Pytree:
        closed, results = _jax.make_jaxpr(function, return_shape=True)(*args)
        leaves = jaxpr_as_fun(_rewritten(closed, within=False))(*_jax.tree.leaves(args))
        return _jax.tree.unflatten(_jax.tree.structure(results), leaves)

    quick.__name__ = quick.__qualname__ = function.__name__
    return quick


@final
class ConvolvingProgram:
    """A loop's program. The first call chooses whether its convolutions are written anew: on one CPU device, if that makes them quick."""

    def __init__(self, run: Program, *, shardings: Pytree) -> None:
        """Args: run: the loop. Its first argument is donated. shardings: those of its results."""
        self._ordinary = _jax.jit(run, donate_argnums=0, out_shardings=shardings)
        self._quick = _jax.jit(with_quick_convolutions(self._ordinary), donate_argnums=0, out_shardings=shardings)
        self._call: Program | None = None

    @property
    def has_quick_convolutions(self) -> bool:
        """Whether the last call ran the program whose convolutions were written anew."""
        return self._call is self._quick

    def trace(self, *args: Pytree) -> Any:
        """The ordinary program, traced as `jax.jit(...).trace` does."""
        return self._ordinary.trace(*args)

    def __call__(self, *args: Pytree) -> Any:
        if self._call is None:
            is_slow = _is_on_one_cpu(args) and has_slow_convolutions(self._ordinary.trace(*args).jaxpr)
            self._call = self._quick if is_slow else self._ordinary
        return self._call(*args)


def _is_on_one_cpu(args: Pytree) -> bool:
    arrays = [leaf for leaf in _jax.tree.leaves(args) if isinstance(leaf, jax.Array)] or [_jax.numpy.empty(())]
    devices = {device for array in arrays for device in array.devices()}
    return len(devices) == 1 and devices.pop().platform == "cpu"


def _rewritten(jaxpr: Any, *, within: bool) -> Any:
    """The same object if there is nothing to write. Args: jaxpr: open or closed. within: whether it is part of a loop or a branch."""
    equations = [_equation(equation, within=within) for equation in jaxpr.eqns]
    is_same = all(new is old for new, old in zip(equations, jaxpr.eqns, strict=True))
    return jaxpr if is_same else with_equations(jaxpr, equations)


def _equation(equation: JaxprEqn, *, within: bool) -> JaxprEqn:
    name = equation.primitive.name
    if name == _CONVOLUTION:
        return _channels_last(equation) if within and _is_slow(equation) else equation
    repeated = () if equation.params.get("branches_platforms") else _REPEATED.get(name, ())  # one branch of `platform_dependent` is left
    parameters = repeated or ((CALLS[name],) if name in CALLS else ())
    changed: dict[str, Any] = {}
    for parameter in parameters:
        old = equation.params[parameter]
        parts = old if isinstance(old, tuple) else (old,)
        new = tuple(_rewritten(part, within=within or bool(repeated)) for part in parts)
        if any(after is not before for after, before in zip(new, parts, strict=True)):
            changed[parameter] = new if isinstance(old, tuple) else new[0]
    return equation.replace(params={**equation.params, **changed}) if changed else equation


def _orders(equation: JaxprEqn) -> tuple[list[int], list[int], list[int]]:
    """The dimensions of both operands and of the result, in the order of the quick kernels."""
    (batch, channels, *window), (outputs, inputs, *kernel), (of_batch, of_outputs, *of_window) = equation.params["dimension_numbers"]
    return [batch, *window, channels], [*kernel, inputs, outputs], [of_batch, *of_window, of_outputs]


def _is_slow(equation: JaxprEqn) -> bool:
    specs = [spec_of(atom) for atom in (*equation.invars, *equation.outvars)]
    return (
        0 < len(specs[0].shape) - 2 <= _MOST_WINDOW_DIMENSIONS
        and equation.params["batch_group_count"] == 1
        and all(str(spec.dtype) in _QUICK_DTYPES for spec in specs)
        and any(order != sorted(order) for order in _orders(equation))
    )


def _channels_last(equation: JaxprEqn) -> JaxprEqn:
    """A call that moves the dimensions of the operands, convolves, and moves those of the result back."""
    data, kernel, result = _orders(equation)
    last, window = len(data) - 1, range(1, len(data) - 1)
    numbers = type(equation.params["dimension_numbers"])((0, last, *window), (last, last - 1, *range(last - 1)), (0, last, *window))
    parameters = {**equation.params, "dimension_numbers": numbers}
    back = [result.index(dimension) for dimension in range(len(result))]

    def convolution(left: Any, right: Any) -> Any:
        return _transposed(equation.primitive.bind(_transposed(left, data), _transposed(right, kernel), **parameters), back)

    (call,) = _jax.make_jaxpr(_jax.jit(convolution))(*map(spec_of, equation.invars)).jaxpr.eqns
    return call.replace(invars=equation.invars, outvars=equation.outvars, source_info=equation.source_info)


def _transposed(value: Any, order: Sequence[int]) -> Any:
    return value if list(order) == sorted(order) else _jax.lax.transpose(value, tuple(order))
