"""Infeed and outfeed inside of a program: a loop on the device takes its data and gives its results without returning to the host.

Each device has a queue of elements that go in and one of elements that come out, both first in, first out. An element is a tree of
arrays. The host may queue any number of elements before it calls the program, which is copied from and to the host's memory at each feed.
Works inside `fori_loop`, `while_loop`, `scan` and `cond`, and inside `shard_map` and `pmap`, where each device has its own queues. A
program runs where its arguments are; one that uses none runs on JAX's default device, and asks that one's queue.

    def step(i, state):
        (images, labels), _ = train.infeed(None, shapes)
        return update(state, images, labels)

    train_steps = jax.jit(lambda state: jax.lax.fori_loop(0, 100, step, state))
    for batch in batches:
        train.transfer_to_infeed(device, batch)
    state = train_steps(state)
"""

import functools
from collections.abc import Sequence
from numbers import Real
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from tilestep.errors import UnsupportedError
from tilestep.hints import OUTFEED_WAIT, dry_platforms
from tilestep.messages import shortened, shown
from tilestep.train import _feeds
from tilestep.train.feeds import narrow
from tilestep.train.jax_private.feed_primitives import PLATFORMS, bind_infeed, bind_outfeed
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

_CODES: Final = _feeds.dtype_codes()
_DTYPES: Final = {code: jnp.dtype(name) for name, code in _CODES.items()}
_CODE_OF: Final = {dtype: code for code, dtype in _DTYPES.items()}
_LONGEST_WALL_S: Final = 1e9  # 30 years
_MAX_RANK: Final = 32

Device = Any  # jax.Device, of which jaxlib tells no types

_config: Any = jax.config
_tree: Any = jax.tree_util  # whose types say nothing of what is in a tree


class PendingFeeds(NamedTuple):
    """Elements in the queues of one device."""

    infeed: int
    outfeed: int


# ------------------------------------------------------------------------------------------------- inside of a program


def infeed(token: Pytree, shape: Pytree) -> tuple[Pytree, Pytree]:
    """Takes the next element of this device's infeed; the program waits until the host has fed it.

    Feeds of one program happen in the order in which it is written, with or without tokens.

    Args:
        token: orders feeds in older JAX: `jax.lax.create_token()`, or None.
        shape: a tree of leaves with `shape` and `dtype`, such as `jax.ShapeDtypeStruct`. A dtype of 64 bits becomes one of 32 unless
            `jax_enable_x64` is set.

    Returns:
        (The element, a tree of arrays like `shape`; the token.)

    Raises:
        TypeError: when a leaf has no shape and dtype, or a dtype that cannot be fed.
        UnsupportedError: when JAX lowers it for another platform than cpu and ipu, or for several devices outside of `shard_map`.
        jax.errors.JaxRuntimeError: from the program, when the element has another number of arrays, other shapes or dtypes, or when none
            comes in time (`set_feed_timeout`).
    """
    leaves, structure = _flatten(shape)
    return structure.unflatten(bind_infeed([_expected(path, leaf) for path, leaf in leaves])), token


def outfeed(token: Pytree, value: Pytree) -> Pytree:
    """Sends a tree of arrays to this device's outfeed. The queue has no bound: the host has to drain it (`transfer_from_outfeed`).

    Args:
        token: as for `infeed`.
        value: a tree of arrays or numbers, of any shapes.

    Returns:
        The token.

    Raises:
        TypeError: when a leaf has a dtype that cannot be fed.
        UnsupportedError: as for `infeed`.
    """
    leaves, _ = _flatten(value)
    arrays = [_jnp.asarray(leaf) for _, leaf in leaves]
    for (path, _), array in zip(leaves, arrays, strict=True):
        _expected(path, array)
    bind_outfeed(arrays)
    return token


# ---------------------------------------------------------------------------------------------------------- on the host


