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
    """A stage as the runtime takes it.

    Attributes:
        function: (params, *args) -> outputs; with `aux` (params, aux, *args) -> (outputs, aux).
        params: names of the variables that have gradients.
        aux: names of those that the stage itself changes, or that are no real numbers.
    """

    function: Callable[..., Any]
    params: tuple[str, ...]
    aux: tuple[str, ...]


def stage_of(traced: Traced, *, training: bool) -> Stage:
    """Args: traced: the stage's function. training: whether it has a derivative. Raises: UnsupportedError for what XLA cannot lower."""
    plain = lower(traced.graph, traced.arguments, traced.results, traced.operations, traced.handles)
    aux = tuple(name for name in traced.handles if name in plain.written or not traced.dtypes[name].is_floating)
    params = tuple(name for name in traced.handles if name not in aux)
    call = _differentiable(traced, plain, params, aux) if training else _plain(plain, aux)

    def function(own: Any, *rest: Any) -> Any:
        state, rest = (rest[0], rest[1:]) if aux else ({}, rest)
        outputs, state = call(own, state, rest)
        return (outputs, state) if aux else outputs

    function.__name__ = traced.name
    return Stage(function=function, params=params, aux=aux)


def _plain(program: Program, aux: Sequence[str]) -> Callable[..., Any]:
    def call(params: Any, state: Any, args: Any) -> Any:
        outputs, new = program(args, {**params, **state})
        return tuple(outputs), {name: new.get(name, state[name]) for name in aux}

    return call


def _differentiable(traced: Traced, plain: Program, params: Sequence[str], aux: Sequence[str]) -> Callable[..., Any]:
    graph, inputs = traced.graph, traced.arguments
    floats = [index for index, tensor in enumerate(traced.results) if tensor.dtype.is_floating]
    wanted = [index for index, tensor in enumerate(inputs) if tensor.dtype.is_floating]
    before = set(graph.get_operations())
    with graph.as_default():
        given = [v1.placeholder(traced.results[index].dtype, traced.results[index].shape) for index in floats]
        sources = [*(inputs[index] for index in wanted), *(traced.handles[name] for name in params)]
        found = tf.gradients([traced.results[index] for index in floats], sources, grad_ys=given)
        gradients = [None if each is None else tf.convert_to_tensor(each) for each in found]
    some = [each for each in gradients if each is not None]
    residuals = graphs.boundary(some, before, [*given, *traced.handles.values()])
    forward = lower(graph, inputs, [*traced.results, *residuals], traced.operations, traced.handles)
    backward = lower(graph, [*residuals, *given], some, [], traced.handles)
    plain_call, num = _plain(plain, aux), len(traced.results)

    @jax.custom_vjp
    def call(own: Any, state: Any, args: Any) -> Any:
        return plain_call(own, state, args)

    def ahead(own: Any, state: Any, args: Any) -> Any:
        outputs, new = forward(args, {**own, **state})
        kept = {name: own[name] for name in backward.variables if name in own}
        kept |= {name: state[name] for name in backward.variables if name in state}
        state_after = {name: new.get(name, state[name]) for name in aux}
        return (tuple(outputs[:num]), state_after), (outputs[num:], kept, own, state, args)

    def back(kept: Any, cotangents: Any) -> Any:
        values, variables, own, state, args = kept
        made, _ = backward([*values, *(cotangents[0][index] for index in floats)], variables)
        rest = iter(made)
        all_made = [None if each is None else next(rest) for each in gradients]
        of_args = [_no_gradient(each) for each in args]
        for index, value in zip(wanted, all_made, strict=False):
            if value is not None:
                of_args[index] = value.astype(args[index].dtype)
        of_params = {
            name: jax.numpy.zeros_like(own[name]) if value is None else value.astype(own[name].dtype)
            for name, value in zip(params, all_made[len(wanted) :], strict=True)
        }
        return of_params, {name: _no_gradient(each) for name, each in state.items()}, tuple(of_args)

    call.defvjp(ahead, back)
    return call


def _no_gradient(array: Any) -> Any:
    if jax.numpy.issubdtype(array.dtype, jax.numpy.inexact):
        return jax.numpy.zeros_like(array)
    return np.zeros(array.shape, jax.dtypes.float0)
