"""Runs a row on a platform, as values, gradients or jaxprs."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from .case import OpCase

Mode = Literal["jit", "eager", "eager gradient"]


def run(case: OpCase, mode: Mode, devices: list[jax.Device]) -> list[np.ndarray]:
    """What the row gives on `devices`, flat: value and gradient in one program ("jit"), or one of them eagerly.

    Fails if a result lies anywhere else.
    """
    with jax.enable_x64(case.x64), jax.default_device(devices[0]):
        fn = function(case, mode, devices)
        args = case.args if case.ipus else [put(arg, devices[0]) for arg in case.args]
        leaves = jax.tree.leaves((jax.jit(fn) if mode == "jit" else fn)(*args))
        return [host_value(leaf, devices) for leaf in leaves]


def run_together(cases: tuple[OpCase, ...], devices: list[jax.Device]) -> list[list[np.ndarray]]:
    """What rows that agree on 64-bit types give as one jitted program, value and gradient."""
    with jax.enable_x64(cases[0].x64), jax.default_device(devices[0]):
        program, args = program_of(cases, tuple(devices))
        return [[host_value(leaf, devices) for leaf in jax.tree.leaves(result)] for result in program(args)]


def primitives(cases: tuple[OpCase, ...], devices: list[jax.Device]) -> set[str]:
    """Names of all primitives in that program."""
    with jax.enable_x64(cases[0].x64), jax.default_device(devices[0]):
        program, args = program_of(cases, tuple(devices))
        return set(names(program.trace(args).jaxpr.jaxpr))


@functools.cache
def program_of(cases: tuple[OpCase, ...], devices: tuple[jax.Device, ...]) -> tuple[Any, list[Any]]:
    """That program and its argument; JAX traces it once, for its primitives and its values."""
    functions = [function(case, "jit", list(devices)) for case in cases]
    args = [case.args if case.ipus else [put(arg, devices[0]) for arg in case.args] for case in cases]
    return jax.jit(lambda groups: [fn(*group) for fn, group in zip(functions, groups, strict=True)]), args


def function(case: OpCase, mode: Mode, devices: list[jax.Device]) -> Callable[..., Any]:
    """The row's function as `mode` needs it, its devices bound."""
    value = functools.partial(case.fn, devices[: case.ipus]) if case.ipus else case.fn
    if mode == "eager" or not case.grad:
        return value
    pullback = gradient(value, case.grad)
    return pullback if mode == "eager gradient" else lambda *args: (value(*args), pullback(*args))


def gradient(fn: Callable[..., Any], positions: tuple[int, ...]) -> Callable[..., Any]:
    """The pullback of `fn` at its arguments, applied to cotangents that differ from entry to entry."""

    def pulled_back(*args: Any) -> Any:
        def moving(*chosen: Any) -> Any:
            filled = list(args)
            for position, value in zip(positions, chosen, strict=True):
                filled[position] = value
            return fn(*filled)

        results, pull = jax.vjp(moving, *(args[position] for position in positions))
        return pull(jax.tree.map(cotangent, results))

    return pulled_back


def cotangent(result: jax.Array) -> np.ndarray:
    if not jnp.issubdtype(result.dtype, jnp.inexact):
        return np.zeros(result.shape, jax.dtypes.float0)
    values = np.cos(np.arange(result.size)).reshape(result.shape)
    if jnp.issubdtype(result.dtype, jnp.complexfloating):
        values = values + 1j * values[..., ::-1] if values.ndim else values + 0.5j
    return values.astype(result.dtype)


def put(arg: Any, device: jax.Device) -> Any:
    return jax.device_put(arg, device) if isinstance(arg, np.ndarray) else arg


def host_value(leaf: Any, devices: list[jax.Device]) -> np.ndarray:
    if not isinstance(leaf, jax.Array):
        return np.asarray(leaf)
    assert leaf.devices() <= set(devices), f"a result lies on {leaf.devices()}, not on {devices}"
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def names(jaxpr: core.Jaxpr) -> Iterator[str]:
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in nested(list(equation.params.values())):
            yield from names(inner)


def nested(value: Any) -> Iterator[core.Jaxpr]:
    match value:
        case core.ClosedJaxpr():
            yield value.jaxpr
        case core.Jaxpr():
            yield value
        case list() | tuple():
            for item in value:
                yield from nested(item)
        case dict():
            yield from nested(list(value.values()))
