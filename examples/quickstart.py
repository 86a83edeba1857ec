"""The smallest IPU program: a jitted function, and where its result lies.

python examples/quickstart.py
"""

from __future__ import annotations

import warnings
from functools import partial

import jax
import numpy as np

# JAX deprecates `backend=` without naming a date; it stays the shortest way to say where a function runs.
warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)


def main(*, backend: str = "ipu") -> None:
    """Prints the result of one call, and its device."""

    @partial(jax.jit, backend=backend)
    def ipu_function(data: jax.Array) -> jax.Array:
        return data**2 + 1

    data = np.array([1, -2, 3], np.float32)
    output = ipu_function(data)
    print(output, output.device)


if __name__ == "__main__":
    main()
