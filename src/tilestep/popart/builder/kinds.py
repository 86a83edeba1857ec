"""Kinds of arguments: what each accepts, and what it makes of it. They accept what the original's binding converts, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

import numpy as np


class Mismatch(Exception):
    """A value is of another kind."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Attributes: label: as messages and signatures show it; convert: value -> converted value, or it raises Mismatch."""

    label: str
    convert: Callable[[Any], Any]

    def __str__(self) -> str:
        return self.label


def _int(value: object) -> int:
    if isinstance(value, np.bool_):
        return 1 if value else 0
    if isinstance(value, np.ndarray):
        value = _scalar(cast("np.ndarray[Any, Any]", value))
    index = getattr(value, "__index__", None)
    if index is None:
        raise Mismatch
    number = int(index())
    if not -(1 << 63) <= number < 1 << 64:
        raise Mismatch
    return number


def _int64(value: object) -> int:
    number = _int(value)
    if number >= 1 << 63:
        raise Mismatch
    return number


def _float(value: object) -> float:
    if isinstance(value, np.ndarray):
        value = _scalar(cast("np.ndarray[Any, Any]", value))
    if isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
        return float(cast("Any", value))
    raise Mismatch


def _scalar(array: np.ndarray[Any, Any]) -> object:
    if array.size != 1:
        raise Mismatch
    return array.reshape(()).item()


def _bool(value: object) -> bool:
    return bool(_int(value))


def _str(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    raise Mismatch


def _array(value: object) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise Mismatch from None
    if array.dtype == object:
        raise Mismatch
    return np.asarray(array, order="C")


def _debug(value: object) -> str:
    path = getattr(value, "getPathName", None)
    return _str(value) if path is None else _str(path())


INT: Final = Kind(label="int", convert=_int)
INT64: Final = Kind(label="int", convert=_int64)  # an attribute would take a larger one for a negative number
FLOAT: Final = Kind(label="float", convert=_float)
BOOL: Final = Kind(label="bool", convert=_bool)
STR: Final = Kind(label="str", convert=_str)
ARRAY: Final = Kind(label="numpy.ndarray", convert=_array)
DEBUG: Final = Kind(label="DebugContext", convert=_debug)  # a name, or an object with getPathName(): gives the path


def list_of(item: Kind) -> Kind:
    """A list, tuple or array whose items are of a kind."""

    def convert(value: object) -> list[Any]:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
            raise Mismatch
        if isinstance(value, np.ndarray) and value.ndim == 0:
            raise Mismatch
        return [item.convert(one) for one in cast("Sequence[Any]", value)]

    return Kind(label=f"List[{item.label}]", convert=convert)


def set_of(item: Kind) -> Kind:
    """A set whose items are of a kind; it gives a frozenset."""

    def convert(value: object) -> frozenset[Any]:
        if not isinstance(value, AbstractSet):
            raise Mismatch
        return frozenset(item.convert(one) for one in cast("AbstractSet[Any]", value))

    return Kind(label=f"Set[{item.label}]", convert=convert)


def dict_of(item: Kind) -> Kind:
    """A dictionary from texts to values of a kind."""

    def convert(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Mismatch
        return {_str(name): item.convert(one) for name, one in cast("Mapping[Any, Any]", value).items()}

    return Kind(label=f"Dict[str, {item.label}]", convert=convert)


def optional(kind: Kind) -> Kind:
    """None, or a value of a kind."""
    return Kind(label=f"Optional[{kind.label}]", convert=lambda value: None if value is None else kind.convert(value))


def instance_of(cls: type) -> Kind:
    """An object of a class."""

    def convert(value: object) -> object:
        if not isinstance(value, cls):
            raise Mismatch
        return value

    return Kind(label=cls.__name__, convert=convert)


def member_number(cls: type[Enum]) -> Kind:
    """A number, or a member of an enumeration, of which the number is taken."""

    def convert(value: object) -> int:
        return int(value.value) if isinstance(value, cls) else _int(value)

    return Kind(label=f"int | {cls.__name__}", convert=convert)


INTS: Final = list_of(INT)
FLOATS: Final = list_of(FLOAT)
STRS: Final = list_of(STR)
IDS: Final = STRS  # of tensors
ID_SET: Final = set_of(STR)
