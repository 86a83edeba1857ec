"""A stage of a pipeline: its graph is cut into forward and backward, which are one JAX function with a derivative.

TensorFlow differentiates the stage once. What backward reads of forward are its residuals, so a dropout has one mask in both. Parameters
are no residuals: backward reads them by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilestep.tensorflow.lowering import Program, lower
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tracing import Traced
from tilestep.tensorflow.untyped import tf, v1
from tilestep.train.untyped import jax


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """A stage as the runtime takes it."""

    function: Callable[..., Any]  # (params, *args) -> outputs; with `aux` (params, aux, *args) -> (outputs, aux)
    params: Sequence[str]  # names of the variables that have gradients
    aux: Sequence[str]  # names of those that the stage itself changes, or that are no real numbers


def stage_of(traced: Traced, *, training: bool) -> Stage:
    """Args: traced: the stage's function. training: whether it has a derivative. Raises: UnsupportedError for what XLA cannot lower."""
    plain = lower(traced.graph, traced.arguments, traced.results, traced.operations, traced.handles)
    aux = [name for name, handle in traced.handles.items() if name in plain.written or not graphs.variable_spec(handle).dtype.is_floating]
    params = [name for name in traced.handles if name not in aux]

    def run(program: Program, own: Any, state: Any, args: Any) -> tuple[list[Any], Any]:
        outputs, new = program(args, {**own, **state})
        return outputs, {name: new.get(name, state[name]) for name in aux}

    def call(own: Any, state: Any, args: Any) -> Any:
        outputs, state = run(plain, own, state, args)
        return tuple(outputs), state

    call = _differentiable(call, run, traced, params) if training else call

    def function(own: Any, *rest: Any) -> Any:
        if not aux:
            return call(own, {}, rest)[0]
        return call(own, rest[0], rest[1:])

    function.__name__ = traced.name
    return Stage(function=function, params=params, aux=aux)


def _differentiable(call: Callable[..., Any], run: Callable[..., Any], traced: Traced, params: Sequence[str]) -> Callable[..., Any]:
    graph, inputs, results = traced.graph, traced.arguments, traced.results
    floats = [index for index, tensor in enumerate(results) if tensor.dtype.is_floating]
    wanted = [index for index, tensor in enumerate(inputs) if tensor.dtype.is_floating]
    before = set(graph.get_operations())
    with graph.as_default():
        given = [v1.placeholder(results[index].dtype, results[index].shape) for index in floats]
        sources = [*(inputs[index] for index in wanted), *(traced.handles[name] for name in params)]
        found = tf.gradients([results[index] for index in floats], sources, grad_ys=given)
        gradients = [None if each is None else tf.convert_to_tensor(each) for each in found]
    some = [each for each in gradients if each is not None]
    residuals = graphs.boundary(some, before, [*given, *traced.handles.values()])
    forward = lower(graph, inputs, [*results, *residuals], traced.operations, traced.handles)
    backward = lower(graph, [*residuals, *given], some, [], traced.handles)

    def ahead(own: Any, state: Any, args: Any) -> Any:
        outputs, new = run(forward, own, state, args)
        kept = {name: value for name, value in {**own, **state}.items() if name in backward.variables}
        return (tuple(outputs[: len(results)]), new), (outputs[len(results) :], kept, own, state, args)

    def back(kept: Any, cotangents: Any) -> Any:
        values, variables, own, state, args = kept
        made, _ = backward([*values, *(cotangents[0][index] for index in floats)], variables)
        rest = iter(made)
        made = [None if each is None else next(rest) for each in gradients]
        of_args = dict(zip(wanted, made, strict=False))
        of_params = {name: _cotangent(own[name], value) for name, value in zip(params, made[len(wanted) :], strict=True)}
        of_state = {name: _cotangent(each, None) for name, each in state.items()}
        return of_params, of_state, tuple(_cotangent(each, of_args.get(index)) for index, each in enumerate(args))

    differentiable = jax.custom_vjp(call)
    differentiable.defvjp(ahead, back)
    return differentiable


def _cotangent(array: Any, value: Any) -> Any:
    """Args: value: what backward has made; None: nothing."""
    if value is not None:
        return value.astype(array.dtype)
    return jax.numpy.zeros_like(array) if jax.numpy.issubdtype(array.dtype, jax.numpy.inexact) else np.zeros(array.shape, jax.dtypes.float0)
