"""Linear regression with state that stays on the IPU.

Fit a line by gradient descent. Parameters and points stay in the IPU's memory from step to step.

    tilestep run examples/linear_regression.py
"""

# %%
from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tilestep
from flags import parse_backend

NUM_POINTS = 128
NOISE = 0.5  # standard deviation
NUM_STEPS = 1_000
STEP_SIZE = 0.005

backend = parse_backend("Fit a line with JAX on an emulated IPU.")

# %% [markdown]
# ## The points
# 128 noisy points of y = 2x - 1.

# %%
rng = np.random.default_rng(0)
x = rng.normal(size=NUM_POINTS).astype(np.float32)
y = (2 * x - 1 + NOISE * rng.normal(size=NUM_POINTS)).astype(np.float32)

# %% [markdown]
# ## The state
# All that goes round: the line, and the points, which no step changes. Returned as they came, they stay on the IPU like the line.


# %%
class Line(NamedTuple):
    """y = w * x + b."""

    w: jax.Array
    b: jax.Array


class Fit(NamedTuple):
    """The line so far, and the points."""

    line: Line
    x: jax.Array
    y: jax.Array


# %% [markdown]
# ## One step
# `donate_argnums` says that the result may take the place of the argument. On an IPU this keeps the state where it is: it comes over
# the host link once, and goes back when somebody reads it.


# %%
def loss(line: Line, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared distance of the points from the line."""
    return jnp.mean((line.w * x + line.b - y) ** 2)


def update(fit: Fit) -> Fit:
    """One step of gradient descent."""
    gradient = jax.grad(loss)(fit.line, fit.x, fit.y)
    line = jax.tree.map(lambda value, slope: value - STEP_SIZE * slope, fit.line, gradient)
    return fit._replace(line=line)


jitted_update = jax.jit(update, backend=backend, donate_argnums=(0,))

# %% [markdown]
# ## A thousand steps

# %%
fit = Fit(Line(np.zeros((), np.float32), np.zeros((), np.float32)), x, y)
with tilestep.profile() as profile:
    for _ in range(NUM_STEPS):
        fit = jitted_update(fit)
print(f"w = {float(fit.line.w):.4f}, b = {float(fit.line.b):.4f}")

# %% [markdown]
# ## What went over the host link

# %%
for program in profile.programs:
    print(f"{program.name} ran {program.runs:,} times in {1e3 * profile.emulated_s:.1f} ms, all emulated:")
    print(
        f"  {program.first_run_host_bytes_in:,} bytes in at the first run, {program.host_bytes_in} at each one after it"
    )
    print(f"  {program.host_bytes_out} bytes out at each run")
