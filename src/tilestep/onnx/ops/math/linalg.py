"""Matrix products and determinants."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import has_room, is_known


@op("MatMul")
def matmul(call: Call, a: Any, b: Any) -> Any:
    """Matrix product as NumPy has it: axes before the last two are broadcast, vectors are rows or columns."""
    return _module_of(jnp.matmul, a, b).matmul(a, b)


@op("Gemm")
def gemm(
    call: Call,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Any:
    """alpha * A @ B + beta * C, with A and B transposed if asked for, and C broadcast to the product.

    `broadcast` is of versions 1 to 6. Without it C has the product's shape already, so broadcasting changes nothing.
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"A and B have {a.ndim} and {b.ndim} dimensions, and must have 2")
    axes = ((0 if transA else 1,), (1 if transB else 0,))
    if all(map(is_known, (a, b))):
        has_room((a.shape[1 if transA else 0], b.shape[0 if transB else 1]), a.dtype)
    y = _times(jax.lax.dot_general(jnp.asarray(a), jnp.asarray(b), (axes, ((), ()))), alpha, "alpha")
    if c is None:
        return y
    if np.broadcast_shapes(y.shape, c.shape) != y.shape:
        raise ValueError(f"C has shape {list(c.shape)}, which doesn't broadcast to {list(y.shape)}")
    return y + _times(c, beta, "beta")


@op("Einsum", since=12)
def einsum(call: Call, *inputs: Any, equation: str) -> Any:
    """Sums of products over the letters that the equation's right side lacks."""
    equation = equation.replace(" ", "")
    return _module_of(functools.partial(jnp.einsum, equation), *inputs).einsum(equation, *inputs)


@op("Det", since=11)
def det(call: Call, x: Any) -> Any:
    """Determinants of the matrices in the last two axes."""
    wide = jnp.asarray(x, jnp.promote_types(x.dtype, np.float32))  # there is no decomposition in 16 bits
    return jnp.linalg.det(wide).astype(x.dtype)


def _module_of(product: Callable[..., Any], *values: Any) -> ModuleType:
    """NumPy for known integers, which shapes are computed of; else `jax.numpy`, because it sums 16-bit floats in 32 bits."""
    if not all(map(is_known, values)):
        return jnp
    result = jax.eval_shape(product, *values)  # two known vectors may make a large matrix
    return np if has_room(result.shape, result.dtype) and np.issubdtype(result.dtype, np.integer) else jnp


def _times(x: Any, factor: float, name: str) -> Any:
    if factor == 1:
        return x
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return x * np.asarray(factor, x.dtype)
    if factor != int(factor):
        raise ValueError(f"{name} is {factor}, and for integers it must be a whole number")
    return x * np.asarray(int(factor), x.dtype)
