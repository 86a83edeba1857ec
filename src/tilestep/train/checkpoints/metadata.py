"""What a checkpoint says beside its arrays: which array is which, its digest, where the feeds are."""

import base64
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from tilestep.errors import CheckpointError, StoredError
from tilestep.typed_json import checked, plain

FORMAT: Final = 1
_LATEST_S: Final = 10**11  # Unix time, in the year 5138
_LARGEST: Final = 10**1000  # Python reads no longer number from a text
_MOST_DIMENSIONS: Final = 32
_DEEPEST: Final = 64  # containers in each other in a feed's state


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An array of the host in a checkpoint."""

    name: str  # name of it among the arrays
    shape: tuple[int, ...]
    dtype: str
    sha256: str  # sha256 of its bytes, in hexadecimal


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a leaf that a device has."""

    begin: tuple[int, ...]  # begin, end: the first index of each axis, and the one after the last
    end: tuple[int, ...]
    copies: tuple[int, ...]  # the replicas that have these values, by JAX's `replica_id`. Replicas may differ.
    array: Stored  # its values


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A leaf of the state."""

    path: str  # where it is in the pytree, as `jax.tree_util.keystr` has it
    shape: tuple[int, ...]  # shape, dtype: of the whole array; of a random key's numbers
    dtype: str
    key_impl: str  # key impl of a random key, else ""
    pieces: tuple[Piece, ...]  # those of this process


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What one process has saved at one step."""

    format: int  # format of checkpoints
    step: int  # steps or updates done
    saved_at: int  # Unix time in seconds
    versions: tuple[tuple[str, str], ...]  # versions of tilestep, JAX and Python
    process: int  # process, processes: whose part it is, and of how many
    processes: int
    program: tuple[tuple[str, str], ...]  # facts on which an exact continuation depends, as (name, value)
    leaves: tuple[Leaf, ...]  # leaves of the state, in the pytree's order
    infeeds: str  # infeeds, outfeeds: states of queues by name, as JSON; arrays in them are `Stored` in `feed_arrays`
    outfeeds: str
    feed_arrays: tuple[Stored, ...]  # arrays in the queues' states

    @property
    def arrays(self) -> list[tuple[Stored, str]]:
        """All arrays, with what each is for messages."""
        return [
            *((piece.array, f"state{leaf.path}") for leaf in self.leaves for piece in leaf.pieces),
            *((array, "a state of a feed") for array in self.feed_arrays),
        ]


_CLASSES: Final = {cls.__name__: cls for cls in (Stored, Piece, Leaf, Metadata)}


def size_bytes(array: Stored) -> int:
    """Of an array."""
    return math.prod(array.shape) * dtype_of(array.dtype).itemsize


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of NumPy's or JAX's numbers."""
    return dtype.kind in "biufc" or (dtype.names is None and hasattr(ml_dtypes, dtype.name))


def dtype_of(name: str) -> np.dtype[Any]:
    """A dtype of NumPy or JAX by its name. Raises: CheckpointError for another text."""
    try:
        dtype = np.dtype(getattr(ml_dtypes, name) if name.isidentifier() and hasattr(ml_dtypes, name) else name)
    except (TypeError, ValueError, SyntaxError):
        raise CheckpointError(f"a checkpoint names the dtype {name[:40]!r}, which there is none of") from None
    if not is_storable(dtype) or dtype.name != name:
        raise CheckpointError(f"a checkpoint names the dtype {name[:40]!r}, which is none of numbers")
    return dtype


def as_json(metadata: Metadata) -> dict[str, Any]:
    """What `read` takes."""
    return {"tilestep_checkpoint": FORMAT, "record": plain(metadata)}


def read(value: Any, where: str) -> Metadata:
    """The metadata that were written. Raises: CheckpointError, which names the file, for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("tilestep_checkpoint"), int):
        raise CheckpointError(f"{where} is no checkpoint of tilestep.train: its metadata do not say so")
    if value["tilestep_checkpoint"] != FORMAT:
        raise CheckpointError(
            f"{where} has format {value['tilestep_checkpoint']}, and this version of tilestep reads format {FORMAT}: install the version "
            "that wrote it"
        )
    try:
        _require_sound(metadata := checked(value.get("record"), Metadata, _CLASSES, where))
    except StoredError as error:
        raise CheckpointError(str(error)) from None
    except CheckpointError as error:
        raise CheckpointError(f"{where} is damaged: {error}") from None
    return metadata


