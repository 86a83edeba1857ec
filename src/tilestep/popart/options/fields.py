"""Typed fields of a record of options: an unknown name is an AttributeError, a value of another type a TypeError, as in the original.

What counts as a value of a type is what pybind11 takes: a bool from any number, a whole number from anything with `__index__`, a text from
`str` alone. A record that is assigned to a field is copied, and a dict or list stays live: `options.engineOptions["a"] = "b"` takes effect.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from enum import Enum
from typing import Any, Generic, Self, SupportsFloat, SupportsIndex, TypeVar, cast, overload

from tilestep.messages import shown

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

Convert = Callable[[object], T]


class WrongKind(Exception):
    """A value that is not of the wanted kind. Args: wanted: the kind, as a phrase."""


class Record:
    """A set of typed fields, which are class attributes made by the functions below."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        for name, field in fields_of(type(self)).items():
            self._values[name] = field.fresh()

    def __copy__(self) -> Self:
        return self.copied()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copied()

    def __getstate__(self) -> dict[str, Any]:
        return self._values

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._values = {**type(self)()._values, **state}

    def copied(self) -> Self:
        """A record with the same values that shares none of them."""
        twin = type(self).__new__(type(self))
        twin._values = copy.deepcopy(self._values)
        return twin

    def same_as(self, other: Record) -> bool:
        """Whether both have equal values."""
        return type(self) is type(other) and self.as_plain() == other.as_plain()

    def as_plain(self) -> dict[str, Any]:
        """The values as dicts, lists, texts and numbers: sets are sorted, members of enumerations are their names."""
        return {name: _plain(value) for name, value in self._values.items()}

    def changed(self) -> dict[str, Any]:
        """Name -> value of the fields that differ from their defaults."""
        usual = {name: _plain(field.fresh()) for name, field in fields_of(type(self)).items()}
        return {name: value for name, value in self._values.items() if _plain(value) != usual[name]}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.changed().items())})"


class Field(Generic[T]):
    """One field.

    Args:
        fresh: makes its default.
        convert: the value that is kept for one that is assigned. Raises: Refused.
    """

    def __init__(self, fresh: Callable[[], T], convert: Convert[T]) -> None:
        self.fresh, self.convert = fresh, convert
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, record: None, owner: type) -> Self: ...
    @overload
    def __get__(self, record: Record, owner: type) -> T: ...
    def __get__(self, record: Record | None, owner: type) -> Self | T:
        return self if record is None else cast("T", record._values[self.name])

    def __set__(self, record: Record, value: T) -> None:
        try:
            record._values[self.name] = self.convert(value)
        except WrongKind as error:
            where = f"{type(record).__name__}.{self.name}"
            raise TypeError(f"{where} must be {error}, not {shown(value)} ({type(value).__name__})") from None


def fields_of(record: type[Record]) -> dict[str, Field[Any]]:
    """Name -> field, in the order in which the class names them."""
    return {name: field for kind in reversed(record.__mro__) for name, field in vars(kind).items() if isinstance(field, Field)}


def accepts(convert: Convert[Any], value: object) -> bool:
    """Whether a value is of the kind that `convert` wants."""
    try:
        convert(value)
    except WrongKind:
        return False
    return True


# --- Fields of each kind. Args: default: a literal; what is mutable starts empty ---


def flag(default: bool) -> Field[bool]:
    """True or false."""
    return Field(lambda: default, as_bool)


def whole(default: int, *, lowest: int = -(2**63), highest: int = 2**63 - 1) -> Field[int]:
    """A whole number in the range of its C type."""
    return Field(lambda: default, lambda value: as_int(value, lowest, highest))


def real(default: float) -> Field[float]:
    """A number."""
    return Field(lambda: default, as_float)


def text(default: str = "") -> Field[str]:
    """A text."""
    return Field(lambda: default, as_text)


def member(default: E) -> Field[E]:
    """A member of the default's enumeration."""
    return Field(lambda: default, one_of(type(default)))


