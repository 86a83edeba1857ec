"""Operators that draw random numbers. Each node has a key of its own, made of the run's key, the node's number and its `seed`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.onnx.values import jax_dtype


def _float_type(number: int) -> np.dtype[Any]:
    """The floating type of a number of ONNX's. Raises: ValueError for other types."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number))
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"dtype {number} is {dtype}, and random numbers are floats")
    return jax_dtype(dtype)


def _type_like(x: Any, dtype: int | None) -> np.dtype[Any]:
    return _float_type(helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)) if dtype is None else dtype)


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    if any(size < 0 for size in shape):
        raise ValueError(f"the shape {list(shape)}")
    return tuple(shape)


def _normal(call: Call, shape: Sequence[int], dtype: Any, mean: float, scale: float, seed: float | None) -> Any:
    return (mean + scale * jax.random.normal(call.key(seed), _sizes(shape), dtype)).astype(dtype)


def _uniform(call: Call, shape: Sequence[int], dtype: Any, low: float, high: float, seed: float | None) -> Any:
    return jax.random.uniform(call.key(seed), _sizes(shape), dtype, low, high)


@op("RandomNormal", random=True)
def random_normal(
    call: Call, *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    """Numbers of a normal distribution. `scale` is its standard deviation."""
    return _normal(call, shape, _float_type(dtype), mean, scale, seed)


@op("RandomNormalLike", random=True)
def random_normal_like(
    call: Call, x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    """The same in the shape of the input, and in its type unless `dtype` says another."""
    return _normal(call, x.shape, _type_like(x, dtype), mean, scale, seed)


@op("RandomUniform", random=True)
def random_uniform(
    call: Call, *, shape: Sequence[int], dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Any:
    """Numbers of a uniform distribution, from `low` up to and without `high`."""
    return _uniform(call, shape, _float_type(dtype), low, high, seed)


@op("RandomUniformLike", random=True)
def random_uniform_like(
    call: Call, x: Any, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Any:
    """The same in the shape of the input, and in its type unless `dtype` says another."""
    return _uniform(call, x.shape, _type_like(x, dtype), low, high, seed)


@op("Bernoulli", since=15, random=True)
def bernoulli(call: Call, x: Any, *, dtype: int | None = None, seed: float | None = None) -> Any:
    """1 with the probability that the input has, else 0."""
    result = x.dtype if dtype is None else np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    return jax.random.bernoulli(call.key(seed), jnp.asarray(x)).astype(jax_dtype(result))


@op("Multinomial", since=7, random=True)
def multinomial(call: Call, x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    """Classes drawn for each row of logarithms of probabilities, which need not add up to 1: [rows, classes] to [rows, sample_size]."""
    result = np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    if result != np.int32 and result != np.int64:
        raise ValueError(f"dtype {dtype} is {result}, and classes are int32 or int64")
    if x.ndim != 2:
        raise ValueError(f"its input has {x.ndim} axes, and needs 2: rows and classes")
    logits = jnp.asarray(x)[:, None, :]
    return jax.random.categorical(call.key(seed), logits, shape=_sizes((x.shape[0], sample_size))).astype(jax_dtype(result))
