"""Fourier transforms, window functions, mel weights. A complex number is two elements along the last axis: real, imaginary."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import helper

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import has_room, jax_dtype, known_scalar


@op("DFT", since=17, needs=(1,))
def dft_17(call: Call, x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    """The discrete Fourier transform along an axis, of `length` elements if it is given: missing ones are zeros.

    One-sided, it gives the first half of a real input's transform, or the real array that a first half comes from.
    """
    return _dft(x, length, axis, bool(inverse), bool(onesided))


@op("DFT", since=20, needs=(1, 2))
def dft_20(call: Call, x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    """As before, with the axis as an input: the last but one if it is not given."""
    return _dft(x, length, -2 if axis is None else int(known_scalar(axis, "the axis")), bool(inverse), bool(onesided))


def _dft(x: Any, length: Any, axis: int, inverse: bool, onesided: bool) -> Any:
    if x.ndim < 2 or x.shape[-1] not in (1, 2):
        raise ValueError(f"its input has the shape {list(x.shape)}, and needs a last axis of 1 (real) or 2 (complex)")
    if not -x.ndim <= axis < x.ndim or axis % x.ndim == x.ndim - 1:
        raise ValueError(f"axis {axis}, which must be in [{-x.ndim}, {x.ndim - 2}] without the last one")
    size = None if length is None else int(known_scalar(length, "the length"))
    if size is not None and size < 1:
        raise ValueError(f"the length {size}, which must be at least 1")
    axis %= x.ndim
    if onesided and inverse:
        return _as(jnp.fft.irfft(_complex(x), size, axis)[..., None], x)
    if onesided:
        if x.shape[-1] != 1:
            raise ValueError("a one-sided transform of a complex input: it needs a real one")
        return _as(_pairs(jnp.fft.rfft(_wide(x)[..., 0], size, axis)), x)
    if x.shape[-1] == 1:
        return _as(_pairs(_of_real(_wide(x)[..., 0], size or x.shape[axis], axis, inverse)), x)
    return _as(_pairs((jnp.fft.ifft if inverse else jnp.fft.fft)(_complex(x), size, axis)), x)


def _of_real(x: Any, size: int, axis: int, inverse: bool) -> Any:
    """The transform of a real array. Its second half mirrors the first, so that what is real comes out so."""
    half = jnp.fft.rfft(x, size, axis)
    mirrored = jnp.flip(lax.slice_in_dim(half, 1, (size + 1) // 2, axis=axis), axis)
    full = jnp.concatenate([half, mirrored.conj()], axis)
    return full.conj() / size if inverse else full


def _wide(x: Any) -> Any:
    """Floats that JAX can transform."""
    x = jnp.asarray(x)
    return x if x.dtype.itemsize >= 4 else x.astype(np.float32)


def _complex(x: Any) -> Any:
    x = _wide(x)
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0] + 0j


def _pairs(z: Any) -> Any:
    return jnp.stack([z.real, z.imag], -1)


def _as(result: Any, x: Any) -> Any:
    return result.astype(jax_dtype(x.dtype))


@op("STFT", since=17, needs=(1, 3))
def stft(call: Call, x: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int = 1) -> Any:
    """The Fourier transform of each frame of a signal: [batch, samples, 1 or 2] to [batch, frames, frequencies, 2].

    A frame has `length` samples, which the window multiplies, and begins `step` samples after the frame before it.
    """
    if x.ndim != 3 or x.shape[-1] not in (1, 2):
        raise ValueError(f"its signal has the shape {list(x.shape)}, and needs [batch, samples, 1 or 2]")
    size = x.shape[1] if window is None else window.shape[0]
    size = size if length is None else int(known_scalar(length, "the frame's length"))
    stride = int(known_scalar(step, "the step"))
    if stride < 1 or not 1 <= size <= x.shape[1]:
        raise ValueError(f"frames of {size} samples, {stride} apart, of a signal of {x.shape[1]} samples")
    if window is not None and window.shape != (size,):
        raise ValueError(f"the window has the shape {list(window.shape)}, and the frames have {size} samples")
    starts = np.arange(0, x.shape[1] - size + 1, stride)
    frames = jnp.take(_wide(x), starts[:, None] + np.arange(size), axis=1)
    if window is not None:
        frames = frames * _wide(window).astype(frames.dtype)[:, None]
    return _dft(frames, None, 2, inverse=False, onesided=bool(onesided) and x.shape[-1] == 1).astype(jax_dtype(x.dtype))


@op("HannWindow", since=17, needs=(0,))
def hann_window(call: Call, size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Any:
    """The Hann window of a known size: [size]."""
    return _window(size, output_datatype, periodic, (0.5, -0.5))


@op("HammingWindow", since=17, needs=(0,))
def hamming_window(call: Call, size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Any:
    """The Hamming window of a known size, with the coefficients 25/46 and 21/46."""
    return _window(size, output_datatype, periodic, (25 / 46, -21 / 46))


@op("BlackmanWindow", since=17, needs=(0,))
def blackman_window(call: Call, size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Any:
    """The Blackman window of a known size."""
    return _window(size, output_datatype, periodic, (0.42, -0.5, 0.08))


def _window(size: Any, dtype: int, periodic: int, coefficients: Sequence[float]) -> Any:
    """A sum of cosines of whole periods over the window, which has one more sample if it is periodic."""
    length = int(known_scalar(size, "the size"))
    if length < 0:
        raise ValueError(f"the size {length}, which must be at least 0")
    module: ModuleType = np if has_room([length], np.float64) else jnp
    angles = module.arange(length) * (2 * np.pi / max(1, length if periodic else length - 1))
    return _typed(module, sum(factor * module.cos(order * angles) for order, factor in enumerate(coefficients)), dtype)


def _typed(module: ModuleType, x: Any, number: int) -> Any:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number))
    return x.astype(dtype if module is np else jax_dtype(dtype))


@op("MelWeightMatrix", since=17, needs=(0, 1, 2, 3, 4))
def mel_weight_matrix(call: Call, bins: Any, length: Any, rate: Any, lower: Any, upper: Any, *, output_datatype: int = 1) -> Any:
    """Weights that make mel bins of a one-sided spectrum: [length // 2 + 1, bins], triangles whose peaks are 1.

    `length` is that of the transform, `rate` in samples a second, `lower` and `upper` are the edges in hertz.
    """
    num_bins, size, samples = (int(known_scalar(x, "its inputs")) for x in (bins, length, rate))
    if num_bins < 1 or size < 1 or samples < 1:
        raise ValueError(f"{num_bins} bins of a transform of {size} samples, {samples} a second: all must be at least 1")
    shape = (size // 2 + 1, num_bins)
    has_room(shape, np.float32)
    edges = np.array([known_scalar(lower, "its inputs"), known_scalar(upper, "its inputs")], np.float64)
    low, high = 2595 * np.log10(1 + edges / 700)
    mel = np.arange(num_bins + 2) * ((high - low) / (num_bins + 2)) + low
    hertz = 700 * (10 ** (mel / 2595) - 1)
    peaks = ((size + 1) * hertz // samples).astype(np.int64)
    left, middle, right = peaks[:-2], peaks[1:-1], peaks[2:]
    at = jnp.arange(shape[0])[:, None]
    rising = jnp.where(left == middle, at == middle, (at - left) / np.maximum(middle - left, 1))
    falling = (right - at) / np.maximum(right - middle, 1)
    weights = jnp.where((at >= left) & (at <= middle), rising, jnp.where((at > middle) & (at < right), falling, 0))
    return _typed(jnp, weights, output_datatype)
