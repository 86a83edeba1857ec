"""Arrays of a state between devices and a checkpoint: taken apart into the devices' pieces, and put onto any other devices."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding
from numpy.typing import NDArray

from tilestep.errors import CheckpointError
from tilestep.messages import shortened
from tilestep.train.checkpoints.metadata import Leaf, Piece, Stored, dtype_of, is_storable
from tilestep.train.feeds.random_keys import numbers_of
from tilestep.train.jax_private.device_put import weak
from tilestep.train.simulated import is_of_a_part
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

Arrays = dict[str, NDArray[Any]]
Pieces = Callable[[Leaf], Iterable[tuple[Piece, Callable[[], NDArray[Any]]]]]  # each with its reader; those of this process come first

_NUMBERS: Final = (bool, int, float, complex)


def take(tree: Pytree, arrays: Arrays, digests: Callable[[NDArray[Any]], str]) -> Callable[[], tuple[Leaf, ...]]:
    """Copies what this process's devices have of a tree to the host, into `arrays`; waits for it.

    Returns: what makes the leaves' records, which takes as long as the digests: another thread may call it.
    """
    rows: list[tuple[str, tuple[int, ...], str, str, list[tuple[tuple[int, ...], tuple[int, ...], int, NDArray[Any]]]]] = []
    seen: set[str] = set()
    for path, leaf in _jax.tree_util.tree_flatten_with_path(tree)[0]:
        where = _jax.tree_util.keystr(path)
        if where in seen:
            raise CheckpointError(f"two leaves of the state are called state{where}: a checkpoint could not tell them apart")
        seen.add(where)
        if isinstance(leaf, jax.Array) and leaf.is_deleted():
            raise CheckpointError(
                f"state{where} was deleted: a program that it was donated to has taken it over, so save what that returned"
            )
        require_simulated(where, leaf)
        leaf, impl = numbers_of(leaf)
        if isinstance(leaf, jax.Array):
            pieces = [(*_bounds(each.index, leaf.shape), each.replica_id, np.array(each.data)) for each in leaf.addressable_shards]
            shape, dtype = leaf.shape, leaf.dtype
        else:
            value = native(np.asarray(leaf))
            pieces, shape, dtype = [((0,) * value.ndim, value.shape, 0, value)], value.shape, value.dtype
        if not is_storable(dtype):
            raise CheckpointError(f"state{where} is a {type(leaf).__name__} of dtype {dtype.name}, no numbers: a checkpoint cannot keep it")
        rows.append((where, tuple(shape), dtype.name, impl, pieces))

    def records() -> tuple[Leaf, ...]:
        leaves: list[Leaf] = []
        for where, shape, dtype, impl, pieces in rows:
            found: dict[tuple[Any, ...], list[int]] = {}
            stored: dict[tuple[Any, ...], Stored] = {}
            for begin, end, copy, value in pieces:
                key = begin, end, digests(value)
                found.setdefault(key, []).append(copy)
                if key not in stored:
                    name = f"a{len(leaves)}.{len(stored)}"
                    stored[key] = Stored(name=name, shape=value.shape, dtype=dtype, sha256=key[2])
                    arrays[name] = value
            records = (Piece(begin=key[0], end=key[1], copies=tuple(copies), array=stored[key]) for key, copies in found.items())
            leaves.append(Leaf(path=where, shape=shape, dtype=dtype, key_impl=impl, pieces=tuple(records)))
        return tuple(leaves)

    return records


def require_simulated(where: str, leaf: Any) -> None:
    """Raises: CheckpointError for an array on a machine of which a part is simulated: nobody has the arrays of the other part."""
    if isinstance(leaf, jax.Array) and is_of_a_part(leaf.sharding):
        raise CheckpointError(
            f"state{where} is on a machine of which a part is simulated (TILESTEP_SIMULATED_IPUS): nobody has the arrays of the other "
            "part, so that a checkpoint would not be whole; leave checkpoints out of such a dry run, or simulate all IPUs"
        )


def native(array: NDArray[Any]) -> NDArray[Any]:
    """A copy with the machine's order of bytes."""
    return np.array(array, dtype=array.dtype.newbyteorder("="))


