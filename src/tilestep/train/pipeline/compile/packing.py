"""Small arrays as one.

What starting a program takes the host grows with how many arrays it is given and gives. So programs of a pipeline take parameters,
gradients and what backward needs with the small ones of a kind behind each other in one array: copying so little takes less than handing
it over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import jax
import jax.numpy as jnp

from tilestep.train.untyped import jax as _jax

SMALL_BYTES: Final = 16 * 2**10  # at most, of an array that is small: a processor copies them in about the 2 µs that handing over takes

_jnp: Any = jnp


@final
@dataclass(frozen=True, kw_only=True)
class Packing:
    """Which of some arrays are together.

    Attributes:
        kinds: of all: shapes and dtypes.
        alone: places of those that stay as they are; they come first.
        packs: places of those that are one array, in their order in it.
    """

    kinds: tuple[Any, ...]
    alone: tuple[int, ...]
    packs: tuple[tuple[int, ...], ...] = ()

    def packed(self, leaves: Sequence[Any]) -> list[Any]:
        """The arrays with the small ones together. They are given the dtypes of `kinds`."""
        return [*(leaves[place] for place in self.alone), *self.only_packs([[leaves[place] for place in pack] for pack in self.packs])]

    def only_packs(self, leaves: Sequence[Sequence[Any]]) -> list[Any]:
        """Those that are together. Args: leaves: of each pack."""
        return [
            _jnp.concatenate([leaf.reshape(-1).astype(self.kinds[place].dtype) for place, leaf in zip(pack, own, strict=True)])
            for pack, own in zip(self.packs, leaves, strict=True)
        ]

    def leaves(self, packed: Sequence[Any]) -> list[Any]:
        """All arrays, from what `packed` gives."""
        found: list[Any] = [None] * len(self.kinds)
        for place, leaf in zip(self.alone, packed, strict=False):
            found[place] = leaf
        for pack, together in zip(self.packs, packed[len(self.alone) :], strict=True):
            start = 0
            for place in pack:
                shape = self.kinds[place].shape
                end = start + math.prod(shape)
                found[place] = together[start:end].reshape(shape)
                start = end
        return found


def apart(kinds: Sequence[Any]) -> Packing:
    """Each array by itself."""
    return Packing(kinds=tuple(kinds), alone=tuple(range(len(kinds))))


def together(kinds: Sequence[Any], *, but: Collection[int] = ()) -> Packing:
    """Small arrays of each dtype together. Args: but: places of arrays that stay by themselves."""
    by_dtype: dict[Any, list[int]] = {}
    for place, kind in enumerate(kinds):
        if place not in but and _is_small(kind):
            by_dtype.setdefault(kind.dtype, []).append(place)
    packs = tuple(tuple(places) for places in by_dtype.values() if len(places) > 1)
    inside = {place for pack in packs for place in pack}
    kinds = tuple(jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in kinds)
    return Packing(kinds=kinds, alone=tuple(place for place in range(len(kinds)) if place not in inside), packs=packs)


def _is_small(kind: Any) -> bool:
    if _jax.dtypes.issubdtype(kind.dtype, _jax.dtypes.extended):  # random keys, which have no size
        return False
    return math.prod(kind.shape) * kind.dtype.itemsize <= SMALL_BYTES
