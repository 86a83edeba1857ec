"""A block of GPT-2 as PyTorch's exporter writes transformers' GPT2Block, with a causal mask and matrices by Gemm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from benchmarks.models.gpt2 import EPSILON, Block
from benchmarks.onnx_models.layers import heads_first, heads_joined, layer_norm, tanh_gelu
from benchmarks.onnx_models.writer import Writer

Params = dict[str, Any]


def block(model: Block, params: Params, tokens: int, batch: int = 1) -> onnx.ModelProto:
    """float32[batch, tokens, width] in and out. Args: params: arrays of `gpt2.shapes`."""
    to = Writer(opset=16)
    shape = (batch, tokens, model.width)
    normed = layer_norm(to, "x", params["norm1"], "h.0.ln_1", EPSILON)
    context = _attention(to, model, _gemm(to, normed, params["qkv"], "h.0.attn.c_attn", (batch, tokens)), shape)
    x = to.node("Add", _gemm(to, context, params["out"], "h.0.attn.c_proj", (batch, tokens)), "x")
    normed = layer_norm(to, x, params["norm2"], "h.0.ln_2", EPSILON)
    inner = tanh_gelu(to, _gemm(to, normed, params["up"], "h.0.mlp.c_fc", (batch, tokens)))
    y = to.node("Add", x, _gemm(to, inner, params["down"], "h.0.mlp.c_proj", (batch, tokens)))
    return to.model("gpt2_block", [("x", np.float32, shape)], [y])


def _gemm(to: Writer, x: str, params: Params, name: str, rows: tuple[int, int]) -> str:
    """transformers' Conv1D: a product of a matrix, so the input becomes one and the result ceases to be one."""
    inputs, outputs = params["kernel"].shape
    flat = to.node("Reshape", x, to.constant([-1, inputs], np.int64))
    weights = to.weight(params["kernel"], f"{name}.weight"), to.weight(params["bias"], f"{name}.bias")
    product = to.node("Gemm", flat, *weights, alpha=1.0, beta=1.0)
    return to.node("Reshape", product, to.constant([*rows, outputs], np.int64))


def _attention(to: Writer, model: Block, qkv: str, shape: tuple[int, int, int]) -> str:
    size = model.width // model.heads
    apart = (*shape[:2], model.heads, size)
    parts = to.nodes("Split", 3, qkv, to.constant([model.width] * 3, np.int64), axis=2)
    orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    queries, keys, values = (heads_first(to, part, apart, order) for part, order in zip(parts, orders, strict=True))
    scores = to.node("Div", to.node("MatMul", queries, keys), to.constant(math.sqrt(size)))
    seen = to.constant(np.tril(np.ones((1, 1, shape[1], shape[1]), bool)), bool)
    masked = to.node("Where", seen, scores, to.constant(np.finfo(np.float32).min))
    return heads_joined(to, to.node("MatMul", to.node("Softmax", masked, axis=-1), values), shape)
