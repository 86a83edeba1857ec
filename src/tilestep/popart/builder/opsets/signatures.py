"""Methods whose parameters stand in a table: kinds of arguments are checked and converted, and signatures can be inspected.

Kinds accept what the original's binding converts, and no more.
"""

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

import numpy as np

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.former import renamed


class Mismatch(Exception):
    """A value is of another kind."""


@dataclass(frozen=True, kw_only=True)
class ArgumentKind:
    """Attributes: label: as messages and signatures show it; convert: value -> converted value, or it raises Mismatch."""

    label: str
    convert: Callable[[Any], Any]

    def __str__(self) -> str:
        return self.label


def _int(value: object) -> int:
    if isinstance(value, np.bool_):
        return 1 if value else 0
    if isinstance(value, np.ndarray):
        value = _scalar(cast("Array", value))
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
        value = _scalar(cast("Array", value))
    if isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
        return float(cast("Any", value))
    raise Mismatch


def _scalar(array: Array) -> object:
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


def _array(value: object) -> Array:
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


INT: Final = ArgumentKind(label="int", convert=_int)
INT64: Final = ArgumentKind(label="int", convert=_int64)  # an attribute would take a larger one for a negative number
FLOAT: Final = ArgumentKind(label="float", convert=_float)
BOOL: Final = ArgumentKind(label="bool", convert=_bool)
STR: Final = ArgumentKind(label="str", convert=_str)
ARRAY: Final = ArgumentKind(label="numpy.ndarray", convert=_array)
DEBUG: Final = ArgumentKind(label="DebugContext", convert=_debug)  # a name, or an object with getPathName(): gives the path


def list_of(item: ArgumentKind) -> ArgumentKind:
    """A list, tuple or array whose items are of a kind."""

    def convert(value: object) -> list[Any]:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
            raise Mismatch
        if isinstance(value, np.ndarray) and value.ndim == 0:
            raise Mismatch
        return [item.convert(one) for one in cast("Sequence[Any]", value)]

    return ArgumentKind(label=f"List[{item.label}]", convert=convert)


def set_of(item: ArgumentKind) -> ArgumentKind:
    """A set whose items are of a kind; it gives a frozenset."""

    def convert(value: object) -> frozenset[Any]:
        if not isinstance(value, AbstractSet):
            raise Mismatch
        return frozenset(item.convert(one) for one in cast("AbstractSet[Any]", value))

    return ArgumentKind(label=f"Set[{item.label}]", convert=convert)


def dict_of(item: ArgumentKind) -> ArgumentKind:
    """A dictionary from texts to values of a kind."""

    def convert(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Mismatch
        return {_str(name): item.convert(one) for name, one in cast("Mapping[Any, Any]", value).items()}

    return ArgumentKind(label=f"Dict[str, {item.label}]", convert=convert)


def optional(kind: ArgumentKind) -> ArgumentKind:
    """None, or a value of a kind."""
    return ArgumentKind(label=f"Optional[{kind.label}]", convert=lambda value: None if value is None else kind.convert(value))


def instance_of(cls: type) -> ArgumentKind:
    """An object of a class."""

    def convert(value: object) -> object:
        if not isinstance(value, cls):
            raise Mismatch
        return value

    return ArgumentKind(label=cls.__name__, convert=convert)


def member_number(cls: type[Enum]) -> ArgumentKind:
    """A number, or a member of an enumeration, of which the number is taken."""

    def convert(value: object) -> int:
        return int(value.value) if isinstance(value, cls) else _int(value)

    return ArgumentKind(label=f"int | {cls.__name__}", convert=convert)


INTS: Final = list_of(INT)
FLOATS: Final = list_of(FLOAT)
STRS: Final = list_of(STR)
IDS: Final = STRS
ID_SET: Final = set_of(STR)


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


@dataclass(frozen=True)
class SignatureParameter:
    """A parameter. Attributes: default: REQUIRED if it must be given; a default is taken as it is, without conversion."""

    name: str
    kind: ArgumentKind
    default: Any = REQUIRED


DEBUG_CONTEXT: Final = SignatureParameter("debugContext", DEBUG, "")


@dataclass(frozen=True, kw_only=True)
class Overload:
    """One way to call a method. Attributes: returns: the kind of its result in words."""

    parameters: tuple[SignatureParameter, ...]
    returns: str = "None"

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The converted value of each parameter. Raises: Mismatch if the arguments don't fit."""
        if len(args) > len(self.parameters):
            raise Mismatch
        values: dict[str, Any] = {}
        for position, parameter in enumerate(self.parameters):
            name = parameter.name
            if position < len(args):
                if name in kwargs:
                    raise Mismatch
                values[name] = parameter.kind.convert(args[position])
            elif name in kwargs:
                values[name] = parameter.kind.convert(kwargs[name])
            elif parameter.default is REQUIRED:
                raise Mismatch
            else:
                values[name] = parameter.default
        if not values.keys() >= kwargs.keys():
            raise Mismatch
        return values

    def __str__(self) -> str:
        shown = [
            f"{parameter.name}: {parameter.kind}" + ("" if parameter.default is REQUIRED else f" = {parameter.default!r}")
            for parameter in self.parameters
        ]
        return f"({', '.join(['self', *shown])}) -> {self.returns}"

    def signature(self) -> inspect.Signature:
        """As `inspect.signature` shows it: a default before a parameter that must be given is left out, and `lambda` is `lambda_`."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        required = [position for position, parameter in enumerate(self.parameters) if parameter.default is REQUIRED]
        last = required[-1] if required else -1
        shown = [
            inspect.Parameter(
                f"{parameter.name}_" if keyword.iskeyword(parameter.name) else parameter.name,
                kind,
                default=parameter.default if position > last else inspect.Parameter.empty,
                annotation=parameter.kind.label,
            )
            for position, parameter in enumerate(self.parameters)
        ]
        return inspect.Signature([inspect.Parameter("self", kind), *shown], return_annotation=self.returns)


def bind(name: str, overloads: Sequence[Overload], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The converted value of each parameter of the first overload that the arguments fit.

    Raises: TypeError that lists the overloads if none fits.
    """
    kwargs = renamed(kwargs)
    for overload in overloads:
        try:
            return overload.bound(args, kwargs)
        except Mismatch:
            continue
    known = "\n".join(f"    {number}. {overload}" for number, overload in enumerate(overloads, 1))
    given = ", ".join([*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())])
    raise TypeError(
        f"{name}(): incompatible function arguments. The following argument types are supported:\n{known}\n\nInvoked with: {given}"
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


Run = Callable[..., Any]
Parameters = tuple[SignatureParameter, ...]


def overloaded(
    *overloads: Parameters, returns: str = "None", name: str | None = None, owner: str | None = None, doc: str | None = None
) -> Callable[[Run], Any]:
    """A decorator: the method takes any of the overloads' parameters, and the decorated function gets them by name.

    Where overloads have different parameters, the function has defaults for those that only some have.

    Args: name, owner, doc: of the method, its class and its text, where they are not the function's own.
    """
    made = tuple(Overload(parameters=parameters, returns=returns) for parameters in overloads)

    def decorator(run: Run) -> Any:
        known_as = name or run.__name__

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return run(self, **bind(known_as, made, args, kwargs))

        call.__name__, call.__qualname__ = known_as, run.__qualname__ if owner is None else f"{owner}.{known_as}"
        call.__doc__, call.__module__ = doc or run.__doc__, run.__module__
        call.__signature__ = made[0].signature()  # pyrefly: ignore[missing-attribute]  # inspect reads it
        call.overloads = made  # pyrefly: ignore[missing-attribute]
        return call

    return decorator
