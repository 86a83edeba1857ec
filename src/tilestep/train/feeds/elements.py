"""A dataset's elements as lists of NumPy arrays, all like the first one."""

import enum
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final, final

import jax
import numpy as np
from numpy.typing import NDArray

from tilestep.errors import DatasetError
from tilestep.messages import shortened
from tilestep.train import _feeds
from tilestep.train.feeds import narrow
from tilestep.train.feeds.random_keys import kind, numbers_of
from tilestep.train.feeds.staging import SHARED_BYTES
from tilestep.train.untyped import Pytree, Structure

_CURE: Final = "all elements must be alike: drop the remainder of the data (drop_remainder=True, drop_last=True), or pad it"
_MOST_STRUCTURE_CHARACTERS: Final = 200  # in a message


class GatherOutcome(enum.IntEnum):
    """Why `ElementSpec.gather` has ended."""

    GATHERED = 0  # the rows are full, or time is over
    ODD = 1  # an element is to be had by `ElementSpec.arrays`
    RAISED = 2  # the iterator has raised
    OVER = 3  # the iterator is


_tree: Any = jax.tree_util  # whose types say nothing of what is in a tree


@final
class ElementSpec:
    """Structure, shapes and dtypes of a dataset's elements, taken from the first one.

    Attributes:
        structure: the elements' tree.
        shapes: of its arrays.
        generators: of its random keys, '' for other arrays. Shapes and dtypes are those of keys' numbers.
        dtypes: of its arrays on the device, in the machine's byte order: 64-bit ones are there only under jax_enable_x64.
        gathers: whether `gather` is of use: it hands elements back that it cannot take apart, and copies large ones by itself alone.

    Args: element: the first. index: its number, for messages. x64: whether 64-bit numbers stay so.
    Raises: DatasetError if it has no arrays, one of no numbers, or a whole number that its dtype on the device does not have.
    """

    __slots__ = ("_formats", "_given", "_narrow", "_skeleton", "dtypes", "gathers", "generators", "shapes", "structure")

    def __init__(self, element: Pytree, index: int, *, x64: bool) -> None:
        try:
            leaves, self.structure = _tree.tree_flatten(element)
        except (RecursionError, SystemError):  # the latter from within JAX
            raise DatasetError(f"element {index} of the dataset is nested too deep: it must be a pytree of arrays") from None
        if not leaves:
            raise DatasetError(
                f"element {index} has no arrays ({_structure_text(self.structure)}): give a dataset whose elements are pytrees of arrays"
            )
        numbers, self.generators = _columns(map(numbers_of, leaves))
        arrays = [_array(leaf, element, position, index) for position, leaf in enumerate(numbers)]
        self.shapes: tuple[tuple[int, ...], ...] = tuple(array.shape for array in arrays)
        self._given = tuple(array.dtype for array in arrays)
        with jax.enable_x64(x64):
            self.dtypes: tuple[np.dtype[Any], ...] = tuple(
                np.dtype(jax.dtypes.canonicalize_dtype(array.dtype.newbyteorder("="))) for array in arrays
            )
        self._narrow = tuple(position for position, pair in enumerate(zip(self._given, self.dtypes, strict=True)) if narrow.narrows(*pair))
        self._require_held(arrays, element, index)
        self._skeleton = _skeleton(self.structure, itertools.count())
        self._formats = _formats(self._given)
        is_large = any(array.nbytes >= SHARED_BYTES for array in arrays)
        is_looked_at = all(self._given[position].isnative for position in self._narrow)  # `_feeds.gather` knows no other byte order
        is_simple = self._skeleton is not None and self._formats is not None and not any(self.generators)
        self.gathers = is_simple and not is_large and is_looked_at

    def arrays(self, element: Pytree, index: int) -> list[NDArray[Any]]:
        """The arrays of an element, in the order of the tree.

        Raises: DatasetError if its structure, a shape or a dtype is another than the first one's, or a whole number does not fit.
        """
        leaves, structure = _tree.tree_flatten(element)
        if structure != self.structure:
            text = f"element {index} is {_structure_text(structure)}, the first one was {_structure_text(self.structure)}"
            raise DatasetError(f"{text}{self._unlike(structure)}; {_CURE}")
        for leaf, shape, dtype, generator in zip(leaves, self.shapes, self._given, self.generators, strict=True):
            if generator or type(leaf) is not np.ndarray or leaf.shape != shape or (leaf.dtype is not dtype and leaf.dtype != dtype):
                break
        else:  # all are as they should be: the common case, quickly
            self._require_held(leaves, element, index)
            return leaves
        for position, (leaf, shape, dtype, expected) in enumerate(zip(leaves, self.shapes, self._given, self.generators, strict=True)):
            numbers, generator = numbers_of(leaf)
            array = leaves[position] = _array(numbers, element, position, index)
            if (array.shape, array.dtype, generator) != (shape, dtype, expected):
                found, where = kind(array, generator), narrow.path_of(element, position)
                first = kind(jax.ShapeDtypeStruct(shape, dtype), expected)
                raise DatasetError(f"element {index}{where} is {found}, in the first one it was {first}; {_CURE}")
        self._require_held(leaves, element, index)
        return leaves

    def _require_held(self, arrays: list[NDArray[Any]], element: Pytree, index: int) -> None:
        for position in self._narrow:
            array, dtype = arrays[position], self.dtypes[position]
            if (place := narrow.lost(array, dtype)) is not None:
                raise DatasetError(f"element {index}{narrow.path_of(element, position)} {narrow.loss(array, place, dtype)}")

    def _unlike(self, structure: Structure) -> str:
        """Where another structure differs, as far as its arrays' paths tell."""
        first, other = ([_tree.keystr(path) for path, _ in _leaves_of(kind)] for kind in (self.structure, structure))
        missing, new = ([path for path in paths if path not in rest] for paths, rest in ((first, other), (other, first)))
        told = [
            f"{what} {paths[0]}" + f" and {len(paths) - 1} more" * (len(paths) > 1)
            for what, paths in (("without", missing), ("with", new))
            if paths
        ]
        return f" ({', '.join(told)})" if told else ""

    def gather(
        self, iterator: Iterator[Pytree], rows: list[NDArray[Any]], row: int, end: int, seconds: float
    ) -> tuple[int, GatherOutcome, Any]:
        """Copies the iterator's elements into rows `row` to `end` of its leaves' arrays, for about `seconds` of wall time.

        Returns: how many; why no more; an element that is no plain NumPy, or is not like the first one, or what the iterator raised.
        """
        assert self._formats is not None  # else it does not gather
        leaves = tuple(zip(rows, self._formats, strict=True))
        count, outcome, value = _feeds.gather(iterator, self._skeleton, leaves, np.ndarray, row, end, seconds)
        return count, GatherOutcome(outcome), value


