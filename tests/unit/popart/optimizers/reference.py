"""The formulas of the optimizers' documentation in NumPy and float64, one update at a time, without compound scalars.

A batch's gradients are an array [microbatches, ...] of one replica; they are not scaled by a loss.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def total(gradients: Array, reduction: str) -> Array:
    """What an update sees of a batch: the sum or the mean over microbatches."""
    return gradients.sum(0) if reduction == "sum" else gradients.mean(0)


def sgd(
    w: Array, batches: Array, *, lr: float, wd: float = 0, mm: float = 0, dm: float = 0, nesterov: bool = False, reduction: str = "sum"
) -> Iterator[Array]:
    v = np.zeros_like(w)
    for gradients in batches:
        g = total(gradients, reduction) + wd * w
        v = mm * v + (1 - dm) * g
        w = w - lr * ((g + mm * v) if nesterov else v)
        yield w


def adam(
    w: Array,
    batches: Array,
    *,
    mode: str,
    decoupled: bool,
    lr: float,
    wd: float,
    b1: float,
    b2: float,
    eps: float,
    max_norm: float = 10.0,
    reduction: str = "sum",
) -> Iterator[Array]:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, gradients in enumerate(batches, 1):
        g = total(gradients, reduction) + (0 if decoupled else wd * w)
        m = b1 * m + (1 - b1) * g
        v = np.maximum(b2 * v, np.abs(g)) if mode == "AdaMax" else b2 * v + (1 - b2) * g * g
        unbiased_m = m if mode.endswith("NoBias") else m / (1 - b1**t)
        unbiased_v = v if mode.endswith("NoBias") or mode == "AdaMax" else v / (1 - b2**t)
        u = unbiased_m / ((unbiased_v if mode == "AdaMax" else np.sqrt(unbiased_v)) + eps)
        u = u + (wd * w if decoupled else 0)
        trust = min(np.linalg.norm(w), max_norm) / np.linalg.norm(u) if mode.startswith("Lamb") else 1.0
        w = w - lr * trust * u
        yield w


def adaptive(
    w: Array,
    batches: Array,
    *,
    mode: str,
    decoupled: bool,
    lr: float,
    wd: float,
    a: float,
    mm: float,
    eps: float,
    tf: bool = False,
    reduction: str = "sum",
) -> Iterator[Array]:
    s, mean, moved, b = np.full_like(w, float(tf)), np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for gradients in batches:
        g = total(gradients, reduction) + (0 if decoupled else wd * w)
        s = s + g * g if mode == "AdaGrad" else a * s + (1 - a) * g * g
        mean = a * mean + (1 - a) * g
        spread = s - mean * mean if mode == "CenteredRMSProp" else s
        if mode == "AdaDelta":
            u = np.sqrt(moved + eps) / np.sqrt(s + eps) * g
            moved = a * moved + (1 - a) * u * u
        else:
            u = g / np.sqrt(spread + eps) if tf else g / (np.sqrt(spread) + eps)
        rate = lr
        if mm and tf:
            u, rate = lr * u, 1.0
        b = mm * b + u
        w = w - (rate * wd * w if decoupled else 0) - rate * b
        yield w


def values(defaults: dict[str, float], *, const: bool) -> dict[str, Any]:
    return {key: (value, const) for key, value in defaults.items()}
