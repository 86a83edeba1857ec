"""Chunks of an infeed: a loop's plan of them, a chunk that is being gathered, and how its arrays get to their devices."""

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, final

import jax
from jax.sharding import Sharding, SingleDeviceSharding
from numpy.typing import NDArray

from tilestep import hints
from tilestep.train.feeds.contiguous import ContiguousElements
from tilestep.train.feeds.random_keys import keys_of
from tilestep.train.jax_private import device_put
from tilestep.train.simulated import is_simulated_in_part, put_shards
from tilestep.train.untyped import Device, Pytree, Structure
from tilestep.train.untyped import jax as _jax

Arrays = list[NDArray[Any]]  # a list with an array for each leaf, elements along their first axis

DEFAULT_CHUNK: Final = 64  # steps


@dataclass(frozen=True, kw_only=True)
class ChunkPlan:
    """The chunks that a loop takes: `chunks` of `chunk_steps` steps, then one of `rest_steps` if that is not 0, and so on."""

    chunk_steps: int  # steps of a chunk
    chunks: int  # how many of them
    rest_steps: int  # steps of the last chunk; 0: there is none
    sharding: Pytree  # sharding of the stacked elements: a tree of shardings that is a prefix of an element's. None: JAX's default device.
    default_device: Device | str | None  # JAX's default device of the loop's thread, for `sharding` None
    x64: bool  # whether 64-bit numbers keep 64 bits
    in_place: bool  # whether the host's memory is the device's, so that programs take NumPy arrays over
    partial: bool  # whether the dataset's last elements are a chunk of their own, filled up with copies of its first element

    @property
    def period(self) -> int:
        """Chunks until the plan begins again."""
        return self.chunks + (self.rest_steps > 0)

    def steps(self, number: int) -> int:
        """Steps of chunk `number` from 0 on."""
        return self.chunk_steps if number % self.period < self.chunks else self.rest_steps


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some elements on their devices."""

    on_device: Pytree  # the pytree of elements, stacked along their first axis
    on_host: Arrays  # its leaves in the host's memory
    elements: int  # elements of the dataset; further ones are copies that fill the chunk up
    uploads: list[Any] | None  # for `hints.upload` when the loop takes the chunk; None: nothing was uploaded


@final
class Filling:
    """A chunk that is being gathered.

    Attributes:
        plan, number: of which it is a chunk, counted from 0.
        capacity: elements of the full chunk.
        arrays: one for each leaf, [capacity, ...].
        run: its elements, as long as they need no copy; then `materialize` makes `arrays`.
        count: elements that are there.
        is_wanted: False once its elements have been taken back, or the feeder is closed.
    """

    __slots__ = ("arrays", "capacity", "count", "is_wanted", "number", "plan", "run")

    def __init__(self, plan: ChunkPlan, number: int, capacity: int) -> None:
        self.plan, self.number, self.capacity = plan, number, capacity
        self.arrays: Arrays = []
        self.run: ContiguousElements | None = None
        self.count = 0
        self.is_wanted = True

    def materialize(self) -> None:
        """Makes `arrays` of the run."""
        if self.run is not None:
            if self.count:
                self.arrays = self.run.arrays()
            self.run = None

    def elements(self) -> Arrays:
        """The elements that are there."""
        self.materialize()
        return [array[: self.count] for array in self.arrays]


def on_devices(plan: ChunkPlan, structure: Structure, stacked: Arrays, generators: Sequence[str]) -> tuple[Pytree, list[Any] | None]:
    """A chunk's arrays with the plan's sharding.

    Args: generators: of each array's random keys, '' for other arrays.
    Returns: (their tree, the argument for `hints.upload`; None if nothing was uploaded).
    Raises: Exception: JAX's, from putting them on devices.
    """
    placed, uploads = _placed(plan, structure, stacked)
    if any(generators):
        with _thread_settings(plan):
            placed = _jax.tree.unflatten(structure, keys_of(_jax.tree.leaves(placed), generators))
    return placed, uploads


def _placed(plan: ChunkPlan, structure: Structure, stacked: Arrays) -> tuple[Pytree, list[Any] | None]:
    elements = _jax.tree.unflatten(structure, stacked)
    if plan.in_place:
        return elements, None
    with _thread_settings(plan), hints.uploads_kept() as uploads:
        if type(plan.sharding) is SingleDeviceSharding and plan.sharding.is_fully_addressable:
            return _jax.tree.unflatten(structure, device_put.put(stacked, plan.sharding)), uploads
        return _put(elements, plan.sharding), uploads


def _put(elements: Pytree, sharding: Pytree) -> Pytree:
    """Stacked elements on their devices. Of several processes' devices this process fills its own, because it has only their elements."""
    shardings = _jax.tree.leaves(sharding)
    if all(leaf.is_fully_addressable for leaf in shardings):
        return _jax.device_put(elements, sharding)

    def put(sharding: Sharding, part: Pytree) -> Pytree:
        if is_simulated_in_part(sharding):
            return put_shards(part, sharding)
        return _jax.tree.map(lambda array: _jax.make_array_from_process_local_data(sharding, array), part)

    return _jax.tree.map(put, sharding, elements)


def _thread_settings(plan: ChunkPlan) -> AbstractContextManager[object]:
    """Gives this thread JAX's settings of the loop's thread."""
    stack = contextlib.ExitStack()
    if jax.config.jax_enable_x64 != plan.x64:  # pyrefly: ignore[missing-attribute]
        stack.enter_context(jax.enable_x64(plan.x64))
    if jax.config.jax_default_device != plan.default_device:  # pyrefly: ignore[missing-attribute]
        stack.enter_context(jax.default_device(plan.default_device))
    return stack
