"""Fourier transforms and mel weights, against NumPy and ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.one_node import by_onnxruntime, check_node, run_node
from tilestep.onnx.errors import OnnxError

F = np.float32
RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(2, 9, 1)).astype(F)
COMPLEX = RNG.normal(size=(2, 9, 2)).astype(F)


def numbers(x: Any) -> Any:
    x = np.asarray(x, np.float64)
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


@each("version", [17, 20])
@each("length", [None, 4, 9, 12])
def test_transforms(version: int, length: int | None) -> None:
    def dft_is(wanted: Any, x: Any, **options: Any) -> None:
        tail = [np.array(1)] if version == 20 else []
        options |= {} if version == 20 else {"axis": 1}
        size = None if length is None else np.array(length)

        def check(_: str, outputs: list[Any]) -> None:
            np.testing.assert_allclose(numbers(outputs[0]), wanted, rtol=1e-4, atol=1e-4)

        check_node("DFT", [x, size, *tail] if tail or length else [x], check, ("jit",), version=version, **options)

    for x in (REAL, COMPLEX):
        dft_is(np.fft.fft(numbers(x), length, 1), x)
        dft_is(np.fft.ifft(numbers(x), length, 1), x, inverse=1)
    dft_is(np.fft.rfft(numbers(REAL), length, 1), REAL, onesided=1)
    dft_is(np.fft.irfft(numbers(COMPLEX), length, 1), COMPLEX, onesided=1, inverse=1)


@each(
    "inputs, options, message",
    [
        ([REAL, None, np.array(2)], {}, "axis 2, which must be in"),
        ([REAL, None, np.array(-1)], {}, "axis -1, which must be in"),
        ([COMPLEX], {"onesided": 1}, "a one-sided transform of a complex input"),
        ([REAL, np.array(0)], {}, "the length 0"),
        ([np.zeros((2, 9, 3), F)], {}, "needs a last axis of 1"),
    ],
)
def test_what_can_not_be_transformed_is_refused(inputs: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        run_node("DFT", inputs, version=20, **options)


@each("window, length", [(True, None), (True, 4), (False, 4), (False, None)])
@each("onesided", [0, 1])
def test_short_time_transforms(window: bool, length: int | None, onesided: int) -> None:
    size = 4 if window or length else 9
    weights = RNG.normal(size=size).astype(F) if window else np.ones(size, F)
    inputs: list[Any] = [REAL, np.array(2), weights if window else None, None if length is None else np.array(length)]
    while inputs[-1] is None:
        inputs.pop()
    frames = np.stack([REAL[:, at : at + size, 0] * weights for at in range(0, 9 - size + 1, 2)], 1)
    want = np.fft.rfft(frames) if onesided else np.fft.fft(frames)

    def check(_: str, outputs: list[Any]) -> None:
        np.testing.assert_allclose(numbers(outputs[0]), want, rtol=1e-4, atol=1e-5)
        assert outputs[0].dtype == F

    check_node("STFT", inputs, check, ("jit",), version=17, onesided=onesided)


def test_frames_must_fit() -> None:
    with pytest.raises(OnnxError, match="frames of 10 samples, 2 apart, of a signal of 9 samples"):
        run_node("STFT", [REAL, np.array(2), None, np.array(10)], version=17)
    with pytest.raises(OnnxError, match="frames of 9 samples, 0 apart"):
        run_node("STFT", [REAL, np.array(0)], version=17)


def test_mel_weights_as_onnxruntime() -> None:
    inputs = [np.array(v) for v in (8, 64, 8000)] + [np.array(v, F) for v in (20, 4000)]
    (want,) = by_onnxruntime("MelWeightMatrix", inputs, version=17)
    (got,) = run_node("MelWeightMatrix", inputs, "known", version=17)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(OnnxError, match="0 bins of a transform"):
        run_node("MelWeightMatrix", [np.array(0), *inputs[1:]], "known", version=17)
