"""What a dataset is: an iterable of elements, or a callable that returns one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeGuard

Dataset = Iterable[Any] | Callable[[], Iterable[Any]]


class SavesState(Protocol):
    """An iterator that knows its place, such as grain's."""

    def get_state(self) -> Any:
        """Where it is."""
        ...

    def set_state(self, state: Any) -> None:
        """Goes there."""
        ...


def iterator_maker(dataset: object) -> Callable[[], Iterator[Any]]:
    """What begins a pass over a dataset. Raises: TypeError if this is none."""
    if isinstance(dataset, Mapping | str | bytes):
        raise TypeError(f"dataset is a {type(dataset).__name__}: that is one element, not an iterable of them; put it into a list")  # pyright: ignore[reportUnknownArgumentType]
    if _is_iterable(dataset):
        return lambda: iter(dataset)
    if callable(dataset):
        return lambda: iter(_iterable(dataset()))
    raise TypeError(f"dataset is a {type(dataset).__name__}: it must be an iterable of pytrees of arrays, or a callable that returns one")


def _is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether `iter` takes it: by its type, without making an iterator."""
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


def _iterable(returned: object) -> Iterable[Any]:
    if not _is_iterable(returned):
        raise TypeError(f"the dataset's callable returned a {type(returned).__name__}: it must return an iterable of pytrees of arrays")
    return returned
