"""Attention and linear attention against NumPy."""

from typing import Any

import jax
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.agree import agrees, values
from tests.unit.onnx.ops.one_node import prepared, run_node, run_nodes
from tilestep.onnx.errors import OnnxError

F = np.float32
Q, K, V = values(2, 4, 3, 8), values(2, 2, 5, 8, seed=1), values(2, 2, 5, 6, seed=2)  # two heads share keys and values
BOOLS = values(3, 5, seed=3) > -0.5
BOOLS[1] = False


def scores(q: Any, k: Any, scale: float | None = None) -> Any:
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    return (q @ k.swapaxes(-1, -2)) * F(q.shape[-1] ** -0.5 if scale is None else scale)


def weighted(s: Any, v: Any) -> Any:
    """Sums of values by the softmax of scores; 0 where all scores are -inf."""
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    return p.astype(F), (p @ np.repeat(v, s.shape[1] // v.shape[1], 1)).astype(F)


def hidden(allowed: Any) -> Any:
    return np.where(allowed, F(0), F(-np.inf))


def test_missing_keys_of_a_mask_dont_count() -> None:
    whole = np.pad(BOOLS[:, :3], ((0, 0), (0, 2)))
    for mask in (BOOLS[:, :3], hidden(BOOLS[:, :3])):
        agrees(
            [weighted(scores(Q, K) + hidden(whole), V)[1]], "Attention", [Q, K, V, mask], version=24, rtol=1e-4, atol=1e-5, ways=("jit",)
        )


@each("lengths", [[5, 3], [1, 2]])
@each("causal", [0, 1])
def test_lengths_hide_what_is_behind(lengths: list[int], causal: int) -> None:
    ends = np.array(lengths).reshape(2, 1, 1, 1)
    seen = np.arange(5) < ends
    if causal:
        seen = seen & (np.arange(5) <= np.arange(3)[:, None] + ends - 3)
    y = weighted(scores(Q, K) + hidden(seen), V)[1]
    inputs = [Q, K, V, None, None, None, np.array(lengths)]
    agrees([y], "Attention", inputs, version=24, is_causal=causal, rtol=1e-4, atol=1e-5, ways=("jit",))


@each("left, right, causal", [(1, -1, 0), (-1, 1, 0), (0, 0, 0), (1, 0, 1), (2, 1, 1)])
def test_windows(left: int, right: int, causal: int) -> None:
    before = np.arange(3)[:, None] - np.arange(5)
    seen = ((left < 0) | (before <= left)) & ((right < 0) | (-before <= right)) & ((not causal) | (before >= 0))
    options = {"left_window_size": left, "right_window_size": right, "is_causal": causal}
    agrees(
        [weighted(scores(Q, K) + hidden(seen), V)[1]], "Attention", [Q, K, V], version=25, rtol=1e-4, atol=1e-5, ways=("jit",), **options
    )


@each(
    "inputs, attributes, message",
    [
        ([Q, K, V, None, K], {}, "past_key and past_value go together"),
        ([Q, K, V], {"left_window_size": -2}, "windows are -2 and -1"),
        ([Q, K, V], {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode is 4, and may be 0 to 3"),
        ([Q[:, :3], K, V], {}, "2 heads don't divide 3"),
        ([Q, K, V], {"q_num_heads": 2}, "doesn't have 2 heads"),
    ],
)
def test_what_cant_be_says_why(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        run_node("Attention", inputs, version=25, **attributes)


def test_attention_is_two_products_and_a_softmax() -> None:
    graph = prepared([helper.make_node("Attention", list("qkv"), ["y"])], list("qkv"), ["y"], {"": 23})
    text = jax.jit(lambda *inputs: run_nodes(graph, inputs)).lower(Q, K, V).as_text()
    assert text.count("stablehlo.dot_general") == 2
    assert "stablehlo.transpose" not in text
    assert "stablehlo.gather" not in text


def test_graphs_change_scores_and_probabilities() -> None:
    def graph(name: str, op_type: str) -> onnx.GraphProto:
        x, y = (helper.make_tensor_value_info(which, 1, None) for which in ("x", "y"))
        return helper.make_graph([helper.make_node(op_type, ["x"], ["y"])], name, [x], [y])

    k, v = K[:, :, :3], V[:, :, :3]
    probabilities, _ = weighted(np.tanh(scores(Q, k)), v)
    y = np.abs(-probabilities) @ np.repeat(v, 2, 1)
    attributes = {"score_mod": graph("scores", "Tanh"), "prob_mod": graph("probabilities", "Abs")}
    node = helper.make_node("FlexAttention", list("qkv"), ["y"], domain="ai.onnx.preview", **attributes)
    prepared_graph = prepared([node], list("qkv"), ["y"], {"": 26, "ai.onnx.preview": 1})
    for way in ("eager", "jit"):
        np.testing.assert_allclose(run_nodes(prepared_graph, [Q, k, v], way)[0], y, 1e-4, 1e-5)


def test_angles_must_fit() -> None:
    with pytest.raises(OnnxError, match="8 of 8 elements are to be turned, and there are 3 angles"):
        run_node("RotaryEmbedding", [Q, values(2, 3, 3), values(2, 3, 3)], version=23)


@each("rule", ["linear", "gated", "delta", "gated_delta"])
@each("narrow", [False, True])
def test_linear_attention_is_a_recurrence(rule: str, narrow: bool) -> None:
    tokens, size, width = 4, 3, 2
    q, k, v = values(2, tokens, 4, size), values(2, tokens, 2, size, seed=1), values(2, tokens, 2, width, seed=2)
    decay = -np.abs(values(2, tokens, 2, 1 if narrow else size, seed=3)) if "gated" in rule else None
    beta = np.abs(values(2, tokens, 1 if narrow else 2, 1, seed=4)) if "delta" in rule else None
    state = values(2, 2, size, width, seed=5)
    inputs = [x if x is None else x.reshape(2, tokens, -1) for x in (q, k, v)]
    more = [None if x is None else x.reshape(2, tokens, -1) for x in (decay, beta)]
    start, results = state, []
    for token in range(tokens):
        if decay is not None:
            state = state * np.exp(decay[:, token])[..., None]
        value = v[:, token]
        if beta is not None:
            value = beta[:, token] * (value - np.einsum("bhkv,bhk->bhv", state, k[:, token]))
        state = state + k[:, token, :, :, None] * value[:, :, None]
        results.append(np.einsum("bhk,bhkv->bhv", q[:, token], np.repeat(state, 2, 1)) * F(0.5))
    expected = [np.stack(results, 1).reshape(2, tokens, -1), state]
    options = {"q_num_heads": 4, "kv_num_heads": 2, "scale": 0.5, "update_rule": rule, "rtol": 1e-4, "atol": 1e-5}
    agrees(expected, "LinearAttention", [*inputs, start, *more], version=27, ways=("jit",), **options)


def test_a_rule_needs_its_inputs() -> None:
    x = values(1, 2, 4)
    with pytest.raises(OnnxError, match="update_rule 'gated_delta' and the inputs decay and beta don't fit"):
        run_node("LinearAttention", [x, x, x], version=27, q_num_heads=2, kv_num_heads=2)