def nested(record: Callable[[], R]) -> Field[R]:
    """A record; one that is assigned is copied."""
    kind = type(record())

    def convert(value: object) -> R:
        if not isinstance(value, kind):
            raise WrongKind(f"a {kind.__name__}")
        return value.copied()

    return Field(record, convert)


def items(convert: Convert[T]) -> Field[list[T]]:
    """A list. Args: convert: each item."""
    return Field(list, lambda value: [convert(item) for item in _sequence(value)])


def members(convert: Convert[T], *default: T) -> Field[set[T]]:
    """A set. Args: convert: each member."""

    def made(value: object) -> set[T]:
        if not isinstance(value, (set, frozenset)):
            raise WrongKind("a set")
        return {convert(one) for one in cast("Iterable[object]", value)}

    return Field(lambda: set(default), made)


def table(convert: Convert[T]) -> Field[dict[str, T]]:
    """A dict with texts as keys. Args: convert: each value."""
    return Field(lambda: Table(convert), lambda value: Table(convert, _mapping(value)))


R = TypeVar("R", bound=Record)


class Table(dict[str, T]):
    """A dict that refuses keys and values of another type, also later."""

    def __init__(self, convert: Convert[T], given: Mapping[Any, Any] | None = None) -> None:
        super().__init__()
        self._convert = convert
        for key, value in (given or {}).items():
            if not isinstance(key, (str, bytes)):
                raise WrongKind("a dict with texts as keys")
            try:
                super().__setitem__(as_text(key), convert(value))
            except WrongKind as error:
                raise WrongKind(f"a dict with {error} under each key") from None

    def __setitem__(self, key: str, value: T) -> None:
        try:
            super().__setitem__(as_text(key), self._convert(value))
        except WrongKind as error:
            raise TypeError(f"{shown(key)}: {shown(value)} is not allowed here: it must be {error}") from None

    update: Any = MutableMapping.update  # which sets each key, with the checks
    setdefault: Any = MutableMapping.setdefault

    def __ior__(self, others: Any) -> Self:
        self.update(others)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Table[T]:
        return Table(self._convert, dict(self))

    def __reduce__(self) -> tuple[type, tuple[dict[str, T]]]:
        return dict, (dict(self),)


# --- What counts as a value of a kind ---


def as_bool(value: object) -> bool:
    """A number, or None, as pybind11 converts it."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if not hasattr(type(value), "__bool__"):
        raise WrongKind("True or False")
    return bool(value)


def as_int(value: object, lowest: int = -(2**63), highest: int = 2**63 - 1) -> int:
    """A whole number within bounds."""
    try:
        number = operator.index(cast("SupportsIndex", value))
    except TypeError:
        raise WrongKind("a whole number") from None
    if isinstance(value, Enum) or not lowest <= number <= highest:
        raise WrongKind(f"a whole number from {lowest:,} to {highest:,}")
    return number


def as_float(value: object) -> float:
    """A number."""
    if isinstance(value, (str, bytes)) or (not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__")):
        raise WrongKind("a number")
    return float(cast("SupportsFloat", value))


def as_text(value: object) -> str:
    """A text."""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise WrongKind("a text")
    return str(value)


def as_texts(value: object) -> list[str]:
    """A list of texts."""
    return [as_text(item) for item in _sequence(value)]


def one_of(kind: type[E]) -> Convert[E]:
    """A member of an enumeration."""

    def convert(value: object) -> E:
        if not isinstance(value, kind):
            raise WrongKind(f"a member of {kind.__name__}")
        return value

    return convert


def _sequence(value: object) -> Iterable[object]:
    if isinstance(value, (str, bytes)) or not hasattr(type(value), "__getitem__") or isinstance(value, Mapping):
        raise WrongKind("a list")
    return cast("Iterable[object]", value)


def _mapping(value: object) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise WrongKind("a dict with texts as keys")
    return cast("Mapping[object, object]", value)


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.as_plain()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(one) for one in cast("set[Any]", value))
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in sorted(cast("dict[str, Any]", value).items())}
    if isinstance(value, list):
        return [_plain(one) for one in cast("list[Any]", value)]
    return value
