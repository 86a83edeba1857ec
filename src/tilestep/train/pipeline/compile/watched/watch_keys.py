"""What a pipeline is asked to watch: marked values, their gradients, and parameters."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast, final, get_args

from tilestep.messages import shortened, shown
from tilestep.train.numbers import whole_number

How = Literal["all", "last", "sum"]
HOW: Final[tuple[How, ...]] = get_args(How)

_MOST_OF_KEY: Final = 80  # characters
_MOST_SHOWN: Final = 300
_FORMS: Final = 'a mapping such as {"hidden": "all", gradient("hidden"): "sum"}, or a list of what is to be watched'


class _Key:
    """Keys of one mapping have an order, because JAX sorts them."""

    def __lt__(self, other: object) -> bool:
        return _rank(self) < _rank(other)

    def __gt__(self, other: object) -> bool:
        return _rank(self) > _rank(other)


@final
@dataclass(frozen=True)
class Gradient(_Key):
    """The gradient of a marked value, as a key of what is watched."""

    name: str  # name of the mark

    def __repr__(self) -> str:
        return f"gradient({self.name!r})"


@final
@dataclass(frozen=True)
class Parameter(_Key):
    """A parameter after updates, as a key of what is watched."""

    stage: int | tuple[int, int]  # its number, or (stage, member)
    path: tuple[Any, ...]  # keys in its tree

    def __repr__(self) -> str:
        return f"parameter({', '.join(map(repr, (self.stage, *self.path)))})"


Key: TypeAlias = str | Gradient | Parameter
Given = Mapping[Key, How] | Sequence[Key]  # as an author gives it


def _rank(key: object) -> tuple[str, str]:
    """The place of a key among others: names of values come first, then gradients, then parameters."""
    match key:
        case Gradient(name):
            return "gradient", name
        case Parameter():
            return "parameter", repr(key)
        case _:
            return "", str(key)


def gradient(name: str) -> Gradient:
    """What stands for the gradient of a marked value in a pipeline's `watch`: the loss's, of the microbatch in which the value is.

    Args:
        name: that the value has been given by `watched`.

    Raises:
        TypeError: if it is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f'name is {shown(name)}: it must be that of a value, as in gradient("hidden") with watched(x, "hidden")')
    return Gradient(name)


def parameter(stage: int | tuple[int, int], *path: Any) -> Parameter:
    """What stands for a parameter in a pipeline's `watch`: its values after updates.

    Args:
        stage: the number of its stage, or (stage, member) among concurrent ones.
        path: keys and indices that lead to one array in the stage's parameters, such as "w".

    Raises:
        TypeError, ValueError: if the stage is no number from 0 on, or a key cannot be one.
    """
    given: Any = stage  # a caller's mistake may be anything
    pair = isinstance(given, tuple | list) and len(cast("Sequence[Any]", given)) == 2
    where = [whole_number("stage", number, least=0) for number in (given if pair else [given])]
    try:
        hash(path)
    except TypeError:
        raise TypeError(f'path is {shown(path)}: it must be keys and indices, as in parameter(0, "layers", 3, "w")') from None
    return Parameter((where[0], where[1]) if pair else where[0], path)


@final
@dataclass(frozen=True)
class WatchList:
    """All that a pipeline watches."""

    entries: tuple[tuple[Key, How], ...]  # (key, which values of it), in the author's order

    def __str__(self) -> str:
        return shortened(", ".join(f"{key!r} {how}" for key, how in self.entries), _MOST_SHOWN)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Of all marks whose value or gradient is watched."""
        return frozenset(key.name if isinstance(key, Gradient) else key for key, _ in self.entries if not isinstance(key, Parameter))


def watch_list(watch: Any, *, training: bool) -> WatchList | None:
    """What an author's `watch` says; None if it is None.

    Raises:
        TypeError: for what is no such list, or has something that cannot be watched.
        ValueError: if it is empty, names something twice, or needs an optimiser that is not there.
    """
    if watch is None:
        return None
    if isinstance(watch, str | _Key) or not isinstance(watch, Mapping | list | tuple | set | frozenset):
        raise TypeError(f"watch is {shown(watch)}: it must be {_FORMS}")
    pairs = (
        cast("Mapping[Any, Any]", watch).items() if isinstance(watch, Mapping) else [(key, "all") for key in cast("Sequence[Any]", watch)]
    )
    entries: list[tuple[Key, How]] = [(_key(key), _how(key, how)) for key, how in pairs]
    if not entries:
        raise ValueError(f"watch is empty: it must be {_FORMS}; leave it away to watch nothing")
    keys = [key for key, _ in entries]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"watch has {key_text(twice)} twice: name each thing once")
    alone = next((key for key in keys if isinstance(key, _Key)), None)
    if alone is not None and not training:
        kind = "gradients" if isinstance(alone, Gradient) else "updates of parameters"
        raise ValueError(
            f"watch has {key_text(alone)}, but a pipeline without an optimizer has no {kind}: watch values, or give an optimizer"
        )
    return WatchList(tuple(entries))


def key_text(key: object) -> str:
    """A key as messages show it."""
    return shortened(repr(key), _MOST_OF_KEY)


def _key(key: Any) -> Key:
    if isinstance(key, str | Gradient | Parameter):
        return key
    hint = "; call the function" if key is gradient or key is parameter else ""
    raise TypeError(
        f'watch has {shortened(shown(key), 200)}: it must be the name of a value that a stage marks by watched(x, "name"), '
        f'gradient("name"), or parameter(stage, *path){hint}'
    )


def _how(key: Any, how: Any) -> How:
    known: How
    for known in HOW:
        if isinstance(how, str) and how == known:
            return known
    raise ValueError(f"watch has {shown(how)} for {key_text(key)}: it must be one of {', '.join(map(repr, HOW))}")
