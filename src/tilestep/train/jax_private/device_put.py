"""Arrays from one device to another, many in one call, and from the host to one device; arrays of weak type.

`jax.device_put` takes the host longer for each array than starting a program does. Of the work that it does in Python nothing is needed for
arrays that are whole on one device each; what it calls in the end is not public, and used here alone. Where JAX has it no more, the
public function does the same.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding
from numpy.typing import NDArray

from tilestep.train.simulated import divided_alike, put_shards
from tilestep.train.untyped import jax as _jax


def weak(array: jax.Array) -> jax.Array:
    """The same values with a weak type; as they are where JAX has that function no more."""
    try:
        from jax._src.lax import lax

        convert: Any = lax._convert_element_type
        return convert(array, array.dtype, weak_type=True)
    except (ImportError, AttributeError, TypeError):
        return array


_SHARDING_DEVICES: Final = "_internal_device_list"
MOST_KINDS: Final = 1024  # shapes and dtypes that are remembered


class _Private(NamedTuple):
    """What JAX's `device_put` calls: for arrays on devices, and where each goes; for one on the host."""

    copy: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
    put: Callable[[NDArray[Any], SingleDeviceSharding], Any]


def _private() -> _Private | None:
    """None if this version of JAX does not have it as it is known here."""
    try:
        from jax._src import lib

        libraries: Any = lib
        client, guards = libraries.xla_client, libraries.guard_lib
        copy, put, as_is = (
            client.batched_copy_array_to_devices_with_sharding,
            client.batched_device_put,
            client.ArrayCopySemantics.REUSE_INPUT,
        )
        state, found = guards.thread_local_state, guards.thread_local_state().explicit_device_put
    except (ImportError, AttributeError):
        return None
    if not hasattr(SingleDeviceSharding, _SHARDING_DEVICES) or not isinstance(found, bool):
        return None
    devices = operator.attrgetter(_SHARDING_DEVICES)

    def explicitly(function: Callable[..., Any], *args: Any) -> Any:
        """To `jax.transfer_guard` it is what the program asks for, as `device_put` is."""
        guard = state()
        before, guard.explicit_device_put = guard.explicit_device_put, True
        try:
            return function(*args)
        finally:
            guard.explicit_device_put = before

    def copy_all(arrays: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        return explicitly(copy, arrays, [*map(devices, shardings)], shardings, [as_is] * len(arrays))

    kinds: dict[tuple[tuple[int, ...], Any], Any] = {}

    def put_one(array: NDArray[Any], sharding: SingleDeviceSharding) -> Any:
        what = array.shape, array.dtype
        kind = kinds.get(what)
        if kind is None:
            if len(kinds) >= MOST_KINDS:
                kinds.clear()
            kind = kinds[what] = _jax.core.ShapedArray(*what)
        return explicitly(put, kind, sharding, [array], [*sharding.device_set])

    return _Private(copy_all, put_one)


FOUND: Final = _private()  # None: JAX's public function does all


def copied(values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """`jax.device_put` of a list: values of any kind, and where each goes. What is there already may be the same array.

    A value that is divided over one mesh, and goes whole to another one of the same axes, stays divided: JAX would gather it on the host.
    """
    if not all(map(is_whole, values)) or not all(type(sharding) is SingleDeviceSharding for sharding in shardings):
        return put_shards(list(values), [*map(divided_alike, values, shardings)])
    return whole_copied(values, shardings)


def whole_copied(values: Sequence[Any], shardings: Sequence[SingleDeviceSharding]) -> list[Any]:
    """The same of arrays that are whole on one device each, which nobody looks at."""
    return _jax.device_put(values, shardings) if FOUND is None else FOUND.copy(values, shardings)


def put(arrays: Sequence[NDArray[Any]], sharding: SingleDeviceSharding) -> list[Any]:
    """`jax.device_put` of NumPy arrays, of dtypes that JAX has, to one device. It may keep the arrays' memory."""
    if FOUND is None:
        return _jax.device_put(list(arrays), sharding)
    return [FOUND.put(array, sharding) for array in arrays]


def is_whole(value: object) -> bool:
    """Whether it is an array of numbers on one device, and not of random keys, which JAX keeps as an array within another."""
    return type(getattr(value, "sharding", None)) is SingleDeviceSharding and isinstance(getattr(value, "dtype", None), np.dtype)
