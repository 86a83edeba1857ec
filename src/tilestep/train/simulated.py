"""Arrays on devices of which some are not simulated, because others do the same (`TILESTEP_SIMULATED_IPUS`)."""

import itertools
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding, SingleDeviceSharding

from tilestep import hints
from tilestep.train.untyped import jax as _jax


def put_shards(tree: Any, to: Any, *, may_alias: bool | None = None) -> Any:
    """`jax.device_put`, also to devices of which some are not simulated. JAX puts no array there that is on a device already.

    Args: to: a sharding, or a list of them with one for each leaf. may_alias: as for `jax.device_put`.
    """
    leaves, structure = _jax.tree.flatten(tree)
    places = list(to) if isinstance(to, list | tuple) else [to] * len(leaves)
    if not any(map(is_simulated_in_part, places)):
        return _jax.device_put(tree, _jax.tree.unflatten(structure, places), may_alias=may_alias)
    put = [
        (_in_shards if is_simulated_in_part(place) else _jax.device_put)(leaf, place, may_alias=may_alias)
        for leaf, place in zip(leaves, places, strict=True)
    ]
    return _jax.tree.unflatten(structure, put)


def is_simulated_in_part(sharding: Sharding) -> bool:
    """Whether some of the devices are simulated, and others are said to do the same (`TILESTEP_SIMULATED_IPUS`)."""
    return not sharding.is_fully_addressable and any(hints.listens(device.platform) for device in sharding.addressable_devices)


def is_of_a_part(sharding: Sharding) -> bool:
    """Whether the devices, simulated or not, are of a machine of which a part is simulated."""
    device = next(iter(sharding.device_set))
    return hints.listens(device.platform) and len(device.client.local_devices()) < len(device.client.devices())


def _in_shards(value: Any, place: Any, *, may_alias: bool | None) -> Any:
    """`put_shards` of one array, which is whole on one device, or divided as it will be there."""
    if isinstance(value, jax.Array) and _jax.dtypes.issubdtype(value.dtype, _jax.dtypes.prng_key):
        return _jax.random.wrap_key_data(
            _in_shards(_jax.random.key_data(value), place, may_alias=may_alias), impl=_jax.random.key_impl(value)
        )
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        place = divided_alike(value, place)
        parts, shape = [shard.data for shard in value.addressable_shards], value.shape
    else:
        array: Any = value if isinstance(value, jax.Array) else np.asarray(value, _jax.dtypes.canonicalize_dtype(np.result_type(value)))
        indices, shape = place.addressable_devices_indices_map(array.shape).values(), array.shape
        parts = [array if all(part == slice(None) for part in index) else array[index] for index in indices]
    devices = [SingleDeviceSharding(device, memory_kind=place.memory_kind) for device in place.addressable_devices_indices_map(shape)]
    return _jax.make_array_from_single_device_arrays(shape, place, _jax.device_put(parts, devices, may_alias=may_alias))


def divided_alike(value: Any, sharding: Sharding) -> Sharding:
    """Where a value goes: on the devices of `sharding`, divided over its own axes too, if they are those of `sharding`'s mesh."""
    own = getattr(value, "sharding", None)
    if not isinstance(own, NamedSharding) or not isinstance(sharding, NamedSharding) or own.mesh.shape != sharding.mesh.shape:
        return sharding
    wanted = itertools.zip_longest(sharding.spec, own.spec)
    if own.mesh == sharding.mesh or any(of not in (None, there) for of, there in wanted):
        return sharding
    return NamedSharding(sharding.mesh, own.spec, memory_kind=sharding.memory_kind)
