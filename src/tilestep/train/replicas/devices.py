"""Which devices a program uses: so many, in groups, or by their numbers.

Sources: TensorFlow for the IPU, `IPUConfig.auto_select_ipus` and `select_ipus` (SDK 2.4 documentation), for the forms of the selection.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import jax

from tilestep.messages import shown
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import all_of, belongs_to, platform_named
from tilestep.train.untyped import Pytree

Device = Any  # jax.Device, which JAX's types call a variable
Devices = tuple[Device, ...]


@overload
def select_devices(count: int | None = None, *, platform: str | None = None) -> Devices: ...
@overload
def select_devices(count: Sequence[int], *, platform: str | None = None) -> tuple[Devices, ...]: ...
@overload
def select_devices(*, ids: int | Sequence[int], platform: str | None = None) -> Devices: ...
@overload
def select_devices(*, ids: Sequence[Sequence[int]], platform: str | None = None) -> tuple[Devices, ...]: ...
def select_devices(
    count: int | Sequence[int] | None = None,
    *,
    ids: int | Sequence[int] | Sequence[Sequence[int]] | None = None,
    platform: str | None = None,
) -> Devices | tuple[Devices, ...]:
    """Devices out of `jax.devices()`: the first so many, several such groups one after the other, or those with given numbers.

    Args:
        count: how many; a list of numbers gives as many groups, which share no device; None: all there are.
        ids: their numbers (`device.id`), in the order wanted; a list of lists gives groups.
        platform: of which platform; None: JAX's default one.

    Returns:
        A tuple of devices, or one such tuple for each group.

    Raises:
        TypeError: when a count or an id is no whole number.
        ValueError: when there are too few devices, an id is unknown or comes twice, or both `count` and `ids` are given.
    """
    there: Devices = tuple(jax.devices() if platform is None else jax.devices(platform_named(platform)))
    ids, count = _listed("ids", ids), _listed("count", count)
    if ids is not None:
        if count is not None:
            raise ValueError(f"count is {shown(count)} and ids is {shown(ids)}: give one of them, they are two ways to select devices")
        return _by_id(there, ids)
    if count is None:
        return there
    if not isinstance(count, list):
        return _first(there, [whole_number("count", count, least=1, hint=belongs_to(count, "platform"))])[0]
    sizes = [whole_number(f"count[{index}]", size, least=1, hint=_ready(size)) for index, size in enumerate(count)]
    if not sizes:
        raise ValueError("count is an empty list: name the size of one group at least")
    return _first(there, sizes)


def _first(there: Devices, sizes: list[int]) -> tuple[Devices, ...]:
    needed = sum(sizes)
    if needed > len(there):
        sum_text = f"{shown(sizes)[1:-1].replace(',', ' +')} = {shown(needed)}" if len(sizes) > 1 else shown(needed)
        raise ValueError(
            f"count: {sum_text} devices were asked for, but there are {len(there)} on platform {there[0].platform}{more_devices(there)}"
        )
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return tuple(there[start : start + size] for start, size in zip(starts, sizes, strict=True))


def _by_id(there: Devices, ids: Any) -> Devices | tuple[Devices, ...]:
    if not isinstance(ids, list):
        return _numbered(there, [ids])
    if not ids:
        raise ValueError("ids is an empty list: name one device at least")
    grouped = [isinstance(item, list) for item in ids]
    if not any(grouped):
        return _numbered(there, ids)
    if not all(grouped) or not all(ids):
        raise ValueError(f"ids is {shown(ids)}: it must be a list of numbers, or a list of such lists, none of them empty")
    _numbered(there, [number for group in ids for number in group])
    return tuple(_numbered(there, group) for group in ids)


def _numbered(there: Devices, ids: Iterable[Pytree]) -> Devices:
    numbers = [whole_number("ids", number, least=0, hint=_ready(number)) for number in ids]
    by_id = {device.id: device for device in there}
    times = Counter(numbers)
    twice = sorted(number for number in times if times[number] > 1)
    if twice:
        raise ValueError(f"ids names device {shown(twice[0])} {times[twice[0]]} times: each device can be selected once")
    unknown = [number for number in numbers if number not in by_id]
    if unknown:
        known = ", ".join(map(str, sorted(by_id)))
        raise ValueError(
            f"ids names device {shown(unknown[0])}, but platform {there[0].platform} has those with ids {known}{more_devices(there)}"
        )
    return tuple(by_id[number] for number in numbers)


def _ready(value: object) -> str:
    return "; what has devices needs no select_devices, which finds them by numbers" if isinstance(value, jax.Device) else ""


def _is_many(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) and getattr(value, "ndim", 1) > 0


def _listed(name: str, value: Any) -> Any:
    """A list for a generator, an array or another iterable, and for those in it: lists can be gone through again.

    Raises: ValueError for a generator that may never end.
    """
    if not _is_many(value):
        return value
    return [list(all_of(f"{name}[{index}]", item)) if _is_many(item) else item for index, item in enumerate(all_of(name, value))]


def more_devices(there: Devices) -> str:
    """How to get more devices of a platform, where the host decides how many there are."""
    ways = {"cpu": "jax.config.update('jax_num_cpu_devices', n)", "ipu": "jax.config.update('jax_ipu_device_count', n)"}
    way = ways.get(there[0].platform)
    return f": {way} at the program's start makes n of them" if way else ""
