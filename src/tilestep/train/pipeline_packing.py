"""Several arrays as one.

What starting a program takes the host grows with how many arrays it is given and gives. So programs of a pipeline take parameters,
gradients and what backward needs with the small ones of a kind behind each other in one array: copying so little takes less than handing
it over. Sums of gradients may be large: they are not copied, for XLA adds gradients where they belong in the array of all. On processors
that takes no longer than adding each by itself, and no more memory than the gradients of one such array.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import jax
import jax.numpy as jnp

SMALL_BYTES: Final = 16 * 2**10  # at most, of an array that is small: a processor copies them in about the 2 µs that handing over takes
PACK_BYTES: Final = 8 * 2**20  # at most, of all that is one array

_jax: Any = jax  # whose types say nothing of what is in a tree
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


def together(kinds: Sequence[Any], *, but: Collection[int] = (), each_bytes: int = SMALL_BYTES) -> Packing:
    """Arrays of each dtype together, in packs of `PACK_BYTES` at most.

    Args: but: places of arrays that stay by themselves. each_bytes: as do larger ones.
    """
    by_dtype: dict[Any, list[list[int]]] = {}
    room: dict[Any, int] = {}  # in the last pack
    for place, kind in enumerate(kinds):
        size = _bytes(kind)
        if place in but or size is None or size > each_bytes:
            continue
        packs = by_dtype.setdefault(kind.dtype, [])
        if not packs or size > room[kind.dtype]:
            packs.append([])
            room[kind.dtype] = PACK_BYTES
        packs[-1].append(place)
        room[kind.dtype] -= size
    found = tuple(tuple(pack) for packs in by_dtype.values() for pack in packs if len(pack) > 1)
    inside = {place for pack in found for place in pack}
    kinds = tuple(jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in kinds)
    return Packing(kinds=kinds, alone=tuple(place for place in range(len(kinds)) if place not in inside), packs=found)


def _bytes(kind: Any) -> int | None:
    """None for random keys, which have no size."""
    return None if _jax.dtypes.issubdtype(kind.dtype, _jax.dtypes.extended) else math.prod(kind.shape) * kind.dtype.itemsize