def _bounds(index: Sequence[Any], shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    slices = [each.indices(length) for each, length in zip(index, shape, strict=True)]
    return tuple(each[0] for each in slices), tuple(each[1] for each in slices)


def require_like(leaves: Sequence[Leaf], like: Pytree, where: str) -> None:
    """Raises: CheckpointError, which names the first leaf that a tree like `like` has otherwise, or lacks."""
    wanted = {_jax.tree_util.keystr(path): leaf for path, leaf in _jax.tree_util.tree_flatten_with_path(like)[0]}
    saved = {leaf.path: leaf for leaf in leaves}
    missing, further = ["state" + path for path in wanted if path not in saved], ["state" + path for path in saved if path not in wanted]
    if missing or further:
        lacks = f"lacks {shortened(', '.join(missing), 200)}" if missing else ""
        has = f"has {shortened(', '.join(further), 200)} besides" if further else ""
        raise CheckpointError(f"{where} is of another state: it {' and '.join(filter(None, (lacks, has)))}")
    for path, leaf in wanted.items():
        found, forms = _form(saved[path].shape, saved[path].dtype, saved[path].key_impl), _forms(leaf, path)
        if found not in forms:
            raise CheckpointError(f"{where} is of another state: state{path} is {found} there, and {forms[0]} here")


def _form(shape: Sequence[int], dtype: str, impl: str = "") -> str:
    kind = f"a random key ({impl}) " if impl else ""
    return f"{kind}{dtype}[{','.join(map(str, shape))}]"


def _forms(leaf: Any, path: str) -> list[str]:
    """What fits a leaf in a checkpoint. Raises: CheckpointError for what is no array or number."""
    leaf = np.asarray(leaf) if type(leaf) in _NUMBERS else leaf
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        numbers, impl = numbers_of(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype))
        if impl:
            return [_form(numbers.shape, numbers.dtype.name, impl)]
    if not hasattr(leaf, "shape") or not is_storable(np.dtype(getattr(leaf, "dtype", object))):
        raise CheckpointError(f"like{path} is a {type(leaf).__name__}, no array or number")
    own = _form(leaf.shape, np.dtype(leaf.dtype).name)
    if isinstance(leaf, jax.Array | _jax.ShapeDtypeStruct):
        return [own]
    return [own, _form(leaf.shape, _jax.dtypes.canonicalize_dtype(leaf.dtype).name)]  # a loop makes arrays of JAX's dtypes


def whole(leaf: Leaf, pieces: Pieces) -> NDArray[Any]:
    """All values of a leaf, of the first replica. Args: pieces: gives the leaf's pieces of all processes."""
    return _cut(pieces, (0,) * len(leaf.shape), leaf.shape, 0, leaf)


def put(leaf: Leaf, like: Any, pieces: Pieces) -> Any:
    """A saved leaf as `like` is: on its devices and memory kind, or as a NumPy array or a Python number.

    Args: pieces: gives the leaf's pieces of all processes.
    """
    if type(like) in _NUMBERS:
        return type(like)(whole(leaf, pieces).item())
    if not isinstance(like, jax.Array | _jax.ShapeDtypeStruct):
        found = whole(leaf, pieces)
        return found[()] if isinstance(like, np.generic) else found
    if leaf.key_impl:
        numbers = _jax.ShapeDtypeStruct(leaf.shape, dtype_of(leaf.dtype), sharding=like.sharding)
        if not getattr(like, "committed", True):
            numbers = _jax.numpy.zeros(leaf.shape, numbers.dtype)
        return _jax.random.wrap_key_data(put(replace(leaf, key_impl=""), numbers, pieces), impl=leaf.key_impl)
    sharding = like.sharding
    if sharding is None or not getattr(like, "committed", True):
        value = _jax.device_put(whole(leaf, pieces))
    else:
        parts, devices = [], sharding.addressable_devices
        replicas: dict[Any, int] = {}
        for device, index in sharding.devices_indices_map(leaf.shape).items():  # in JAX's order of replicas
            bounds = _bounds(index, leaf.shape)
            copy = replicas[bounds] = replicas.get(bounds, -1) + 1
            if device in devices:
                part = _cut(pieces, *bounds, copy, leaf)
                parts.append(_jax.device_put(part, SingleDeviceSharding(device, memory_kind=sharding.memory_kind)))
        if not parts:
            return like  # other processes have it
        # JAX believes that an array which is made of a single one is in the device's memory, wherever its bytes are.
        is_single = isinstance(sharding, SingleDeviceSharding)
        value = parts[0] if is_single else _jax.make_array_from_single_device_arrays(leaf.shape, sharding, parts)
    if getattr(like, "weak_type", False):
        value = weak(value)
    return value


def _cut(pieces: Pieces, begin: tuple[int, ...], end: tuple[int, ...], copy: int, leaf: Leaf) -> NDArray[Any]:
    """The values from `begin` to `end`, of that replica where it was saved, else of the first."""
    known: list[tuple[Piece, Callable[[], NDArray[Any]]]] = []
    for piece, values in pieces(leaf):
        if (piece.begin, piece.end) == (begin, end) and copy in piece.copies:
            return values()
        known.append((piece, values))
    for piece, values in known:
        if (piece.begin, piece.end) == (begin, end):
            return values()
    result = np.empty(tuple(after - first for first, after in zip(begin, end, strict=True)), dtype_of(leaf.dtype))
    filled = np.zeros(result.shape, np.bool_)
    for piece, values in known:
        if 0 not in piece.copies:
            continue
        both = [(max(a, b), min(c, d)) for a, b, c, d in zip(begin, piece.begin, end, piece.end, strict=True)]
        if any(first >= after for first, after in both):
            continue
        there = tuple(slice(first - a, after - a) for (first, after), a in zip(both, begin, strict=True))
        here = tuple(slice(first - a, after - a) for (first, after), a in zip(both, piece.begin, strict=True))
        result[there] = values()[here]
        filled[there] = True
    if not filled.all():
        raise CheckpointError(f"a checkpoint has not all of state{leaf.path}: a part of another process is missing")
    return result
