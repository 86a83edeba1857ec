"""Inputs that the device makes itself, so that nothing comes from the host or goes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import jax
import numpy as np

from tilestep.popart.enums import SyntheticDataMode

Array = np.ndarray[Any, Any]
_SEED: Final = 5489  # every session has the same data


@final
class Synthetic:
    """Synthetic inputs of a session: made once, the same at each run.

    Attributes:
        off: whether the host gives the inputs.
    """

    def __init__(self, mode: SyntheticDataMode) -> None:
        self.off = mode == SyntheticDataMode.Off
        self._mode = mode
        self._arrays: dict[str, Array] | None = None

    def arrays(self, inputs: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, Array]:
        """The inputs of a step: for each microbatch the same. Args: inputs: shapes and dtypes by name."""
        if self._arrays is None:
            generator = np.random.default_rng(_SEED)
            self._arrays = {name: self._array(generator, spec.shape, np.dtype(spec.dtype)) for name, spec in inputs.items()}
        return self._arrays

    def _array(self, generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if self._mode in (SyntheticDataMode.Off, SyntheticDataMode.Zeros):
            return np.zeros(shape, dtype)
        if self._mode == SyntheticDataMode.RandomNormal:
            values = generator.standard_normal(shape)
            return values.astype(dtype) if dtype.kind == "f" else values.astype(np.int64).astype(dtype)
        return _uniform(generator, shape, dtype)


def _uniform(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Over the whole range of a type."""
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return generator.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)
    limit = float(np.finfo(dtype).max)
    return (generator.uniform(-1, 1, shape) * limit).astype(dtype)
