"""Frozen dataclasses as JSON, read back with every field checked against the type that its class declares.

The text may come from anywhere, so nothing in it names code: the first item of a record picks one of the classes that the reader expects.
Documents for others to read have objects in place of such lists; `named` reads them.
"""

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from tilestep.errors import StoredError
from tilestep.messages import no_json, shown

T = TypeVar("T")
Forms = Mapping[type, Callable[[Mapping[str, Any]], Mapping[str, Any]]]
"""By class, how the object of a document becomes one with the fields of the class. Its values are from anywhere."""


def classes_of(module: types.ModuleType) -> Mapping[str, type]:
    """The dataclasses of a module by name, for `load`."""
    return {name: cls for name, cls in vars(module).items() if isinstance(cls, type) and dataclasses.is_dataclass(cls)}


def dump(value: Any) -> str:
    """A dataclass of dataclasses, tuples, numbers and texts as JSON; equal values give equal text."""
    return json.dumps(plain(value), separators=(",", ":"))


def plain(value: Any) -> Any:
    """The same as lists: a record is [class, field, field, ...]."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(plain(getattr(value, name)) for name, _ in _fields(type(value)))]
    if isinstance(value, tuple):
        return [plain(item) for item in typing.cast("tuple[Any, ...]", value)]
    return value


def load(text: str | bytes, declared: type[T], classes: Mapping[str, type], what: str) -> T:
    """The value that `dump` wrote.

    Args:
        text: JSON.
        declared: class of the value.
        classes: all classes that may stand in it, by name.
        what: it is, for messages: 'a stored plan'.

    Raises:
        StoredError: if the text is no JSON, or has another form than this version of the package writes.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoredError(f"{what} is no JSON: {no_json(error)}") from None
    return checked(record, declared, classes, what)


def checked(record: Any, declared: type[T], classes: Mapping[str, type], what: str) -> T:
    """The same of lists, as `plain` gives them."""
    try:
        return _Checker(classes, what).checked(record, declared, declared.__name__.lower())
    except RecursionError:  # without its thousand frames
        raise StoredError(f"{what} has records nested too deep: loops within loops as no program of JAX has them") from None


def named(document: Any, declared: type[T], what: str, forms: Forms = MappingProxyType({})) -> T:
    """The value of a document whose records are objects. A field with a default may be absent; what is no field is left out.

    Args: document: as `json` reads it. declared: class of the value. what: it is, for messages. forms: of its classes.
    Raises: StoredError if a field is absent, or of another type.
    """
    return _Checker({}, what, forms).checked(document, declared, declared.__name__.lower())


def _is_record(declared: Any) -> bool:
    return isinstance(declared, type) and dataclasses.is_dataclass(declared)


@functools.cache
def _optional(cls: type) -> frozenset[str]:
    """Fields with a default."""
    missing = dataclasses.MISSING
    return frozenset(f.name for f in dataclasses.fields(cls) if f.default is not missing or f.default_factory is not missing)


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, Any], ...]:
    """(name, type) of each field."""
    hints = typing.get_type_hints(cls)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(cls))


class _Checker:
    def __init__(self, classes: Mapping[str, type], what: str, forms: Forms | None = None) -> None:
        self._classes, self._what, self._forms = classes, what, forms

    def checked(self, value: Any, declared: Any, where: str) -> Any:
        """`value` as its declared type. Raises: StoredError naming the field."""
        origin, arguments = typing.get_origin(declared), typing.get_args(declared)
        if isinstance(declared, type) and declared.__name__ in self._classes:
            return self._record(value, (declared,), where)
        if self._forms is not None and _is_record(declared):
            return self._named(value, declared, self._forms, where)
        if origin in (types.UnionType, typing.Union):
            classes = tuple(choice for choice in arguments if isinstance(choice, type) and choice.__name__ in self._classes)
            if classes:
                return self._record(value, classes, where)
            if value is None and types.NoneType in arguments:
                return None
            (only,) = (choice for choice in arguments if choice is not types.NoneType)
            return self.checked(value, only, where)
        items = _items(value)
        if origin is tuple and items is not None:
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return tuple(self.checked(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(items))
            if len(items) == len(arguments):
                pairs = enumerate(zip(items, arguments, strict=True))
                return tuple(self.checked(item, choice, f"{where}[{i}]") for i, (item, choice) in pairs)
        if origin is Mapping and isinstance(value, dict):
            keyed = typing.cast("dict[Any, Any]", value)
            return {
                self.checked(key, arguments[0], where): self.checked(each, arguments[1], f"{where}.{key}") for key, each in keyed.items()
            }
        if origin is typing.Literal and value in arguments:
            return value
        if declared is float and type(value) in (int, float) and math.isfinite(value):
            return float(value)
        if declared in (int, str, bool) and type(value) is declared:
            return value
        wanted = f"one of {', '.join(map(str, arguments))}" if origin is typing.Literal else getattr(declared, "__name__", declared)
        raise StoredError(f"{self._what} has {shown(value)} as {where}: it must be {wanted}")

    def _record(self, value: Any, classes: tuple[type, ...], where: str) -> Any:
        names = [cls.__name__ for cls in classes]
        record = _items(value)
        if not record or record[0] not in names:
            raise StoredError(f"{self._what} has {shown(value)} as {where}: it must be a record of {' or '.join(names)}")
        name, *items = record
        fields = _fields(self._classes[name])
        if not len(fields) - len(_optional(self._classes[name])) <= len(items) <= len(fields):
            raise StoredError(f"{self._what} has {len(items)} fields in {where}: {name} has {len(fields)}")
        return self._classes[name](
            **{field: self.checked(item, declared, f"{where}.{field}") for (field, declared), item in zip(fields, items, strict=False)}
        )

    def _named(self, value: Any, cls: type, forms: Forms, where: str) -> Any:
        if not isinstance(value, dict):
            raise StoredError(f"{self._what} has {shown(value)} as {where}: it must be an object")
        found = typing.cast("Mapping[str, Any]", value)
        found = forms[cls](found) if cls in forms else found
        optional = _optional(cls)
        return cls(
            **{
                name: self.checked(found.get(name), declared, f"{where}.{name}")
                for name, declared in _fields(cls)
                if name in found or name not in optional
            }
        )


def _items(value: Any) -> list[Any] | None:
    return typing.cast("list[Any]", value) if isinstance(value, list) else None
