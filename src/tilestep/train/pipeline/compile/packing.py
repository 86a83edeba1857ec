"""Packs small arrays into one, because starting a program takes the host longer the more arrays it takes and returns.

Programs of a pipeline take parameters, gradients and kept values this way: the small arrays of each dtype stand behind each other in one
array. Copying so little takes less time than passing it on by itself.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, final

import jax
import numpy as np

from tilestep.train.untyped import Spec
from tilestep.train.untyped import jax as _jax

SMALL_BYTES: Final = 16 * 2**10  # at most, of a small array: a processor copies it in about the 2 µs that passing an array takes


@final
@dataclass(frozen=True, kw_only=True)
class Packing:
    """Which arrays of a list share one array."""

    specs: tuple[Spec, ...]  # shape and dtype of each array
    alone: tuple[int, ...]  # indices of the arrays that stay by themselves. They come first.
    packs: tuple[tuple[int, ...], ...] = ()  # for each pack the indices of its arrays, in their order in it

    def pack(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The arrays that stay alone, then the packs, which have the dtypes of `specs`."""
        return [*(leaves[index] for index in self.alone), *self.only_packs([[leaves[index] for index in pack] for pack in self.packs])]

    def only_packs(self, leaves: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
        """The packs. Args: leaves: the arrays of each pack."""
        return [
            _jax.numpy.concatenate([leaf.reshape(-1).astype(self.specs[index].dtype) for index, leaf in zip(pack, members, strict=True)])
            for pack, members in zip(self.packs, leaves, strict=True)
        ]

    def unpack(self, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """All arrays, from the result of `pack`."""
        leaves = dict(zip(self.alone, arrays, strict=False))
        for pack, joined in zip(self.packs, arrays[len(self.alone) :], strict=True):
            start = 0
            for index in pack:
                shape = self.specs[index].shape
                end = start + math.prod(shape)
                leaves[index] = joined[start:end].reshape(shape)
                start = end
        return [leaves[index] for index in range(len(self.specs))]


def unpacked(specs: Sequence[Spec]) -> Packing:
    """Each array stays by itself."""
    return Packing(specs=tuple(specs), alone=tuple(range(len(specs))))


def packed(specs: Sequence[Spec], *, but: Collection[int] = ()) -> Packing:
    """The small arrays of each dtype share one array. Args: but: indices of arrays that stay by themselves."""
    by_dtype: dict[np.dtype, list[int]] = {}
    for index, spec in enumerate(specs):
        if index not in but and _is_small(spec):
            by_dtype.setdefault(spec.dtype, []).append(index)
    packs = tuple(tuple(indices) for indices in by_dtype.values() if len(indices) > 1)
    inside = {index for pack in packs for index in pack}
    return Packing(
        specs=tuple(jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in specs),
        alone=tuple(index for index in range(len(specs)) if index not in inside),
        packs=packs,
    )


def _is_small(spec: Spec) -> bool:
    if _jax.dtypes.issubdtype(spec.dtype, _jax.dtypes.extended):  # random keys have no size
        return False
    return math.prod(spec.shape) * spec.dtype.itemsize <= SMALL_BYTES
