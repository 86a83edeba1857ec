"""Arrays of the host as devices hold them: dtypes that they have, and whole numbers that would become others.

Unless `jax_enable_x64` is set, JAX makes 64-bit numbers 32-bit ones. Of a whole number it drops the upper bits without a word: 2**40
becomes 0. Here that is an error. Floats are rounded as JAX does it: one beyond the range of float32 becomes an infinity.
"""

from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
from numpy.typing import NDArray

from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_LONG_DOUBLES: Final = "gG"  # dtype characters of numbers that NumPy has and no device
_HELD_DTYPES: Final = "?bBhHiIefdFD"  # every device holds these, or rounds them


def is_of_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether a device can hold arrays of a dtype, in its own byte order and with as many bits as JAX is set to."""
    return dtype.kind == "b" or (dtype.char not in _LONG_DOUBLES and _jax.dtypes.issubdtype(dtype, np.number))


def narrows(given: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether `dtype`, which JAX makes of `given`, has fewer whole numbers."""
    return given.kind in "iu" and dtype.itemsize < given.itemsize


def lost(array: NDArray[Any], dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    """The index of an array's first whole number that a dtype does not have; None if it has all of them."""
    if not narrows(array.dtype, dtype):
        return None
    high = (1 << dtype.itemsize * 8 - (dtype.kind == "i")) - 1
    bits = int(np.bitwise_or.reduce(array, axis=None)) if array.ndim else array.item()
    if 0 <= bits <= high:  # in one pass: none is negative, none has more bits
        return None
    low = -high - 1 if dtype.kind == "i" else 0
    if low <= int(array.min()) and int(array.max()) <= high:
        return None
    return tuple(map(int, np.argwhere((array < low) | (array > high))[0]))


def loss(array: NDArray[Any], index: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """What is wrong with the number at an index that `lost` gave, and the way out: what follows the array's name in a message."""
    bounds = np.iinfo(dtype)
    found = f"has {array[index]} at {list(index)}" if index else f"is {array[index]}"
    return f"{found}, which {dtype} does not have ({bounds.min} to {bounds.max}): set jax_enable_x64, or give numbers that it has"


def require_held(tree: Pytree, name: Callable[[tuple[int, ...]], str]) -> None:
    """Looks at NumPy's arrays and Python's numbers in a tree.

    Args: name: what the tree is called in messages, for the index of a number in one of its arrays.
    Raises: TypeError for an array of no numbers, OverflowError for a whole number that would become another. Both name the leaf.
    """
    for position, leaf in enumerate(_jax.tree.leaves(tree)):
        if isinstance(leaf, jax.Array) or (type(leaf) is np.ndarray and leaf.dtype.char in _HELD_DTYPES):
            continue
        array = np.asarray(leaf)
        if not is_of_numbers(array.dtype):
            raise TypeError(f"{name(())}{path_of(tree, position)} is {array.dtype} ({type(leaf).__name__}), no array of numbers")
        dtype = np.dtype(_jax.dtypes.canonicalize_dtype(array.dtype))
        if (index := lost(array, dtype)) is not None:
            raise OverflowError(f"{name(index)}{path_of(tree, position)} {loss(array, index, dtype)}")


def path_of(tree: Pytree, position: int) -> str:
    """Where in a tree its leaf number `position` is, like "['image'][0]"."""
    return _jax.tree_util.keystr(_jax.tree_util.tree_flatten_with_path(tree)[0][position][0])
