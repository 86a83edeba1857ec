"""The LSTM, several convolutions, dropout, splines, beam search and norms, by NumPy."""

import collections
from typing import Any

import jax
import numpy as np
import pytest

from tests.together import each
from tests.unit.popart.ops.graphcore import gradient, holds, outputs
from tilestep.onnx.interpreter.interpret import GraphRun
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.nn import recurrent

F = np.float32
RANDOM = np.random.default_rng(0)


def random(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(F)


X, W, B, S = random(4, 2, 3), random(4, 3 + 5, 5) * 0.5, random(4, 5), random(2, 2, 5)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(x: Any, w: Any, b: Any, start: Any, lengths: Any) -> Any:
    h, c = start
    every = np.zeros((*x.shape[:2], w.shape[2]), F)
    for time, now in enumerate(x):
        forget, new, candidate, output = np.einsum("bk,gkh->gbh", np.concatenate([now, h], 1), w) + b[:, None]
        cell = sigmoid(forget) * c + sigmoid(new) * np.tanh(candidate)
        runs = (time < np.asarray(lengths))[:, None]
        hidden = sigmoid(output) * np.tanh(cell)
        every[time] = np.where(runs, hidden, 0)
        h, c = np.where(runs, hidden, h), np.where(runs, cell, c)
    return every, h, c


@each("full", [0, 1])
def test_lstm(full: int) -> None:
    every, last, cell = lstm(X, W, B, S, [4, 4])
    holds([every if full else last, cell], "LSTM", [X, W, B, S], output_full_sequence=full, atol=1e-5)


def test_an_lstm_without_bias_and_start_and_with_lengths() -> None:
    every, _, cell = lstm(X, W, np.zeros_like(B), np.zeros_like(S), [2, 4])
    holds([every, cell], "LSTM", [X, W, None, None, np.array([2, 4], np.int32)], atol=1e-5)


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(popart_exception, match=r"Bad weights shape \[4 7 5\], should be \[4 8 5\]"):
        outputs("LSTM", [X, W[:, :7]])


def convolved(x: Any, w: Any, stride: int, pad: int) -> Any:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,mcij->nmhw", windows, w).astype(F)


def test_several_convolutions() -> None:
    x, w, y, v, b = random(1, 2, 5, 5), random(3, 2, 3, 3), random(2, 1, 6, 6), random(2, 1, 2, 2), random(2)
    expected = [convolved(x, w, 1, 1), convolved(y, v, 2, 0) + b.reshape(1, -1, 1, 1)]
    attributes = {"numConvs": 2, "strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1, 0, 0, 0, 0], "planType": "parallel"}
    holds(expected, "MultiConv", [x, w, None, y, v, b], rtol=1e-4, atol=1e-5, **attributes)
    with pytest.raises(popart_exception, match="outPads"):
        outputs("MultiConv", [x, w], outPads=[1, 1, 1, 1])


def test_dropout_of_slices() -> None:
    x = np.ones((100, 3), F)
    run = GraphRun(training=True, key=jax.random.key(0))
    y = np.asarray(outputs("ShapedDropout", [x], run=run, shape=[100, 1], ratio=0.25)[0])
    assert {*np.unique(y.round(5))} == {F(0), F(1.33333)}
    assert (y == y[:, :1]).all()
    assert 10 < (y[:, 0] == 0).sum() < 40
    np.testing.assert_array_equal(gradient("ShapedDropout", [x], run=run, shape=[100, 1], ratio=0.25), y)
    holds([x], "ShapedDropout", [x], shape=[1])


def test_dropouts_that_do_not_fit() -> None:
    with pytest.raises(popart_exception, match=r"ratio value 1.5 is not valid. Please use a value in the interval \[0,1\)"):
        outputs("ShapedDropout", [X], shape=[1], ratio=1.5)
    with pytest.raises(popart_exception, match="ShapedDropout: incompatible input tensor and dropout shape"):
        outputs("ShapedDropout", [X], shape=[7, 1])


# ---- splines


def pieces(degree: int, v: float) -> list[float]:
    match degree:
        case 1:
            return [1 - v, v]
        case 2:
            return [0.5 * v * v - v + 0.5, -v * v + v + 0.5, 0.5 * v * v]
        case _:
            return [(1 - v) ** 3 / 6, (3 * v**3 - 6 * v**2 + 4) / 6, (-3 * v**3 + 3 * v**2 + 3 * v + 1) / 6, v**3 / 6]


@each("degree", [1, 2, 3])
def test_the_basis_of_splines(degree: int) -> None:
    pseudo, sizes, opened = np.array([[0.1, 0.9], [0.5, 0.3]], F), np.array([5, 6], np.int32), np.array([1, 0], np.uint8)
    basis, index = np.ones((2, (degree + 1) ** 2)), np.zeros((2, (degree + 1) ** 2), np.int32)
    for e, s in np.ndindex(basis.shape):
        rest, stride = s, 1
        for d in range(2):
            step, rest = rest % (degree + 1), rest // (degree + 1)
            v = pseudo[e, d] * (sizes[d] - degree * opened[d])
            index[e, s] += (int(v) + step) % sizes[d] * stride
            stride *= sizes[d]
            basis[e, s] *= pieces(degree, v - np.floor(v))[step]
    holds([basis.astype(F), index], "SplineBasis", [pseudo, sizes, opened], degree=degree, atol=1e-5)


def test_weights_of_splines() -> None:
    x, weight, basis, index = random(3, 2), random(7, 2, 4), random(3, 5), RANDOM.integers(0, 7, (3, 5)).astype(np.int32)
    expected = np.einsum("ei,es,esio->eo", x, basis, weight[index])
    holds([expected.astype(F)], "SplineWeighting", [x, weight, basis, index], rtol=1e-4, atol=1e-5)


def test_splines_that_do_not_fit() -> None:
    with pytest.raises(popart_exception, match="degree = 4"):
        outputs("SplineBasis", [random(2, 2), np.ones(2, np.int32), np.ones(2, np.uint8)], count=2, degree=4)
    with pytest.raises(popart_exception, match="weight tensor is not a 3-D tensor"):
        outputs("SplineWeighting", [random(3, 2), random(7, 2), random(3, 5), np.zeros((3, 5), np.int32)])


# ---- beam search


def searched(scores: Any, width: int, blank: int) -> list[tuple[tuple[int, ...], float]]:
    """Prefixes with the logarithm of their probability, the best first."""
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}
    for score in scores:
        grown: dict[tuple[int, ...], tuple[float, float]] = collections.defaultdict(lambda: (-np.inf, -np.inf))
        for prefix, (ends_blank, ends_other) in beams.items():
            whole = np.logaddexp(ends_blank, ends_other)
            for label, p in enumerate(score):
                stay = grown[prefix]
                if label == blank:
                    grown[prefix] = (np.logaddexp(stay[0], whole + p), stay[1])
                    continue
                repeats = bool(prefix) and prefix[-1] == label
                if repeats:
                    grown[prefix] = (stay[0], np.logaddexp(stay[1], ends_other + p))
                longer = grown[(*prefix, label)]
                grown[(*prefix, label)] = (longer[0], np.logaddexp(longer[1], (ends_blank if repeats else whole) + p))
        ordered = sorted(grown.items(), key=lambda item: -np.logaddexp(*item[1]))
        beams = dict(ordered[:width])
    return [(prefix, float(np.logaddexp(*p))) for prefix, p in beams.items()]


@each("blank, width, paths", [(0, 6, 1), (3, 8, 4)])
def test_beam_search(blank: int, width: int, paths: int) -> None:
    scores = random(7, 3, 4)
    logarithms = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    lengths = np.array([7, 5, 7], np.uint32)
    probabilities, ends, labels = map(
        np.asarray, outputs("CtcBeamSearchDecoder", [logarithms, lengths], count=3, blank=blank, beam_width=width, top_paths=paths)
    )
    for item in range(3):
        for path, (prefix, probability) in enumerate(searched(logarithms[: lengths[item], item], width, blank)[:paths]):
            assert tuple(labels[item, path, : ends[item, path]]) == prefix
            np.testing.assert_allclose(probabilities[item, path], probability, 1e-4)


def test_an_lstm_of_32_bits_can_follow_one_of_64() -> None:
    weights = np.ones((4, 2, 3), np.float32)
    with jax.enable_x64(True):
        before = jax.make_jaxpr(recurrent._of_onnx)(weights)
    after = jax.make_jaxpr(recurrent._of_onnx)(weights)
    assert before.out_avals[0].shape == after.out_avals[0].shape == (1, 12, 2)


IMAGES = RANDOM.standard_normal((2, 4, 3, 2)).astype(F)
SCALE, BIAS = RANDOM.standard_normal(4).astype(F), RANDOM.standard_normal(4).astype(F)
MEAN, VARIANCE = RANDOM.standard_normal(4).astype(F), RANDOM.uniform(0.5, 2, 4).astype(F)
BATCH = [IMAGES, SCALE, BIAS, MEAN, VARIANCE]


def along(values: Any) -> Any:
    return values.reshape(1, -1, 1, 1)


def test_groups_that_do_not_divide_the_channels() -> None:
    with pytest.raises(popart_exception, match="num_groups is 3"):
        outputs("GroupNormalization", [IMAGES, SCALE, BIAS], num_groups=3)


def test_a_batch_norm_with_one_output_takes_the_running_statistics() -> None:
    y = (IMAGES - along(MEAN)) / np.sqrt(along(VARIANCE) + 1e-5) * along(SCALE) + along(BIAS)
    holds([y.astype(F)], "BatchNormalization", BATCH, atol=1e-5)
    with pytest.raises(popart_exception, match="it has to be detached first"):
        gradient("BatchNormalization", BATCH)


@each(
    "position, value, message",
    [
        (0, IMAGES[:, :, 0, 0], "batch norm requires X to have a rank >= 3"),
        (1, SCALE[:2], r"expected shape of batch norm input tensor scale \(\[2\]\) to be \[4\]"),
        (4, VARIANCE[:2], r"tensor var \(\[2\]\) to be \[4\]"),
    ],
)
def test_shapes_that_a_batch_norm_refuses(position: int, value: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("BatchNormalization", [value if i == position else x for i, x in enumerate(BATCH)])


def test_a_batch_norm_may_have_statistics_of_each_place_in_an_image() -> None:
    scale, bias, mean = (random(4, 3, 2) for _ in range(3))
    variance = np.abs(random(4, 3, 2)) + F(0.5)
    y = (IMAGES - mean) / np.sqrt(variance + 1e-5) * scale + bias
    holds([y.astype(F)], "BatchNormalization", [IMAGES, scale, bias, mean, variance], spatial=0, atol=1e-5)
    with pytest.raises(popart_exception, match=r"tensor scale \(\[4\]\) to be \[4 3 2\] to match dimensions \[1\.\.\] of X"):
        outputs("BatchNormalization", BATCH, spatial=0)


@each("dtype", [np.float32, np.float16, np.uint8])
def test_images_get_a_fourth_channel(dtype: Any) -> None:
    made = np.float32 if dtype == np.float32 else np.float16
    image = RANDOM.integers(0, 255, (2, 2, 3)).astype(dtype)
    offsets, scales = np.array([1, 2, 3], made), np.array([4, 5, 6], made)
    expected = np.pad((image.astype(made) * made(1 / 255) - offsets) * scales, ((0, 0), (0, 0), (0, 1)))
    holds([expected], "NormalizeImage", [image, offsets, scales], scale=1 / 255, rtol=1e-2 if made == np.float16 else 1e-5)


def test_images_without_three_channels_and_without_a_scale() -> None:
    ones = np.ones(3, F)
    with pytest.raises(popart_exception, match="inner dimension to be 3"):
        outputs("NormalizeImage", [np.ones((2, 4), F), ones, ones])
    with pytest.raises(popart_exception, match="scale should be greater than 0"):
        outputs("NormalizeImage", [np.ones((2, 3), F), ones, ones], scale=0.0)