def _structure_text(structure: Structure) -> str:
    return shortened(structure, _MOST_STRUCTURE_CHARACTERS)


def _skeleton(structure: Structure, number: Iterator[int]) -> Any:
    """What `_feeds.gather` takes as a structure; None if it has other containers than dicts, lists, tuples and None."""
    kind = structure.node_data()
    if kind is None:
        return next(number)
    children = tuple(_skeleton(child, number) for child in structure.children())
    if kind[0] not in (dict, list, tuple, type(None)) or None in children:
        return None
    return kind[0], tuple(kind[1]) if kind[0] is dict else None, children


def _formats(dtypes: Iterable[np.dtype[Any]]) -> tuple[str, ...] | None:
    """The dtypes' names as buffers give them; None if there is one without."""
    try:
        return tuple(memoryview(np.empty(0, dtype)).format for dtype in dtypes)  # pyrefly: ignore[bad-argument-type]  # from Python 3.12 on
    except ValueError:  # ml_dtypes' numbers have none
        return None


def _array(leaf: Any, element: Pytree, position: int, index: int) -> NDArray[Any]:
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DatasetError(
            f"element {index}{narrow.path_of(element, position)} is a {type(leaf).__name__}, no array of numbers: {error}"
        ) from error
    if not narrow.is_of_numbers(array.dtype):
        raise DatasetError(
            f"element {index}{narrow.path_of(element, position)} is {array.dtype} ({type(leaf).__name__}), no array of numbers"
        )
    return array


def _leaves_of(structure: Structure) -> list[tuple[Any, Any]]:
    """(path, number) of each leaf."""
    return _tree.tree_flatten_with_path(_tree.tree_unflatten(structure, range(structure.num_leaves)))[0]


def _columns(pairs: Iterable[tuple[Any, str]]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    numbers, generators = zip(*pairs, strict=True)
    return numbers, generators
