"""Matrix products and convolutions with what the optimiser puts into them, the GELUs, and products by weights of few bits."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.ops.math.linalg import gemm
from tilestep.onnx.ops.microsoft.limits import MS, require_absent, require_inert
from tilestep.onnx.ops.nn.conv import conv

Ints = Sequence[int] | None
_ACTIVATIONS: Final[dict[str, Callable[..., Any]]] = {  # each is called with (x, *parameters)
    "": lambda x: x,
    "Relu": jax.nn.relu,
    "Tanh": jnp.tanh,
    "Sigmoid": jax.nn.sigmoid,
    "LeakyRelu": lambda x, alpha=0.01: jax.nn.leaky_relu(x, alpha),
    "Clip": lambda x, low, high: jnp.clip(x, low, high),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: jnp.clip(alpha * x + beta, 0, 1),
}


def _activated(x: Any, activation: str, parameters: Sequence[float]) -> Any:
    if activation not in _ACTIVATIONS:
        raise ValueError(f"attribute 'activation' is {activation!r}, and may be one of {', '.join(filter(None, _ACTIVATIONS))}")
    return _ACTIVATIONS[activation](x, *parameters)


# ---- GELUs


@op("Gelu", "BiasGelu", domain=MS)
def gelu(call: Call, x: Any, bias: Any = None) -> Any:
    """x + bias times the normal distribution's function of it."""
    return jax.nn.gelu(x if bias is None else x + bias, approximate=False)


@op("FastGelu", domain=MS)
def fast_gelu(call: Call, x: Any, bias: Any = None) -> Any:
    """Gelu of x + bias, approximated by tanh."""
    return jax.nn.gelu(x if bias is None else x + bias, approximate=True)


@op("QuickGelu", domain=MS)
def quick_gelu(call: Call, x: Any, *, alpha: float = 1.702) -> Any:
    """x times the sigmoid of alpha * x."""
    return x * jax.nn.sigmoid(alpha * jnp.asarray(x))


# ---- products


@op("FusedMatMul", "TransposeMatMul", domain=MS)
def fused_matmul(
    call: Call, a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0
) -> Any:
    """alpha * a @ b, with axes moved first: `transBatch` puts the first axis before the last, `trans` exchanges the last two."""
    y = jnp.matmul(_arranged(a, transA, transBatchA), _arranged(b, transB, transBatchB))
    return y if alpha == 1 else y * np.asarray(alpha, y.dtype)


def _arranged(x: Any, swapped: int, batch: int) -> Any:
    x = jnp.asarray(x)
    if batch:
        x = jnp.moveaxis(x, 0, -2)
    return jnp.swapaxes(x, -1, -2) if swapped and x.ndim > 1 else x


@op("FusedGemm", domain=MS)
def fused_gemm(call: Call, a: Any, b: Any, c: Any = None, *, activation: str = "", **attributes: Any) -> Any:
    """Gemm, and an activation of its result with parameters `activation_alpha`, `activation_beta`, `activation_gamma`."""
    names = [name for name in ("activation_alpha", "activation_beta", "activation_gamma") if name in attributes]
    parameters = [attributes.pop(name) for name in names]
    return _activated(gemm(call, a, b, c, **attributes), activation, parameters)


@op("FusedConv", domain=MS)
def fused_conv(
    call: Call,
    x: Any,
    w: Any,
    b: Any = None,
    z: Any = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **attributes: Any,
) -> Any:
    """Conv plus z, and an activation of the sum."""
    y = conv(call, x, w, b, **attributes)
    return _activated(y if z is None else y + z, activation, activation_params)


@op("MatMulNBits", domain=MS)
def matmul_n_bits(
    call: Call,
    a: Any,
    b: Any,
    scales: Any,
    zero_points: Any = None,
    g_idx: Any = None,
    bias: Any = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    **others: Any,
) -> Any:
    """a times the transpose of weights [N, K] whose blocks of a row have a scale each, plus the bias.

    Args:
        b: [N, blocks, bytes], uint8: weights of `bits` bits, the first in a byte's lowest ones.
        scales: [N, blocks]. zero_points: as many, packed as b is, or as floats; 2 ** (bits - 1) by default.
        accuracy_level: a hint, which changes no result here.
    """
    require_absent(g_idx=g_idx)
    require_inert(others, weight_prepacked=0)
    if bits not in (2, 4, 8) or block_size < 1 or N < 1:
        raise ValueError(f"attributes 'bits', 'block_size' and 'N' are {bits}, {block_size} and {N}: bits are 2, 4 or 8")
    blocks = -(-K // block_size)
    zero: Any = np.float32(1 << (bits - 1))
    if zero_points is not None:
        unpacked = _unpacked(zero_points, bits) if zero_points.dtype == np.uint8 else zero_points
        zero = jnp.asarray(unpacked.reshape(N, -1)[:, :blocks, None]).astype(np.float32)
    codes = _unpacked(b.reshape(N, blocks, -1), bits).astype(np.float32)
    weights = ((codes - zero) * scales.reshape(N, blocks, 1).astype(np.float32)).reshape(N, blocks * block_size)[:, :K]
    y = jnp.matmul(a, weights.astype(a.dtype).T)
    return y if bias is None else y + bias


def _unpacked(codes: Any, bits: int) -> Any:
    """Bytes [..., n] as numbers of so many bits [..., n * 8 / bits], the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((jnp.asarray(codes)[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(*codes.shape[:-1], -1)
