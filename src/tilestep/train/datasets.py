"""What a dataset is: an iterable of elements, or a callable that returns one."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeGuard

import jax
import numpy as np

from tilestep.messages import shown
from tilestep.train.untyped import Pytree

Dataset = Iterable[Pytree] | Callable[[], Iterable[Pytree]]


_PLACES: Final = (("get_state", "set_state"), ("state_dict", "load_state_dict"))  # as grain and torch have them


def knows_its_place(iterator: object) -> bool:
    """Whether an iterator can tell where it is, and go there."""
    return any(hasattr(iterator, get) and hasattr(iterator, go) for get, go in _PLACES)


def place_of(iterator: object) -> Any:
    """Where an iterator is that knows it: its own state, which later elements do not change."""
    get = next(get for get, go in _PLACES if hasattr(iterator, get) and hasattr(iterator, go))
    return copy.deepcopy(getattr(iterator, get)())


def go_to(iterator: object, place: Any) -> None:
    """An iterator that knows its place goes to that. Raises: ValueError for one that does not."""
    go = next((go for get, go in _PLACES if hasattr(iterator, get) and hasattr(iterator, go)), None)
    if go is None:
        raise ValueError(
            f"the state has the place of a dataset whose iterator knows it, and a {type(iterator).__name__} has neither get_state and "
            "set_state nor state_dict and load_state_dict: restore with an equal dataset"
        )
    getattr(iterator, go)(place)


def iterator_maker(dataset: object) -> Callable[[], Iterator[Pytree]]:
    """What begins a pass over a dataset. Raises: TypeError if this is none."""
    if isinstance(dataset, Mapping | str | bytes):
        raise TypeError(f"dataset is a {type(dataset).__name__}: that is one element, not an iterable of them; put it into a list")
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
