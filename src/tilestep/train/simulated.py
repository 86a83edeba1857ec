"""Arrays on devices of which some are not simulated, because others do the same (`TILESTEP_SIMULATED_IPUS`)."""

import itertools
from typing import Any

import jax
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
    put: list[Any] = []
    for leaf, place in zip(leaves, places, strict=True):
        if not is_simulated_in_part(place):
            put.append(_jax.device_put(leaf, place, may_alias=may_alias))
        elif isinstance(leaf, jax.Array):
            put.append(_in_shards(leaf, place, may_alias=may_alias))
        else:
            put.append(_jax.device_put(leaf, place))  # a dry run reads no value, so that none is shared with the host
    return _jax.tree.unflatten(structure, put)


def is_simulated_in_part(sharding: Sharding) -> bool:
    """Whether some of the devices are simulated, and others are said to do the same (`TILESTEP_SIMULATED_IPUS`)."""
    return not sharding.is_fully_addressable and any(hints.listens(device.platform) for device in sharding.addressable_devices)


def is_of_a_part(sharding: Sharding) -> bool:
    """Whether the devices, simulated or not, are of a machine of which a part is simulated."""
    device = next(iter(sharding.device_set))
    return hints.listens(device.platform) and len(device.client.local_devices()) < len(device.client.devices())


def _in_shards(array: jax.Array, place: Any, *, may_alias: bool | None) -> Any:
    """`put_shards` of one array, which is whole on one device, on the devices of `place`, or divided as it will be there."""
    if _jax.dtypes.issubdtype(array.dtype, _jax.dtypes.prng_key):
        return _jax.random.wrap_key_data(
            _in_shards(_jax.random.key_data(array), place, may_alias=may_alias), impl=_jax.random.key_impl(array)
        )
    if array.is_fully_addressable:
        indices = place.addressable_devices_indices_map(array.shape).values()
        parts: list[Any] = [array if all(part == slice(None) for part in index) else array[index] for index in indices]
    else:
        place = divided_alike(array, place)
        own, there = (list(of.addressable_devices_indices_map(array.shape).values()) for of in (array.sharding, place))
        if own != there and array.sharding.device_set == place.device_set:
            return _jax.device_put(array, place, may_alias=may_alias)
        if own != there:
            raise ValueError(
                f"an array that is divided as {array.sharding} cannot go to other IPUs divided as {place}, because not all are simulated "
                "(TILESTEP_SIMULATED_IPUS): divide it anew first, or simulate all IPUs"
            )
        parts = [shard.data for shard in array.addressable_shards]
    devices = [SingleDeviceSharding(device, memory_kind=place.memory_kind) for device in place.addressable_devices_indices_map(array.shape)]
    return _jax.make_array_from_single_device_arrays(array.shape, place, _jax.device_put(parts, devices, may_alias=may_alias))


def divided_alike(value: Any, sharding: Sharding) -> Sharding:
    """Where a value goes: on the devices of `sharding`, divided over its own axes too, if they are those of `sharding`'s mesh."""
    own = getattr(value, "sharding", None)
    if not isinstance(own, NamedSharding) or not isinstance(sharding, NamedSharding) or own.mesh.shape != sharding.mesh.shape:
        return sharding
    wanted = itertools.zip_longest(sharding.spec, own.spec)
    if own.mesh == sharding.mesh or any(of not in (None, there) for of, there in wanted):
        return sharding
    return NamedSharding(sharding.mesh, own.spec, memory_kind=sharding.memory_kind)
