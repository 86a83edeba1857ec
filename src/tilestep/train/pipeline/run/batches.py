"""Gives the elements of an update: cut out of arrays that have all of them, or one by one from a queue."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol, final

import jax
import numpy as np
from jax.sharding import Sharding

from tilestep.train.feeds.chunks import Chunk
from tilestep.train.feeds.narrow import require_held
from tilestep.train.jax_private import device_put
from tilestep.train.jax_private.compiled_call import become_plain
from tilestep.train.other_arguments import arguments_of
from tilestep.train.pipeline.compile.tracing import Element
from tilestep.train.simulated import put_shards
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

SMALL_UPDATE_BYTES: Final = 4 * 2**20  # so few bytes of elements may wait on the device: to start copies takes the host longer


class Batch(Protocol):
    """The elements of a run, one for each microbatch."""

    @property
    def is_there(self) -> bool:
        """Whether no element has to be waited for."""
        ...

    def elements(self) -> Iterable[Element]:
        """One for each microbatch, with an axis of one."""
        ...

    def whole(self, where: Sharding) -> Element | None:
        """All as one, with an axis of microbatches, at a sharding; None if they are not there, or so large that they go one by one."""
        ...

    def stacks(self) -> list[Element]:
        """The same, with longer axes of microbatches; one after the other."""
        ...

    def are_plain(self, first: Element) -> bool:
        """Whether the elements, of which this is the first, are as programs are compiled for them (jax_private/compiled_call.py)."""
        ...


@final
class Stacked:
    """Arrays whose first axis is that of the microbatches.

    Raises: TypeError for an array of no numbers, OverflowError for a whole number that would become another one on a device.
    """

    is_there: Final = True

    def __init__(self, microbatches: Pytree, count: int, inputs: tuple[Pytree, ...]) -> None:
        require_held(microbatches, lambda index: f"microbatch {index[0]}" if index else "microbatches")
        _require_inputs(inputs)
        self._microbatches, self._count, self._inputs = microbatches, count, inputs

    def elements(self) -> Iterator[Element]:
        """Cut out; an array of JAX in one program."""
        count = self._count
        leaves, structure = _jax.tree.flatten(self._microbatches)
        columns = [_cut(leaf, count) if isinstance(leaf, jax.Array) else [leaf[m : m + 1] for m in range(count)] for leaf in leaves]
        return ((self._inputs, *arguments_of(_jax.tree.unflatten(structure, row))) for row in zip(*columns, strict=True))

    def whole(self, where: Sharding) -> Element | None:
        """They are there."""
        leaves, structure = _jax.tree.flatten(self._microbatches)
        if self._count == 1 or sum(leaf.nbytes for leaf in leaves) > SMALL_UPDATE_BYTES:
            return None
        return (self._inputs, *arguments_of(_jax.tree.unflatten(structure, _there(leaves, where))))

    def stacks(self) -> list[Element]:
        """As they are."""
        return [(self._inputs, *arguments_of(self._microbatches))]

    def are_plain(self, first: Element) -> bool:
        """If that is so of what they are cut out of: to look at arrays of NumPy takes least."""
        return become_plain(_jax.tree.leaves((self._microbatches, self._inputs)))


@final
class TakenElements:
    """Elements of a queue."""

    is_there: Final = False  # nobody knows

    def __init__(self, take: Callable[[], Chunk], count: int, inputs: tuple[Pytree, ...]) -> None:
        _require_inputs(inputs)
        self._take, self._count, self._inputs = take, count, inputs

    def elements(self) -> Iterator[Element]:
        """When they are needed, wherever the queue has put them."""
        return ((self._inputs, *arguments_of(self._take().on_device)) for _ in range(self._count))

    def whole(self, where: Sharding) -> None:
        """They come one by one."""

    def stacks(self) -> list[Element]:
        """All of them."""
        return list(self.elements())

    def are_plain(self, first: Element) -> bool:
        """If this one is: a queue puts all likewise."""
        return become_plain(_jax.tree.leaves(first))


def _require_inputs(inputs: tuple[Pytree, ...]) -> None:
    require_held(inputs, lambda _: "inputs")


def _there(leaves: list[Any], where: Any) -> list[Any]:
    """On one device, with what is in NumPy copied: the caller may write to it."""
    if all(type(leaf) is np.ndarray and _is_plain(leaf.dtype) for leaf in leaves):
        return device_put.put([leaf.copy() for leaf in leaves], where)
    return put_shards([leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves], where)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of NumPy's numbers, as devices have them."""
    return dtype.kind in "biufc" and dtype.isnative and dtype == _jax.dtypes.canonicalize_dtype(dtype)


@functools.partial(_jax.jit, static_argnums=1)
def _cut(array: Any, count: int) -> list[Any]:
    return [array[m : m + 1] for m in range(count)]
