"""Layers as PyTorch's exporter writes them below opset 17, where it takes norms apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.onnx_models.writer import Writer

Params = dict[str, Any]


def layer_norm(to: Writer, x: str, params: Params, name: str, epsilon: float) -> str:
    """Mean 0 and variance 1 over the last axis, times the scale plus the bias."""
    mean = to.node("ReduceMean", x, axes=[-1])
    centred = to.node("Sub", x, mean)
    squares = to.node("Pow", centred, to.constant(2))
    variance = to.node("ReduceMean", squares, axes=[-1])
    deviation = to.node("Sqrt", to.node("Add", variance, to.constant(epsilon)))
    scaled = to.node("Mul", to.node("Div", centred, deviation), to.weight(params["scale"], f"{name}.weight"))
    return to.node("Add", scaled, to.weight(params["bias"], f"{name}.bias"))


def linear(to: Writer, x: str, kernel: Any, bias: Any, name: str) -> str:
    """A dense layer of an input with three axes: a product with a transposed weight, which the exporter has transposed already."""
    product = to.node("MatMul", x, to.weight(kernel, f"{name}.weight"))
    return to.node("Add", to.weight(bias, f"{name}.bias"), product)


def erf_gelu(to: Writer, x: str) -> str:
    """GELU by the error function."""
    erf = to.node("Erf", to.node("Div", x, to.constant(np.sqrt(2))))
    product = to.node("Mul", x, to.node("Add", erf, to.constant(1)))
    return to.node("Mul", product, to.constant(0.5))


def tanh_gelu(to: Writer, x: str) -> str:
    """GELU by its approximation, as transformers' NewGELUActivation."""
    cube = to.node("Mul", to.node("Pow", x, to.constant(3)), to.constant(0.044715))
    inner = to.node("Mul", to.node("Add", x, cube), to.constant(np.sqrt(2 / np.pi)))
    return to.node("Mul", to.node("Mul", x, to.constant(0.5)), to.node("Add", to.node("Tanh", inner), to.constant(1)))


def heads_first(to: Writer, x: str, shape: tuple[int, ...], order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    """[batch, tokens, heads * size] as [batch, heads, tokens, size]. Args: shape: with the heads apart; order: of its axes."""
    apart = to.node("Reshape", x, to.constant(shape, np.int64))
    return to.node("Transpose", apart, perm=list(order))


def heads_joined(to: Writer, x: str, shape: tuple[int, ...]) -> str:
    """[batch, heads, tokens, size] as `shape`, which is [batch, tokens, heads * size]."""
    return to.node("Reshape", to.node("Transpose", x, perm=[0, 2, 1, 3]), to.constant(shape, np.int64))
