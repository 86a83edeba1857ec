"""A session's random key: made of a seed, read and set as three numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

STATE_WORDS: Final = 3  # two of the key, and how many microbatches drew from it
_RANDOM: Final = "threefry2x32"


def key_of(seed: int) -> Any:
    """A random key. Args: seed: 0 to 2**64 - 1."""
    return _key([seed >> 32, seed & 0xFFFFFFFF])


def words_of(key: Any, count: Any) -> list[int]:
    """The numbers of a key and of its draws, of 32 bits each."""
    return [*(int(word) for word in np.asarray(jax.random.key_data(key))), int(count)]


def key_and_count(words: Sequence[int]) -> tuple[Any, Any]:
    """The opposite of `words_of`."""
    return _key(words[:2]), jax.numpy.uint32(words[2])


def _key(words: Sequence[int]) -> Any:
    return jax.random.wrap_key_data(jax.numpy.asarray(np.array(list(words), np.uint32)), impl=_RANDOM)
