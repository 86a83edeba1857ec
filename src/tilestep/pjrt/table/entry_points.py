"""Python functions as entry points of the table that JAX calls, and the C values that they answer with."""

import functools
from collections.abc import Callable, Sequence
from ctypes import Structure, addressof, c_bool, c_char, c_int32, c_int64, c_size_t, c_void_p, cast, create_string_buffer, sizeof
from typing import Any, TypeVar

from tilestep.pjrt import _native
from tilestep.pjrt.table import capi

ArgsT = TypeVar("ArgsT", bound=Structure)

# (table, index) of each entry point
_POSITIONS = {name: (table, index) for table, names in enumerate(capi.TABLES.values()) for index, name in enumerate(names)}
_immortal: list[Any] = []  # objects that JAX keeps pointers to


def entry_point(name: str) -> Callable[[Callable[[ArgsT], None]], Callable[[ArgsT], None]]:
    """Makes a function of the argument struct the entry point `name`.

    The struct's type is `<name>_Args`. The function fills in the struct's results. An exception becomes a PJRT_Error (status.py).

    Raises: KeyError if the interface has no such entry point.
    """
    table, index = _POSITIONS[name]
    struct: Any = getattr(capi, f"{name}_Args")

    def register(function: Callable[[ArgsT], None]) -> Callable[[ArgsT], None]:
        from_address = struct.from_address

        def handler(address: int) -> None:
            function(from_address(address))

        _native.set_handler(table, index, handler)
        return function

    return register


def answers(name: str, fields: str, answer: Callable[[Any], Any]) -> None:
    """Makes an entry point `name` that only answers about the object to which its first argument points.

    Args: fields: names of the struct's results. answer: object -> the result, or a tuple of several, in the order of `fields`.
    Raises: KeyError if the interface has no such entry point; ValueError if its struct has no such field.
    """
    struct: Any = getattr(capi, f"{name}_Args")
    _, _, handle, *others = [field for field, *_ in struct._fields_]  # the first two are the struct's size and extensions
    results = fields.split()
    if unknown := [field for field in results if field not in others]:
        raise ValueError(f"{name} has no result {unknown[0]}: it has {', '.join(others)}")

    @entry_point(name)
    def fill_in(args: Structure) -> None:
        found = answer(_native.object_at(getattr(args, handle)))
        for field, value in zip(results, found if len(results) > 1 else (found,), strict=True):
            setattr(args, field, value)


def immortal(thing: Any) -> Any:
    """Keeps `thing` until the process ends, and returns it."""
    _immortal.append(thing)
    return thing


@functools.cache
def text(value: str | bytes) -> tuple[int, int]:
    """Address and size of a string that lives as long as the process. Equal strings share one."""
    buffer, size = own_text(value)
    return addressof(immortal(buffer)), size


def own_text(value: str | bytes) -> tuple[Any, int]:
    """C string that lives as long as the buffer, and its size: what only one program has is not kept for ever."""
    data = value.encode() if isinstance(value, str) else value
    return create_string_buffer(data, len(data) + 1), len(data)


def pointers(addresses: Sequence[int]) -> Any:
    """C array of pointers."""
    return (c_void_p * max(len(addresses), 1))(*addresses)


def int64s(values: Sequence[int]) -> Any:
    """C array of int64."""
    return (c_int64 * max(len(values), 1))(*values)


def sizes(values: Sequence[int]) -> Any:
    """C array of size_t."""
    return (c_size_t * max(len(values), 1))(*values)


def int32s(values: Sequence[int]) -> Any:
    """C array of int32."""
    return (c_int32 * max(len(values), 1))(*values)


def read_int64s(address: int | None, count: int) -> tuple[int, ...]:
    """The `count` int64 at `address`."""
    return tuple((c_int64 * count).from_address(address)) if count and address else ()


def read_bytes(address: int | None, size: int) -> bytes:
    """The `size` bytes at `address`."""
    return bytes((c_char * size).from_address(address)) if size and address else b""


def named_values(values: dict[str, int | float | str | Sequence[int]]) -> tuple[Any, list[Any]]:
    """C array of PJRT_NamedValue, and the objects that must live as long as it.

    Raises: TypeError for a bool, because JAX aborts the process on one.
    """
    array = (capi.PJRT_NamedValue * max(len(values), 1))()
    keep: list[Any] = []
    for slot, (name, value) in zip(array, values.items(), strict=False):
        slot.struct_size = sizeof(capi.PJRT_NamedValue)
        slot.name, slot.name_size = text(name)
        slot.value_size = 1
        if isinstance(value, bool):
            raise TypeError(f"{name} is a bool: make it an int")
        if isinstance(value, int):
            slot.type, slot.int64_value = capi.PJRT_NamedValue_kInt64, value
        elif isinstance(value, float):
            slot.type, slot.float_value = capi.PJRT_NamedValue_kFloat, value
        elif isinstance(value, str):
            slot.type = capi.PJRT_NamedValue_kString
            slot.string_value, slot.value_size = text(value)
        else:
            numbers = int64s(value)
            keep.append(numbers)
            slot.type, slot.int64_array_value, slot.value_size = capi.PJRT_NamedValue_kInt64List, addressof(numbers), len(value)
    return array, keep


def read_named_values(address: int | None, count: int) -> dict[str, Any]:
    """The `count` PJRT_NamedValue at `address`, by name."""
    if not count or not address:
        return {}
    values: dict[str, Any] = {}
    for slot in (capi.PJRT_NamedValue * count).from_address(address):
        match slot.type:
            case capi.PJRT_NamedValue_kString:
                value: Any = read_bytes(slot.string_value, slot.value_size).decode()
            case capi.PJRT_NamedValue_kInt64:
                value = slot.int64_value
            case capi.PJRT_NamedValue_kFloat:
                value = slot.float_value
            case capi.PJRT_NamedValue_kBool:
                value = slot.bool_value
            case _:
                value = list(read_int64s(slot.int64_array_value, slot.value_size))
        values[read_bytes(slot.name, slot.name_size).decode()] = value
    return values


def function_address(function: Any) -> int | None:
    """Address of a ctypes function."""
    return cast(function, c_void_p).value


def clear_flags(args: Structure) -> None:
    """Sets every bool of a struct to False, because JAX does not."""
    for name, kind, *_ in args._fields_:
        if kind is c_bool:
            setattr(args, name, False)
