"""Copies of arrays from one device to another, many in one call.

`jax.device_put` takes the host longer for each array than starting a program does. Of the work that it does in Python nothing is needed for
arrays that are whole on one device each; what it calls in the end is not public, and used here alone. Where JAX has it no more, the
public function does the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
from jax.sharding import SingleDeviceSharding

_DEVICES: Final = "_internal_device_list"  # of a sharding

_jax: Any = jax  # whose types say nothing of what is in a tree


def _private() -> Callable[[Sequence[Any], Sequence[Any]], list[Any]] | None:
    """What copies arrays to single devices; None if this version of JAX does not have it as it is known here."""
    try:
        from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage]

        client: Any = xla_client
        copy, as_is = client.batched_copy_array_to_devices_with_sharding, client.ArrayCopySemantics.REUSE_INPUT
    except (ImportError, AttributeError):
        return None
    if not hasattr(SingleDeviceSharding, _DEVICES):
        return None
    devices = operator.attrgetter(_DEVICES)

    def copied(arrays: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        return copy(arrays, [*map(devices, shardings)], shardings, [as_is] * len(arrays))

    return copied


_copied: Final = _private()


def copied(values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """`jax.device_put` of a list: values of any kind, and where each goes. What is there already may be the same array."""
    if _copied is None or not all(map(_is_whole, values)) or not all(type(sharding) is SingleDeviceSharding for sharding in shardings):
        return _jax.device_put(values, shardings)
    return _copied(values, shardings)


def _is_whole(value: Any) -> bool:
    """Whether it is an array on one device."""
    return type(getattr(value, "sharding", None)) is SingleDeviceSharding
