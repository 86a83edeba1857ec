"""Operators of com.microsoft against ONNX Runtime, and its optimiser's and quantiser's files."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import values
from tests.unit.onnx.ops.one_node import by_onnxruntime, check_node, run_node
from tests.unit.onnx.ops.test_quantise import random
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.registry import all_operators

F, I32, U8, I8 = np.float32, np.int32, np.uint8, np.int8
X, WIDE = values(2, 3, 8), values(8, 24, seed=1)  # [batch, tokens, size], and weights of queries, keys and values
BIAS, SCALE, SHIFT = values(24, seed=2), values(8, seed=3), values(8, seed=4)
PAST = values(2, 2, 2, 4, 4, seed=5)  # [2, batch, heads, tokens, size of a head]
HEADS = {"num_heads": 2}
Q8, K8 = random(2, 3, 4, dtype=U8), random(4, 5, seed=1) // 3
IMAGE, KERNEL = values(1, 2, 5, 5), values(3, 2, 3, 3, seed=1)
PIXELS = random(1, 2, 5, 5, dtype=U8)
GROUPED = {"num_heads": 4, "kv_num_heads": 2}
CACHE = values(2, 2, 2, 5, 16, seed=6)  # [2, batch, kv heads, places, size of a head]
ANGLES = np.cos(values(16, 2, seed=7)), np.sin(values(16, 2, seed=7))
WIDER = np.cos(values(16, 8, seed=7)), np.sin(values(16, 8, seed=7))
PROMPT = [values(2, 3, 64), values(2, 3, 32), values(2, 3, 32), None, None]  # queries, keys and values, no past
NEXT = [values(2, 1, 64), values(2, 1, 32), values(2, 1, 32), *CACHE]  # a token behind a past
SINK = values(4, seed=9)


def f(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers if len(numbers) > 1 else numbers[0], F)


def whole(*numbers: int, dtype: Any = I32) -> np.ndarray[Any, Any]:
    return np.array(numbers if len(numbers) > 1 else numbers[0], dtype)


def u8(number: int) -> np.ndarray[Any, Any]:
    return np.array(number, U8)


def real(*shape: int, seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    """A quantised array, its scale and its zero point."""
    return random(*shape, dtype=U8, seed=seed), f(0.02), u8(120)


def lstm(directions: int, *, of_each: bool) -> list[Any]:
    rows = [directions, 16] if of_each else [directions]
    rng = np.random.default_rng(0)
    scale, zero = rng.uniform(0.001, 0.01, rows).astype(F), np.zeros(rows, I8)
    return [
        values(4, 2, 3),
        random(directions, 3, 16) // 3,
        random(directions, 4, 16, seed=1) // 3,
        values(directions, 32, seed=2),
        None,
        *(None, None, None),
        scale,
        zero,
        scale,
        zero,
    ]


CASES: list[tuple[str, list[Any], int, dict[str, Any]]] = [  # operator, inputs, outputs, attributes
    ("SkipLayerNormalization", [X, X + 1, SCALE, SHIFT, BIAS[:8]], 1, {}),
    ("SkipLayerNormalization", [X, X[0], SCALE], 1, {"epsilon": 0.1}),
    ("SkipSimplifiedLayerNormalization", [X, X + 1, SCALE, SHIFT], 1, {}),
    ("SimplifiedLayerNormalization", [X, SCALE], 1, {"axis": -1}),
    (
        "EmbedLayerNormalization",
        [
            random(2, 3, dtype=U8).astype(I32) % 5,
            whole(0, 1, 0) * np.ones((2, 1), I32),
            values(5, 8),
            values(4, 8),
            values(2, 8),
            SCALE,
            SHIFT,
            np.array([[1, 1, 0], [1, 1, 1]], I32),
        ],
        2,
        {},
    ),
    (
        "EmbedLayerNormalization",
        [np.array([[1, 3]], I32), None, values(5, 8), values(4, 8), None, SCALE, SHIFT, None, np.array([[2, 0]], I32)],
        2,
        {"epsilon": 0.1},
    ),
    ("Attention", [X, WIDE, BIAS], 1, HEADS),
    ("Attention", [X, WIDE, BIAS, whole(2, 3, 1, 0)], 1, {**HEADS, "unidirectional": 1}),
    (
        "Attention",
        [X, WIDE, BIAS, np.array([[1, 1, 0], [0, 1, 1]], I32), None, values(2, 2, 3, 3)],
        1,
        {**HEADS, "mask_filter_value": -1.0},
    ),
    ("Attention", [X, WIDE, BIAS, random(2, 3, 3, dtype=U8).astype(I32) % 2], 1, {**HEADS, "scale": 0.3}),
    ("Attention", [X, WIDE, BIAS, None, PAST, None, whole(2)], 2, {**HEADS, "unidirectional": 1}),
    ("Attention", [X, WIDE, BIAS, whole(2, 3, 1, 0, 5, 2, 2, 2)], 1, HEADS),
    ("Attention", [X, values(8, 20), None], 1, {**HEADS, "qkv_hidden_sizes": [8, 8, 4]}),
    (
        "QAttention",
        [random(2, 3, 8, dtype=U8), random(8, 24) // 3, BIAS, f(0.02), f(0.01), whole(2, 3), u8(120), np.array(3, I8)],
        1,
        HEADS,
    ),
    (
        "QAttention",
        [random(2, 3, 8, dtype=U8), random(8, 24) // 3, BIAS, f(0.02), abs(BIAS) / 50, None, u8(120), np.zeros(24, I8), PAST],
        2,
        {**HEADS, "unidirectional": 1},
    ),
    ("MultiHeadAttention", [X, values(2, 5, 8), values(2, 5, 8, seed=1), BIAS], 1, HEADS),
    ("MultiHeadAttention", [X, X + 1, X * 2, None, None, values(1, 1, 3, 7), *PAST], 3, {**HEADS, "scale": 0.4}),
    ("MultiHeadAttention", [X, values(2, 5, 8), values(2, 5, 6), None, np.array([[1, 1, 0, 1, 0]] * 2, I32)], 1, HEADS),
    ("MultiHeadAttention", [X, values(2, 2, 5, 4), values(2, 2, 5, 4)], 1, HEADS),
    ("MultiHeadAttention", [X, X, X], 1, {**HEADS, "unidirectional": 1}),
    ("MultiHeadAttention", [X, values(2, 5, 8), values(2, 5, 8), None, whole(5, 3, 0, 3, 6, 0, 5, 8)], 1, HEADS),
    ("GroupQueryAttention", [values(2, 3, 32), values(2, 3, 16), values(2, 3, 16), None, None, whole(2, 2), whole(3)], 3, GROUPED),
    (
        "GroupQueryAttention",
        [values(2, 3, 128), None, None, None, None, whole(2, 2), whole(3), *WIDER],
        3,
        {**GROUPED, "do_rotary": 1, "rotary_interleaved": 1},
    ),
    (
        "GroupQueryAttention",
        [values(2, 1, 64), values(2, 1, 32), values(2, 1, 32), *CACHE, whole(5, 5), whole(6), *WIDER],
        3,
        {**GROUPED, "do_rotary": 1, "local_window_size": 2, "scale": 0.3},
    ),
    *(
        ("GroupQueryAttention", [*tokens, *WIDER, np.array(places, np.int64)], 3, {**GROUPED, "do_rotary": 1})
        for tokens, places in (
            ([*PROMPT, whole(2, 2), whole(3)], [[2, 7, 1], [5, 6, 7]]),  # only the first place counts
            ([*NEXT, whole(5, 5), whole(6)], [[7], [2]]),
        )
    ),
    ("GroupQueryAttention", [*PROMPT, whole(2, 2), whole(3)], 4, {**GROUPED, "smooth_softmax": 1, "qk_output": 1}),
    (
        "GroupQueryAttention",
        [*NEXT, whole(5, 5), whole(6), None, None, None, values(2, 4, 1, 6), SINK],
        4,
        {**GROUPED, "softcap": 1.5, "local_window_size": 3, "qk_output": 2},
    ),
    ("GroupQueryAttention", [*PROMPT, whole(2, 1), whole(3)], 4, {**GROUPED, "causal": 0, "qk_output": 2}),
    ("RotaryEmbedding", [X, whole(3, dtype=np.int64).reshape(1), *ANGLES], 1, {}),
    ("RotaryEmbedding", [values(2, 2, 3, 4), np.array([[0, 5, 2], [1, 1, 7]]), *ANGLES], 1, {"interleaved": 1}),
    (
        "RotaryEmbedding",
        [X, np.array([[0, 5, 2], [1, 1, 7]]), ANGLES[0][:, :1], ANGLES[1][:, :1]],
        1,
        {"num_heads": 2, "rotary_embedding_dim": 2},
    ),
    ("Gelu", [X], 1, {}),
    ("BiasGelu", [X, SCALE], 1, {}),
    ("FastGelu", [X, SCALE], 1, {}),
    ("QuickGelu", [X], 1, {"alpha": 1.3}),
    ("FusedMatMul", [values(2, 4, 3), values(2, 5, 4)], 1, {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [values(4, 2, 3), values(5, 2, 4)], 1, {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
    ("TransposeMatMul", [values(2, 3, 4), values(2, 5, 4)], 1, {"transB": 1}),
    ("FusedGemm", [values(4, 3), values(4, 5), values(5)], 1, {"transA": 1, "alpha": 0.5, "beta": 2.0, "activation": "Relu"}),
    ("FusedGemm", [values(3, 4), values(4, 5)], 1, {"activation": "LeakyRelu", "activation_alpha": 0.3}),
    ("FusedConv", [IMAGE, KERNEL, values(3), values(1, 3, 5, 5)], 1, {"pads": [1, 1, 1, 1], "activation": "Relu"}),
    ("FusedConv", [IMAGE, KERNEL], 1, {"activation": "Clip", "activation_params": [-0.5, 0.5]}),
    ("FusedConv", [IMAGE, KERNEL], 1, {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}),
    *(("FusedConv", [IMAGE, KERNEL], 1, {"activation": name}) for name in ("Sigmoid", "Tanh")),
    ("FusedConv", [IMAGE, KERNEL], 1, {"activation": "LeakyRelu", "activation_params": [0.3]}),
    *(
        (
            "MatMulNBits",
            [values(2, 40), random(5, 3, 2 * bits, dtype=U8), abs(values(5, 3, seed=1)), zeros, None, bias],
            1,
            {"K": 40, "N": 5, "block_size": 16, "bits": bits},
        )
        for bits, zeros, bias in (
            (4, None, None),
            (4, random(5, 2, dtype=U8), values(5)),
            (8, random(5, 3, dtype=U8), None),
            (2, random(5, 1, dtype=U8), None),
            (4, values(5, 3), None),
        )
    ),
    ("MatMulIntegerToFloat", [Q8, K8, f(0.02), f(0.01), u8(120), np.array(3, I8), values(5)], 1, {}),
    ("DynamicQuantizeMatMul", [values(2, 3, 4), K8, abs(values(5)), random(5) // 3, values(5, seed=1)], 1, {}),
    ("DynamicQuantizeLSTM", lstm(1, of_each=False), 3, {"hidden_size": 4}),
    ("DynamicQuantizeLSTM", lstm(2, of_each=True), 3, {"hidden_size": 4, "direction": "bidirectional"}),
    (
        "QGemm",
        [random(3, 4, dtype=U8), f(0.02), u8(120), K8, abs(values(5)) / 50, random(5) // 3, whole(1, -200, 300, 4, 5), f(0.1), u8(100)],
        1,
        {},
    ),
    (
        "QGemm",
        [random(4, 3, dtype=U8), f(0.02), u8(120), K8.T.copy(), f(0.01), np.array(3, I8)],
        1,
        {"transA": 1, "transB": 1, "alpha": 0.5},
    ),
    ("QLinearAdd", [*real(2, 3, 4), *real(3, 4, seed=1), f(0.03), u8(100)], 1, {}),
    ("QLinearMul", [*real(2, 3, 4), *real(4, seed=1), f(0.03), u8(100)], 1, {}),
    ("QLinearSigmoid", [*real(3, 40), f(1 / 256), u8(0)], 1, {}),
    ("QLinearLeakyRelu", [*real(3, 40), f(0.02), u8(60)], 1, {"alpha": 0.2}),
    ("QLinearSoftmax", [*real(3, 8), f(1 / 256), u8(0)], 1, {"opset": 13, "axis": -1}),
    ("QLinearSoftmax", [*real(3, 2, 4), f(1 / 256), u8(0)], 1, {"opset": 11, "axis": 1}),
    ("QLinearGlobalAveragePool", [PIXELS, f(0.02), u8(120), f(0.01), u8(100)], 1, {}),
    ("QLinearGlobalAveragePool", [PIXELS, f(0.02), u8(120), f(0.01), u8(100)], 1, {"channels_last": 1}),
    (
        "QLinearAveragePool",
        [PIXELS, f(0.02), u8(120), f(0.015), u8(100)],
        1,
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]},
    ),
    ("QLinearAveragePool", [PIXELS, f(0.02), u8(120), f(0.015), u8(100)], 1, {"kernel_shape": [1, 2], "channels_last": 1}),
    ("QLinearConcat", [f(0.03), u8(100), *real(2, 3), *real(2, 4, seed=1)], 1, {"axis": 1}),
]


def domain_of(name: str) -> str:
    return "" if name == "SimplifiedLayerNormalization" else "com.microsoft"


@each("case", CASES)
def test_values_are_those_of_onnx_runtime(case: tuple[str, list[Any], int, dict[str, Any]]) -> None:
    name, inputs, outputs, attributes = case
    expected = by_onnxruntime(name, inputs, version=1, domain=domain_of(name), outputs=outputs, **attributes)

    def check(way: str, found: list[Any]) -> None:
        for got, wanted in zip(found, expected, strict=True):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), (name, way)
            rounding = 1 if wanted.dtype in (U8, I8) else 1e-6  # what ties go to depends on the order of products
            np.testing.assert_allclose(got.astype(F), wanted.astype(F), rtol=2e-5, atol=rounding, err_msg=f"{name} {way}")

    ways = ("jit", "wide") if "Group" in name else ("jit",)
    check_node(name, inputs, check, ways, version=1, domain=domain_of(name), outputs=outputs, **attributes)


def test_every_operator_has_a_case() -> None:
    registered = {name for domain, name in all_operators() if domain == "com.microsoft"} | {"SimplifiedLayerNormalization"}
    assert registered == {name for name, *_ in CASES}


def test_scores_are_those_before_the_softmax() -> None:
    inputs = [X, X, X, None, np.array([[1, 0, 1]] * 2, I32), values(1, 1, 3, 3)]
    asked: dict[str, Any] = {"version": 1, "domain": "com.microsoft", "outputs": 4, **HEADS, "scale": 0.4}
    expected = by_onnxruntime("MultiHeadAttention", inputs, out_types=[1] * 4, **asked)
    np.testing.assert_allclose(run_node("MultiHeadAttention", inputs, "jit", **asked)[3], expected[3], rtol=1e-5, atol=1e-6)


def test_chunks_of_a_prompt_may_be_filled_up() -> None:
    cache, tokens = values(2, 2, 2, 9, 16, seed=6), [values(2, 3, 64), values(2, 3, 32), values(2, 3, 32)]
    inputs = [*tokens, *cache, whole(5, 3), whole(6), *WIDER, *[None] * 7, whole(2, 3)]  # 2 and 3 tokens count, behind 4 and 1
    asked: dict[str, Any] = {"version": 1, "domain": "com.microsoft", "outputs": 3, **GROUPED, "do_rotary": 1}
    expected, found = by_onnxruntime("GroupQueryAttention", inputs, **asked), run_node("GroupQueryAttention", inputs, "jit", **asked)
    for row, (new, held) in enumerate(((2, 6), (3, 4))):  # the rest has no meaning
        np.testing.assert_allclose(found[0][row, :new], expected[0][row, :new], rtol=1e-5, atol=1e-6)
        for cache, wanted in zip(found[1:], expected[1:], strict=True):
            np.testing.assert_allclose(cache[row, :, :held], wanted[row, :, :held], rtol=1e-5, atol=1e-6)


def test_rows_of_a_batch_may_have_pasts_of_several_lengths() -> None:
    inputs = [values(2, 1, 64), values(2, 1, 32), values(2, 1, 32), *CACHE, whole(5, 3), whole(6)]
    expected = by_onnxruntime("GroupQueryAttention", inputs, version=1, domain="com.microsoft", outputs=3, **GROUPED)
    found = run_node("GroupQueryAttention", inputs, "jit", version=1, domain="com.microsoft", outputs=3, **GROUPED)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    for cache, wanted in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(cache[0], wanted[0])
        np.testing.assert_array_equal(cache[1, :, :4], wanted[1, :, :4])  # beyond its length ONNX Runtime leaves what was there


@each(
    "name, inputs, attributes, message",
    [
        ("Attention", [X, WIDE, BIAS], {**HEADS, "do_rotary": 1}, "attribute 'do_rotary' is 1, and only 0 is supported"),
        ("Attention", [X, WIDE, BIAS], {**HEADS, "new": 1}, "attribute 'new' is not supported"),
        ("MultiHeadAttention", [X, X, X, *[None] * 5, whole(1)], HEADS, "input 'past_sequence_length' is not supported"),
        ("Attention", [X, WIDE, BIAS, np.zeros(7, I32)], HEADS, r"a mask of \[7\] for a batch of 2, 3 queries and 3 keys is not supported"),
        ("Attention", [X, WIDE, BIAS], {**HEADS, "qkv_hidden_sizes": [8, 8]}, r"of sizes \[8, 8\] are not the 24 columns"),
        ("MultiHeadAttention", [values(2, 3, 2, 3, 4)], HEADS, "queries, keys and values in one input are not supported"),
        ("GroupQueryAttention", [*PROMPT, whole(2, 2), whole(3), *[None] * 7, SINK], GROUPED, "input 'q_norm_weight' is not supported"),
        ("GroupQueryAttention", [*PROMPT, whole(2, 2), whole(3)], {**GROUPED, "qk_output": 3}, "'qk_output' is 3, and may be 0 to 2"),
        (
            "GroupQueryAttention",
            [*PROMPT, whole(2, 2), whole(3)],
            {**GROUPED, "causal": 0, "local_window_size": 2},
            "'local_window_size' is 2, and must be -1 where 'causal' is 0",
        ),
        ("FusedConv", [IMAGE, KERNEL], {"activation": "Elu"}, "attribute 'activation' is 'Elu', and may be one of Relu, Tanh"),
        (
            "MatMulNBits",
            [values(2, 40), random(5, 3, 8, dtype=U8), values(5, 3)],
            {"K": 40, "N": 5, "block_size": 16, "bits": 3},
            "attributes 'bits', 'block_size' and 'N' are 3, 16 and 5",
        ),
        ("SkipLayerNormalization", [X, X, SCALE], {"axis": 1}, "'axis'"),
    ],
)
def test_what_is_not_supported_is_named(name: str, inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxError, match=rf"{name}.*{message}"):
        run_node(name, inputs, "shapes", version=1, domain="com.microsoft", **attributes)
