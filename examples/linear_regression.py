"""Fit a line by gradient descent, with parameters and points that stay in the IPU's memory from step to step.

tilestep run examples/linear_regression.py
"""

from __future__ import annotations

import argparse
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# JAX deprecates `backend=` without naming a date; it stays the shortest way to say where a function runs.
warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)

NUM_POINTS = 128
NOISE = 0.5  # standard deviation
NUM_STEPS = 1_000
STEP_SIZE = 0.005


class Line(NamedTuple):
    """y = slope * x + offset."""

    slope: jax.Array
    offset: jax.Array


def loss(line: Line, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared distance of the points from the line."""
    return jnp.mean((line.slope * x + line.offset - y) ** 2)


class Fit(NamedTuple):
    """The line so far, and the points, which no step changes: returned as they came, they stay in the IPU's memory like the line."""

    line: Line
    x: jax.Array
    y: jax.Array


def update(fit: Fit) -> Fit:
    """One step of gradient descent."""
    gradient = jax.grad(loss)(fit.line, fit.x, fit.y)
    line = jax.tree.map(lambda value, slope: value - STEP_SIZE * slope, fit.line, gradient)
    return fit._replace(line=line)


def fit_line(*, backend: str) -> Line:
    """The line through 128 noisy points of y = 2x - 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=NUM_POINTS).astype(np.float32)
    y = (2 * x - 1 + NOISE * rng.normal(size=NUM_POINTS)).astype(np.float32)
    jitted_update = jax.jit(update, backend=backend, donate_argnums=(0,))
    fit = Fit(Line(np.zeros((), np.float32), np.zeros((), np.float32)), x, y)
    for _ in range(NUM_STEPS):
        fit = jitted_update(fit)
    return fit.line


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Fit a line with JAX on an emulated IPU.")
    parser.add_argument("--backend", choices=("ipu", "cpu"), default="ipu", help="the platform that fits (default: %(default)s)")
    line = fit_line(backend=parser.parse_args().backend)
    print(f"slope {float(line.slope):.4f}, offset {float(line.offset):.4f}")


if __name__ == "__main__":
    main()
