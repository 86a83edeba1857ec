"""Which argument takes what a caller has given to another one: for the errors of functions with several arguments.

`Replicas(jax.devices())` gives devices where a number belongs. That it must be a number helps less than where devices belong.
"""

import itertools
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from typing import Any, Final, NamedTuple, cast

import jax
import numpy as np
from jax.sharding import Mesh

from tilestep.hints import devices_beside
from tilestep.messages import shortened, shown
from tilestep.train.untyped import Pytree

MOST_ITEMS: Final = 1_000_000  # an iterable need not say how many it has


def _are_devices(value: Any) -> bool:
    items = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]
    return bool(items) and all(isinstance(item, jax.Device) for item in items)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_a(name: str) -> Callable[[Any], bool]:
    """Of a class of this package, by its name: the modules that have these classes import this one."""
    return lambda value: type(value).__name__ == name


class _Kind(NamedTuple):
    """What an argument takes: how to see it, and what such values are called."""

    fits: Callable[[Any], bool]
    called: str


_KINDS: Final[Mapping[str, _Kind]] = {
    "devices": _Kind(_are_devices, "devices are"),
    "mesh": _Kind(lambda value: isinstance(value, Mesh), "a mesh is"),
    "platform": _Kind(lambda value: isinstance(value, str), "a platform's name is"),
    "optimizer": _Kind(lambda value: hasattr(value, "init") and hasattr(value, "update"), "an optimiser is"),
    "gradient_accumulation_count": _Kind(_is_number, "the number of microbatches is"),
    "pipeline_schedule": _Kind(lambda value: isinstance(value, str) or _is_a("Schedule")(value), "a schedule is"),
    "repeat_count": _Kind(_is_number, "a number of updates is"),
    "buffer_depth": _Kind(_is_number, "a number of steps is"),
    "reduction": _Kind(lambda value: isinstance(value, str), "a reduction is"),
    "infeed": _Kind(_is_a("InfeedQueue"), "an InfeedQueue is"),
    "outfeed": _Kind(_is_a("OutfeedQueue"), "an OutfeedQueue is"),
}


def belongs_to(value: Any, *names: str) -> str:
    """The end of a message: the first of these arguments that takes such a value; nothing if none does."""
    return next((f"; {_KINDS[name].called} given as {name}=..." for name in names if _KINDS[name].fits(value)), "")


def refuse_misplaced(name: str, value: Any, must: str, *names: str) -> None:
    """Raises: TypeError if the value of an argument belongs to one of the arguments `names`. Args: must: what it must be."""
    hint = belongs_to(value, *names)
    if hint:
        raise TypeError(f"{name} is {shown(value)}: it must be {must}{hint}")


def require_kind(name: str, value: Any, kind: type, must: str, *names: str) -> None:
    """Raises: TypeError for a value of another class, which says which of the arguments `names` takes it. Args: must: what it must be."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is a {type(value).__name__}: it must be {must}{belongs_to(value, *names)}")


def require_function(name: str, value: Any, must: str, *names: str) -> None:
    """Raises: TypeError for what cannot be called. Args: must: its signature."""
    if not callable(value):
        raise TypeError(f"{name} is {shown(value)}: it must be a function {must}{belongs_to(value, *names)}")


def require_one_of(name: str, value: Any, known: Sequence[str], hint: str = "") -> None:
    """Raises: ValueError for what is not one of the known texts. Args: hint: end of the message."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} is {shown(value)}: it must be one of {', '.join(map(repr, known))}{hint}")


def bool_or_number(name: str, value: Any, number: str) -> tuple[bool, int | None]:
    """(whether it is asked for, a number if one is given). Args: number: what the number is of. Raises: TypeError, ValueError."""
    if value is True or value is False or isinstance(value, np.bool_):
        return bool(value), None
    must = f"it must be True or False, or the number of {number}, 1 or more"
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}: {must}") from None
    if found < 1:
        raise ValueError(f"{name} is {shown(found)}: {must}")
    return True, found