def transfer_to_infeed(device: Device, value: object) -> None:
    """Queues one element for programs on a device. Its arrays are copied: they may change as soon as this returns.

    Args:
        device: of platform cpu or ipu.
        value: the tree that the program asks for, or a flat tuple of its leaves in the order of `jax.tree.flatten`: NumPy and JAX arrays,
            and numbers. 64 bits become 32 as in `jnp.asarray`.

    Raises:
        UnsupportedError: when the device is of another platform.
        TypeError: when a leaf, which it names, is no array of numbers.
        OverflowError: when a whole number does not fit in 32 bits.
    """
    platform = _platform(device)
    leaves = tuple(_host_leaf(path, leaf) for path, leaf in _flatten(value)[0])
    if device.platform not in dry_platforms:
        _feeds.put(platform, device.id, leaves)


def transfer_from_outfeed(device: Device, shape: Pytree, *, timeout_wall_s: float | None = None) -> Pytree:
    """Takes one element that a program sent, and waits for it if there is none.

    Args:
        device: of platform cpu or ipu.
        shape: a tree of leaves with the `shape` and `dtype` of the element's.
        timeout_wall_s: seconds to wait, at most 1e9. None: as long as programs wait for data (`set_feed_timeout`).

    Returns:
        The element: a tree like `shape`, of NumPy arrays.

    Raises:
        TimeoutError: when no element came in time.
        ValueError: when the element has other shapes or dtypes; it is dropped. When the time-out is out of its bounds.
        UnsupportedError: when the device is of another platform, and in a dry run whose values are errors.
    """
    platform = _platform(device)
    leaves, structure = _flatten(shape)
    wanted = [_expected(path, leaf) for path, leaf in leaves]
    if device.platform in dry_platforms:
        return structure.unflatten([_dry_value(device, aval) for aval in wanted])
    with _jax.profiler.TraceAnnotation(OUTFEED_WAIT):
        found = _feeds.get(platform, device.id, None if timeout_wall_s is None else _seconds(timeout_wall_s))
    if found is None:
        waited = "in vain" if timeout_wall_s is None else f"{timeout_wall_s} s in vain"
        raise TimeoutError(
            f"outfeed of {_name(device)}: waited {waited} for an element ({_shapes(wanted)}); a program sends one at each "
            "tilestep.train.outfeed that it passes: call it first, or drain from another thread"
        )
    arrays = [np.frombuffer(data, _DTYPES[code]).reshape(dims) for code, dims, data in found]
    if [(array.shape, array.dtype) for array in arrays] != [(aval.shape, aval.dtype) for aval in wanted]:
        raise ValueError(f"outfeed of {_name(device)}: the element is ({_shapes(arrays)}), but ({_shapes(wanted)}) was expected")
    return structure.unflatten(arrays)


def pending_feeds(device: Device) -> PendingFeeds:
    """The numbers of elements that wait in a device's queues.

    Args:
        device: of platform cpu or ipu.

    Raises:
        UnsupportedError: when the device is of another platform.
    """
    platform = _platform(device)
    return PendingFeeds(_feeds.length(platform, device.id, False), _feeds.length(platform, device.id, True))


def clear_feeds(device: Device) -> PendingFeeds:
    """Drops the elements in a device's queues, for example after a program failed between two feeds.

    Args:
        device: of platform cpu or ipu.

    Returns:
        The numbers of elements dropped.

    Raises:
        UnsupportedError: when the device is of another platform.
    """
    platform = _platform(device)
    return PendingFeeds(_feeds.clear(platform, device.id, False), _feeds.clear(platform, device.id, True))


def set_feed_timeout(wall_s: float | None) -> float | None:
    """Sets how long programs wait for data, and the host for a program's data, before they fail.

    Args:
        wall_s: seconds, above 0 and at most 1e9. None: for ever.

    Returns:
        The time-out before, in seconds; 60 at first.

    Raises:
        ValueError: when `wall_s` is no number above 0, or above 1e9.
    """
    before = _feeds.set_timeout(-1.0 if wall_s is None else _seconds(wall_s))
    return None if before < 0 else before


# ---------------------------------------------------------------------------------------------------------------- checks


