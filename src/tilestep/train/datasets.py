"""What a dataset is: an iterable of elements, or a callable that returns one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeGuard

import jax
import numpy as np

from tilestep.messages import shown
from tilestep.train.untyped import Pytree

Dataset = Iterable[Pytree] | Callable[[], Iterable[Pytree]]


class SavesState(Protocol):
    """An iterator that knows its place, such as grain's."""

    def get_state(self) -> Pytree:
        """Where it is."""
        ...

    def set_state(self, state: Pytree) -> None:
        """Goes there."""
        ...


def iterator_maker(dataset: object) -> Callable[[], Iterator[Pytree]]:
    """What begins a pass over a dataset. Raises: TypeError if this is none."""
    if isinstance(dataset, Mapping | str | bytes):
        raise TypeError(f"dataset is a {type(dataset).__name__}: that is one element, not an iterable of them; put it into a list")  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(dataset, np.ndarray | np.generic | jax.Array) and dataset.ndim == 0:
        raise TypeError(f"dataset is {shown(dataset)}, one number: it must be an iterable of pytrees of arrays; put it into a list")
    if _is_iterable(dataset):
        return lambda: iter(dataset)
    if callable(dataset):
        return lambda: iter(_iterable(dataset()))
    raise TypeError(f"dataset is a {type(dataset).__name__}: it must be an iterable of pytrees of arrays, or a callable that returns one")


def _is_iterable(value: object) -> TypeGuard[Iterable[Pytree]]:
    """Whether `iter` takes it: by its type, without making an iterator."""
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


def _iterable(returned: object) -> Iterable[Pytree]:
    if not _is_iterable(returned):
        raise TypeError(f"the dataset's callable returned a {type(returned).__name__}: it must return an iterable of pytrees of arrays")
    return returned