def require_bools(**values: Any) -> None:
    """Raises: TypeError for anything but True and False. Args: values: of arguments, by their names."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} is {shown(value)}: it must be True or False")


def require_dtype(name: str, value: Any, *, allow_function: bool = False) -> None:
    """Raises: TypeError for what names no dtype. Args: allow_function: whether it may be a function that chooses one."""
    if value is None or (allow_function and callable(value) and not isinstance(value, type)):
        return
    try:
        if isinstance(value, str) and not value.isprintable():
            raise TypeError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old names warn
            found = jax.numpy.dtype(value)
        if not jax.numpy.issubdtype(found, np.number):
            raise TypeError
    except (TypeError, ValueError, RecursionError, OverflowError):
        function = ", a function of (path, variable)" * allow_function
        raise TypeError(f"{name} is {shown(value)}: it must be None, a dtype such as 'float32'{function}") from None


def require_tree(name: str, value: Any) -> None:
    """Raises: TypeError for what JAX cannot flatten: a generator, lists in lists in lists without end."""
    if isinstance(value, Iterator):
        raise TypeError(f"{name} is a {type(value).__name__}: it must be a pytree of arrays; list() or next() takes what it gives")
    try:
        jax.tree.structure(value)
    except (RecursionError, SystemError):  # the latter from within JAX
        raise TypeError(f"{name} is {shown(value)}, which is nested too deep: it must be a pytree of arrays") from None


def items_of(name: str, value: Any, must: str) -> tuple[Any, ...]:
    """What a list, a generator or an array has.

    Args: must: what it must be.
    Raises: TypeError for a text, a table, a set and what has no items; ValueError for a generator that may never end.
    """
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        raise TypeError(f"{name} is {shown(value)}: it must be {must}")
    return all_of(name, cast("Iterable[Any]", value))


def all_of(name: str, items: Iterable[Any]) -> tuple[Any, ...]:
    """All items. Raises: ValueError for a generator, or another iterable without a length, that has more than MOST_ITEMS."""
    if isinstance(items, Sized):
        return tuple(items)
    found = tuple(itertools.islice(items, MOST_ITEMS + 1))
    if len(found) > MOST_ITEMS:
        raise ValueError(f"{name} is a {type(items).__name__} that gives more than {MOST_ITEMS:,} items, so it may never end: give a list")
    return found


def require_platform(platform: Any) -> None:
    """Raises: TypeError, ValueError for what cannot be a platform's name."""
    if not isinstance(platform, str):
        raise TypeError(
            f"platform is {shown(platform)}: it must be a platform's name, such as 'cpu'{belongs_to(platform, 'devices', 'mesh')}"
        )
    if not platform:
        raise ValueError("platform is '': it must be a platform's name, such as 'cpu'; None is JAX's default one")


def platform_named(platform: Any) -> str:
    """The name of a platform of which JAX has devices. Raises: as `devices_named`."""
    devices_named(platform)
    return platform


def devices_named(platform: Any) -> Sequence[Any]:
    """The devices of a platform; those beside the process's own go before. Raises: as `require_platform`; ValueError if it has none."""
    require_platform(platform)
    try:
        return devices_beside(platform) or jax.devices(platform)
    except RuntimeError as error:
        raise ValueError(f"platform is {shown(platform)}, of which JAX has no devices: {shortened(error, 300)}") from error


def devices_of(devices: Any) -> tuple[Any, ...]:
    """A list of devices. Raises: TypeError for anything else; ValueError for a generator that may never end."""
    if isinstance(devices, str | Mesh) or getattr(devices, "ndim", 1) == 0 or not isinstance(devices, Iterable):
        example = f"jax.devices({shown(devices)})" if isinstance(devices, str) else "jax.devices()[:2]"
        raise TypeError(f"devices is {shown(devices)}: it must be a list of devices, such as {example}")
    found = all_of("devices", cast("Iterable[Any]", devices))
    others = [one for one in found if not isinstance(one, jax.Device)]
    if others:
        raise TypeError(f"devices has {shown(others[0])}: it must have jax.Devices; select_devices(ids=[...]) finds them by their numbers")
    return found


Body = Callable[..., Any]
Step = Callable[[Any, Any], tuple[Any, Any]]  # (carry, element) -> (carry, values for the outfeed)


def name_of(function: Any) -> str:
    """How messages and programs call a function."""
    return str(getattr(function, "__name__", type(function).__name__)).replace("<lambda>", "lambda")


def arguments_of(element: Pytree) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An element as arguments: a tuple's or list's items, a mapping with string keys as keywords, anything else as it is."""
    if isinstance(element, tuple | list):
        return tuple(element), {}
    if isinstance(element, Mapping) and all(isinstance(key, str) for key in element):
        return (), dict(element)
    return (element,), {}
