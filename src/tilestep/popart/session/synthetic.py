"""Inputs that stay on the device from the begin, so that nothing comes from the host or goes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

import jax
import numpy as np

from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AnchorReturnTypeId, SyntheticDataMode
from tilestep.popart.options import SessionOptions

Array = np.ndarray[Any, Any]
_INPUT_SEED: Final = 5489  # as the original's generator has it


def is_synthetic(options: SessionOptions) -> bool:
    """Whether a session's inputs are synthetic."""
    return options.syntheticDataMode != SyntheticDataMode.Off


def left_on_device(anchors: Sequence[Anchor]) -> list[Anchor]:
    """Anchors as they are computed if none is returned: the device has their last values."""
    return [replace(anchor, kind=AnchorReturnTypeId.Final, period=1) for anchor in anchors]


@final
class Synthetic:
    """Synthetic inputs of a session: made once, the same for each microbatch, replica and run.

    Attributes:
        off: whether the host gives the inputs.
    """

    def __init__(self, mode: SyntheticDataMode) -> None:
        self.off = mode == SyntheticDataMode.Off
        self._mode = mode
        self._arrays: dict[str, Array] | None = None

    def arrays(self, inputs: Mapping[str, jax.ShapeDtypeStruct], types: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, Array]:
        """The inputs of a step. Args: inputs: shapes and dtypes on one replica, by name. types: as the program takes them."""
        if self._arrays is None:
            self._arrays = {
                name: np.array(np.broadcast_to(self._array(spec.shape, np.dtype(spec.dtype)), types[name].shape))
                for name, spec in inputs.items()
            }
        return self._arrays

    def _array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        generator = np.random.default_rng(_INPUT_SEED)
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
