"""Operators that draw random numbers, dropout among them. Each node has a key of its own, of the run's key, its number and `seed`."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import is_traced, jax_dtype, known_scalar

_RATIO = 0.5  # where a node has none


@op("Dropout", random=True)
def dropout_with_mask_of_numbers(call: Call, x: Any, *, consumed_inputs: Any = None, is_test: int = 0, ratio: float = _RATIO) -> Any:
    """x in inference. In training elements are 0 with probability `ratio`, and others grow by 1 / (1 - ratio).

    The mask has x's type. `is_test` of versions 1 to 6 says what the run says, and the run is asked.
    """
    y, mask = _dropped(call, x, ratio, call.run.training, None)
    return (y, mask.astype(y.dtype)) if call.wants(1) else y


@op("Dropout", since=10, random=True)
def dropout_by_attribute(call: Call, x: Any, *, ratio: float = _RATIO) -> Any:
    """The same with a mask of booleans."""
    return _dropped(call, x, ratio, call.run.training, None)


@op("Dropout", since=12, needs=(2,), random=True)
def dropout(call: Call, x: Any, ratio: Any = None, training_mode: Any = None, *, seed: int | None = None) -> Any:
    """The same with the ratio as an input. It is on in training, and if `training_mode` is true."""
    on = True if call.run.training else False if training_mode is None else training_mode
    if not is_traced(on):
        on = bool(known_scalar(on, "the mode"))
    return _dropped(call, x, _RATIO if ratio is None else ratio, on, seed)


def _dropped(call: Call, x: Any, ratio: Any, on: Any, seed: int | None) -> tuple[Any, Any]:
    """The result and the mask of what stays. Args: on: a bool, or a traced array of one."""
    if not is_traced(ratio):
        ratio = float(known_scalar(ratio, "the ratio"))
        if on is not False and not 0 <= ratio < 1:
            raise ValueError(f"ratio is {ratio}, and must be at least 0 and below 1")
    if on is False or (isinstance(ratio, float) and not ratio):
        return x, np.ones(x.shape, np.bool_)
    ratio = jnp.reshape(ratio, ()) if is_traced(ratio) else ratio
    x = jnp.asarray(x)
    stays = jax.random.bernoulli(call.key(seed), jnp.asarray(1 - ratio, np.float32), x.shape)  # one type, one draw
    factor = 1 / (1 - ratio)
    if on is not True:
        on = jnp.reshape(on, ())
        stays, factor = stays | ~on, jnp.where(on, factor, 1)
    return jnp.where(stays, x * jnp.asarray(factor, x.dtype), 0), stays


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


def _distribution(name: str, draw: Callable[..., Any], meaning: str) -> None:
    """Registers a distribution in both forms: in a shape, and like an input. Args: draw: of a key, sizes, a dtype and its attributes."""

    @op(name, random=True)
    def in_shape(call: Call, *, shape: Sequence[int], dtype: int = 1, seed: float | None = None, **parameters: float) -> Any:
        return draw(call.key(seed), _sizes(shape), _float_type(dtype), **parameters)

    @op(f"{name}Like", random=True)
    def like(call: Call, x: Any, *, dtype: int | None = None, seed: float | None = None, **parameters: float) -> Any:
        return draw(call.key(seed), _sizes(x.shape), _type_like(x, dtype), **parameters)

    in_shape.__doc__ = meaning
    like.__doc__ = f"{meaning} They have the shape of the input, and its type unless `dtype` says another."


def _normal(key: Any, sizes: Any, dtype: Any, *, mean: float, scale: float) -> Any:
    return (mean + scale * jax.random.normal(key, sizes, dtype)).astype(dtype)


def _uniform(key: Any, sizes: Any, dtype: Any, *, low: float, high: float) -> Any:
    return jax.random.uniform(key, sizes, dtype, low, high)


_distribution("RandomNormal", _normal, "Numbers of a normal distribution. `scale` is its standard deviation.")
_distribution("RandomUniform", _uniform, "Numbers of a uniform distribution, from `low` up to and without `high`.")


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