def _require_sound(metadata: Metadata) -> None:
    """Raises: CheckpointError for what no checkpoint says."""
    if not (0 <= metadata.saved_at <= _LATEST_S and metadata.processes >= 1 and 0 <= metadata.process < metadata.processes):
        raise CheckpointError("it has a time or a number of processes that there is none of")
    arrays = [array for array, _ in metadata.arrays]
    if len({array.name for array in arrays}) != len(arrays):
        raise CheckpointError("two of its arrays have one name")
    texts = (*metadata.program, *metadata.versions, *((leaf.path, leaf.key_impl) for leaf in metadata.leaves))
    if not all(text.isprintable() for pair in texts for text in pair):
        raise CheckpointError("it has a text that cannot be printed")
    for array in arrays:
        if len(array.shape) > _MOST_DIMENSIONS or min(array.shape, default=0) < 0 or size_bytes(array) > sys.maxsize:
            raise CheckpointError("it has an array of a shape that there is none of")
    for leaf in metadata.leaves:
        for piece in leaf.pieces:
            bounds = list(zip(piece.begin, piece.end, leaf.shape, strict=False))
            if not (
                len(piece.begin) == len(piece.end) == len(leaf.shape)
                and all(0 <= begin <= end <= length for begin, end, length in bounds)
                and piece.array.shape == tuple(end - begin for begin, end, _ in bounds)
                and piece.array.dtype == leaf.dtype
            ):
                raise CheckpointError(f"a part of state{leaf.path} is not one of it")
    for what, text in (("infeeds", metadata.infeeds), ("outfeeds", metadata.outfeeds)):
        states_of(text, what)


def states_of(text: str, what: str) -> dict[str, Any]:
    """Queues' states by name, as JSON. Raises: CheckpointError for other text."""
    try:
        states = json.loads(text)
    except (ValueError, RecursionError):
        states = None
    if not isinstance(states, dict):
        raise CheckpointError(f"its {what} are no JSON of states")
    return states


# A feed's state is JSON: lists and mappings as they are, and what JSON lacks as a mapping with one of these keys.
_ARRAY, _BYTES, _TUPLE, _DICT = "$array", "$bytes", "$tuple", "$dict"


def packed(value: Any, where: str, keep: Any, depth: int = 0) -> Any:
    """A state as JSON.

    Args: where: it is, for messages. keep: takes an array and returns its name.
    Raises: CheckpointError for what is neither JSON, nor bytes, nor an array.
    """
    if depth > _DEEPEST:
        raise CheckpointError(f"{where} has more than {_DEEPEST} containers in each other")
    if value is None or type(value) in (bool, float, str):
        return value
    if type(value) is int and abs(value) < _LARGEST:
        return value
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if type(value) is list or type(value) is tuple:
        items = [packed(item, f"{where}[{index}]", keep, depth + 1) for index, item in enumerate(value)]
        return items if type(value) is list else {_TUPLE: items}
    if type(value) is dict:
        if odd := next((key for key in value if type(key) not in (bool, int, float, str)), None):
            raise CheckpointError(f"{where} has a {type(odd).__name__} as a key: a checkpoint keeps texts and numbers as keys")
        items = [[packed(key, where, keep, depth + 1), packed(item, f"{where}[{key!r}]", keep, depth + 1)] for key, item in value.items()]
        return {_DICT: items}
    if hasattr(value, "__array__") and not hasattr(value, "mask") and is_storable(getattr(value, "dtype", np.dtype(object))):
        return {_ARRAY: keep(np.asarray(value))}
    raise CheckpointError(
        f"{where} is a {type(value).__name__}: a checkpoint keeps numbers, texts, bytes, arrays, and lists, tuples and dicts of them"
    )


def unpacked(value: Any, where: str, arrays: Mapping[str, Callable[[], Any]]) -> Any:
    """The state that was packed. Args: arrays: what reads each, by name. Raises: CheckpointError for other JSON."""
    try:
        return _unpacked(value, arrays)
    except CheckpointError:  # a damaged array raises it
        raise
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{where} has a state of a form that no checkpoint has, or lacks an array of it") from None


def _unpacked(value: Any, arrays: Mapping[str, Callable[[], Any]], depth: int = 0) -> Any:
    if depth > 2 * _DEEPEST + 1:  # a dictionary takes two lists
        raise ValueError("containers in each other")
    if isinstance(value, list):
        return [_unpacked(item, arrays, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == _ARRAY:
        return arrays[held]()
    if kind == _BYTES:
        return base64.b64decode(held, validate=True)
    items = _unpacked([*held], arrays, depth)
    return {_TUPLE: tuple, _DICT: dict}[kind](items)
