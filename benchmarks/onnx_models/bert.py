"""BERT as PyTorch's exporter writes transformers' BertForQuestionAnswering: attention, norms and GELUs taken apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from benchmarks.models.transformer import EPSILON, Encoder
from benchmarks.onnx_models.layers import erf_gelu, heads_first, heads_joined, layer_norm, linear
from benchmarks.onnx_models.writer import Writer

Params = dict[str, Any]


def bert(model: Encoder, params: Params, tokens: int, batch: int = 1) -> onnx.ModelProto:
    """Inputs words, mask and segments, int64[batch, tokens] each; outputs start and end logits, [batch, tokens] each.

    Args: params: arrays of `transformer.bert_shapes`; each layer has its queries, keys and values in products of their own here.
    """
    to = Writer(opset=16)
    shape = (batch, tokens, model.width)
    x = _embedded(to, params, tokens)
    hidden = _hidden(to)
    for number, layer in enumerate(params["layers"]):
        name = f"bert.encoder.layer.{number}"
        context = _attention(to, model, layer, x, hidden, shape, name)
        attended = linear(to, context, layer["out"]["kernel"], layer["out"]["bias"], f"{name}.attention.output.dense")
        x = layer_norm(to, to.node("Add", attended, x), layer["norm1"], f"{name}.attention.output.LayerNorm", EPSILON)
        inner = erf_gelu(to, linear(to, x, layer["up"]["kernel"], layer["up"]["bias"], f"{name}.intermediate.dense"))
        outer = linear(to, inner, layer["down"]["kernel"], layer["down"]["bias"], f"{name}.output.dense")
        x = layer_norm(to, to.node("Add", outer, x), layer["norm2"], f"{name}.output.LayerNorm", EPSILON)
    logits = linear(to, x, params["head"]["kernel"], params["head"]["bias"], "qa_outputs")
    parts = to.nodes("Split", 2, logits, to.constant([1, 1], np.int64), axis=-1)
    outputs = [to.node("Squeeze", part, to.constant([-1], np.int64)) for part in parts]
    inputs = [(each, np.int64, (batch, tokens)) for each in ("words", "mask", "segments")]
    return to.model("bert", inputs, outputs)


def _embedded(to: Writer, params: Params, tokens: int) -> str:
    words = to.node("Gather", to.weight(params["words"], "bert.embeddings.word_embeddings.weight"), "words")
    segments = to.node("Gather", to.weight(params["segments"], "bert.embeddings.token_type_embeddings.weight"), "segments")
    positions = to.weight(params["positions"], "bert.embeddings.position_embeddings.weight")
    places = to.node("Gather", positions, to.constant(np.arange(tokens)[None], np.int64))
    total = to.node("Add", to.node("Add", words, segments), places)
    return layer_norm(to, total, params["norm"], "bert.embeddings.LayerNorm", EPSILON)


def _hidden(to: Writer) -> str:
    """What is added to scores: -10,000 where there is no word."""
    mask = to.node("Unsqueeze", to.node("Unsqueeze", "mask", to.constant([1], np.int64)), to.constant([2], np.int64))
    absent = to.node("Sub", to.constant(1), to.node("Cast", mask, to=onnx.TensorProto.FLOAT))
    return to.node("Mul", absent, to.constant(-10_000))


def _attention(to: Writer, model: Encoder, layer: Params, x: str, hidden: str, shape: tuple[int, int, int], name: str) -> str:
    size = model.width // model.heads
    apart = (*shape[:2], model.heads, size)
    parts = zip(("query", "key", "value"), _thirds(layer["qkv"]), ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    queries, keys, values = (
        heads_first(to, linear(to, x, kernel, bias, f"{name}.attention.self.{part}"), apart, order) for part, (kernel, bias), order in parts
    )
    scores = to.node("Div", to.node("MatMul", queries, keys), to.constant(math.sqrt(size)))
    weights = to.node("Softmax", to.node("Add", scores, hidden), axis=-1)
    return heads_joined(to, to.node("MatMul", weights, values), shape)


def _thirds(qkv: Params) -> list[tuple[Any, Any]]:
    """(kernel, bias) of queries, keys and values."""
    return list(zip(np.split(qkv["kernel"], 3, axis=1), np.split(qkv["bias"], 3), strict=True))
