"""Which argument takes what a caller has given to another one: for the errors of functions with several arguments.

`Replicas(jax.devices())` gives devices where a number belongs. That it must be a number helps less than where devices belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import jax
from jax.sharding import Mesh

from tilestep.messages import shortened


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
        raise TypeError(f"{name} is {shortened(repr(value))}: it must be {must}{hint}")


def require_kind(name: str, value: Any, kind: type, must: str, *names: str) -> None:
    """Raises: TypeError for a value of another class, which says which of the arguments `names` takes it. Args: must: what it must be."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is a {type(value).__name__}: it must be {must}{belongs_to(value, *names)}")


def require_function(name: str, value: Any, must: str, *names: str) -> None:
    """Raises: TypeError for what cannot be called. Args: must: its signature."""
    if not callable(value):
        raise TypeError(f"{name} is {shortened(repr(value))}: it must be a function {must}{belongs_to(value, *names)}")


def devices_of(devices: Any) -> tuple[Any, ...]:
    """A list of devices. Raises: TypeError for anything else."""
    if isinstance(devices, str | Mesh) or not isinstance(devices, Iterable):
        example = f"jax.devices({devices!r})" if isinstance(devices, str) else "jax.devices()[:2]"
        raise TypeError(f"devices is {shortened(repr(devices))}: it must be a list of devices, such as {example}")
    found = tuple(cast("Iterable[Any]", devices))
    others = [one for one in found if not isinstance(one, jax.Device)]
    if others:
        raise TypeError(
            f"devices has {shortened(repr(others[0]))}: it must have jax.Devices; select_devices(ids=[...]) finds them by their numbers"
        )
    return found
