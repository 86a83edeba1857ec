"""`lax.infeed`, `lax.outfeed` and the methods of a Device that feed and drain it, which JAX dropped in 0.7: by way of `tilestep.train`."""

from typing import Any

import jax
from jax import lax

from tilestep import train
from tilestep.messages import shown

_jax: Any = jax
_Device: Any = _jax.Device
_lax: Any = lax


def infeed(token: Any, shape: Any = None, partitions: Any = None) -> tuple[Any, Any]:
    """`tilestep.train.infeed`. Raises: NotImplementedError for `partitions`: a program over several devices feeds inside `shard_map`."""
    _refuse_partitions(partitions)
    return train.infeed(token, shape)


def outfeed(token: Any, xs: Any, partitions: Any = None) -> Any:
    """`tilestep.train.outfeed`. Raises: NotImplementedError for `partitions`, as `infeed`."""
    _refuse_partitions(partitions)
    return train.outfeed(token, xs)


def transfer_to_infeed(device: Any, literal: Any) -> None:
    """`tilestep.train.transfer_to_infeed`, as a method of the device."""
    train.transfer_to_infeed(device, literal)


def transfer_from_outfeed(device: Any, shape: Any) -> Any:
    """`tilestep.train.transfer_from_outfeed`, as a method of the device.

    Args: shape: an XLA Shape, as in old versions of JAX, or a tree of objects with shape and dtype.
    Returns: an array, for a tuple shape a flat tuple of arrays, or a tree like the one given.
    """
    return train.transfer_from_outfeed(device, _from_xla(shape))


def _refuse_partitions(partitions: Any) -> None:
    if partitions is not None:
        raise NotImplementedError(f"partitions={shown(partitions)}: an element belongs to one device; feed inside jax.shard_map instead")


def _from_xla(shape: Any) -> Any:
    if not hasattr(shape, "tuple_shapes"):
        return shape
    if shape.is_tuple():
        return tuple(_from_xla(leaf) for leaf in shape.tuple_shapes())
    return jax.ShapeDtypeStruct(shape.dimensions(), shape.numpy_dtype())


def _itself(device: Any) -> Any:
    return device


def install() -> None:
    """Adds the missing names. A Device becomes callable and gives itself, so that `x.device()` works beside `x.device`."""
    for owner, functions in ((_lax, (infeed, outfeed)), (_Device, (transfer_to_infeed, transfer_from_outfeed))):
        for function in functions:
            if not hasattr(owner, function.__name__):
                setattr(owner, function.__name__, function)
    _Device.__call__ = _itself
