"""Steps of optimisers, by the formulas of the standard in NumPy, for two arrays at once."""

from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.one_node import QUICK_WAYS, run_node
from tilestep.onnx.errors import OnnxError

F = np.float32
DOMAIN = "ai.onnx.preview.training"
X, Y = np.array([1, -2, 3], F), np.array([[0.5]], F)
GX, GY = np.array([0.1, 0.2, -0.3], F), np.array([[-1]], F)
RATE = np.array(0.1, F)


def step(name: str, way: str, steps: int, *state: Any, **options: Any) -> list[Any]:
    given = [RATE, np.array(steps), X, Y, GX, GY, *state]
    outputs = run_node(name, given, way, version=1, domain=DOMAIN, outputs=2 + len(state), **options)
    assert all(output.dtype == F for output in outputs)
    return [np.asarray(output, np.float64) for output in outputs]


@each("way", QUICK_WAYS)
@each("steps", [0, 3])
def test_adam(way: str, steps: int) -> None:
    state = [X / 2, Y / 2, abs(X), abs(Y)]
    got = step("Adam", way, steps, *state, alpha=0.8, beta=0.95, epsilon=1e-3, norm_coefficient=0.01, norm_coefficient_post=0.1)
    for i, (x, g) in enumerate(((X, GX), (Y, GY))):
        g = 0.01 * x + g
        v, h = 0.8 * state[i] + 0.2 * g, 0.95 * state[2 + i] + 0.05 * g * g
        rate = 0.1 * np.sqrt(1 - 0.95**steps) / (1 - 0.8**steps) if steps else 0.1
        np.testing.assert_allclose(got[i], 0.9 * (x - rate * v / (np.sqrt(h) + 1e-3)), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(got[2 + i], v, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(got[4 + i], h, rtol=1e-5, atol=1e-7)


@each("way", QUICK_WAYS)
@each("steps", [0, 3])
@each("mode", ["standard", "nesterov"])
def test_momentum(way: str, steps: int, mode: str) -> None:
    state = [X / 2, Y / 2]
    got = step("Momentum", way, steps, *state, alpha=0.9, beta=0.5, mode=mode, norm_coefficient=0.01)
    for i, (x, g) in enumerate(((X, GX), (Y, GY))):
        g = 0.01 * x + g
        v = 0.9 * state[i] + (0.5 if steps else 1) * g
        np.testing.assert_allclose(got[i], x - 0.1 * (g + 0.9 * v if mode == "nesterov" else v), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(got[2 + i], v, rtol=1e-5, atol=1e-7)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(OnnxError, match="it has 5 inputs after the first two, and needs 3 for each array"):
        step("Adagrad", "known", 0, X)
    with pytest.raises(OnnxError, match="mode 'fast'"):
        step("Momentum", "known", 0, X, Y, alpha=0.9, beta=0.5, mode="fast", norm_coefficient=0.0)