LeafPath = tuple[Any, ...]


def _flatten(value: object) -> tuple[list[tuple[LeafPath, Any]], Any]:
    return _tree.tree_flatten_with_path(value)


def _named(path: LeafPath) -> str:
    return _tree.keystr(path) or "the element"


def _expected(path: LeafPath, leaf: Any) -> jax.ShapeDtypeStruct:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        raise TypeError(
            f"{_named(path)} is {shown(leaf)}: a feed needs shape and dtype of each array, such as jax.ShapeDtypeStruct((8,), 'float32')"
        )
    return jax.ShapeDtypeStruct(_dims(path, shape), _dtype(path, dtype))


def _dims(path: LeafPath, shape: Sequence[int]) -> tuple[int, ...]:
    if len(shape) > _MAX_RANK:
        raise TypeError(f"{_named(path)} has {len(shape)} dimensions: a feed carries arrays of at most {_MAX_RANK}")
    return tuple(shape)


def _dtype(path: LeafPath, dtype: DTypeLike) -> Any:
    found = _fed_as(dtype, bool(_config.jax_enable_x64))
    if found is None:
        raise TypeError(f"{_named(path)} has dtype {dtype}, which no feed carries: known are {', '.join(_CODES)}")
    return found


@functools.lru_cache(maxsize=256)
def _fed_as(dtype: DTypeLike, x64: bool) -> Any:
    """The dtype of 32 bits for one of 64 without `x64`; None for one that cannot be fed."""
    del x64  # canonicalize_dtype sees it
    canonical = None if jnp.issubdtype(dtype, jax.dtypes.extended) else jax.dtypes.canonicalize_dtype(dtype)
    return None if canonical is None or canonical.name not in _CODES else _DTYPES[_CODES[canonical.name]]  # in this host's byte order


def _host_leaf(path: LeafPath, leaf: Any) -> tuple[int, tuple[int, ...], Any]:
    """Dtype code, dimensions, and the bytes, row-major."""
    given: Any = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    if isinstance(given, np.ndarray) and given.dtype.kind in "OSUMm":
        raise TypeError(f"{_named(path)} is {type(leaf).__name__} of dtype {given.dtype}: a feed carries arrays of numbers")
    dtype, dims = _dtype(path, given.dtype), _dims(path, given.shape)
    given = np.asarray(given)
    if (place := narrow.lost(given, dtype)) is not None:
        raise OverflowError(f"{_named(path)} {narrow.loss(given, place, dtype)}")
    array = np.ascontiguousarray(given.astype(dtype, copy=False))
    return _CODE_OF[dtype], dims, array.reshape(-1).view(np.uint8)


def _platform(device: Any) -> int:
    platform = getattr(device, "platform", None)
    if platform not in PLATFORMS:
        raise UnsupportedError(f"{shown(device)} has no feeds: they are of devices of the platforms {' and '.join(PLATFORMS)}")
    return PLATFORMS.index(platform)


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real)  # NumPy's numbers are Real


def _seconds(wall_s: float) -> float:
    given: Any = wall_s
    if not _is_number(given) or not 0 < given <= _LONGEST_WALL_S:
        raise ValueError(f"a feed's time-out is {shown(given)}: it must be a number of seconds above 0 and at most 1e9, or None")
    return float(wall_s)


def _dry_value(device: Device, aval: jax.ShapeDtypeStruct) -> Any:
    if dry_platforms[device.platform] == "error":
        raise UnsupportedError(
            f"a dry run computes no values, but the host drains the outfeed of {_name(device)}: leave that out, or ask for zeros: "
            "tilestep.dry_run(values='zeros'), or `tilestep run --dry-run=zeros`"
        )
    return np.zeros(aval.shape, aval.dtype)


def _name(device: Device) -> str:
    return f"{device.platform}:{device.id}"


def _shapes(arrays: Sequence[Any]) -> str:
    return shortened(", ".join(f"{array.dtype}[{','.join(map(str, array.shape))}]" for array in arrays), 200) or "nothing"
