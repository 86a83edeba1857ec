"""Chunks of an infeed: how a loop wants them, what is being gathered for one, and how it gets to its devices."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, final

import jax
from jax.sharding import SingleDeviceSharding
from numpy.typing import NDArray

from tilestep import hints
from tilestep.train.feeds.contiguous import Run
from tilestep.train.jax_private import device_put
from tilestep.train.untyped import jax as _jax

Arrays = list[NDArray[Any]]  # a list with an array for each leaf, elements along their first axis

DEFAULT_CHUNK: Final = 64  # steps


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a loop wants its elements, again and again: `chunks` of `chunk_steps` steps, then one of `rest_steps` if that is not 0.

    Attributes:
        chunk_steps: steps of a chunk.
        chunks: how many of them.
        rest_steps: steps of the last chunk; 0: there is none.
        place: where they go: None is JAX's default device; else a tree of shardings, a prefix of an element's.
        default_device: JAX's default device of the loop's thread, for `place` None.
        x64: whether 64-bit numbers stay so.
        in_place: whether the host's memory is the device's, and programs take over what lies there.
        partial: whether the dataset's last elements are a chunk of their own, filled up with copies of its first element.
    """

    chunk_steps: int
    chunks: int
    rest_steps: int
    place: Any
    default_device: Any
    x64: bool
    in_place: bool
    partial: bool

    @property
    def period(self) -> int:
        """Chunks until the plan begins again."""
        return self.chunks + (self.rest_steps > 0)

    def steps(self, number: int) -> int:
        """Steps of chunk `number` from 0 on."""
        return self.chunk_steps if number % self.period < self.chunks else self.rest_steps


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some elements on their devices.

    Attributes:
        on_device: the pytree of stacked elements.
        on_host: the same in the host's memory.
        elements: how many of them are real.
        uploads: what an emulator is told when the loop takes it (`hints.upload`); None: nothing was uploaded.
    """

    on_device: Any
    on_host: Arrays
    elements: int
    uploads: list[Any] | None


@final
class Filling:
    """A chunk that is being gathered. Attributes: run: of its elements as long as they need no copy; then `settle` gives it arrays."""

    __slots__ = ("arrays", "capacity", "count", "number", "plan", "run")

    def __init__(self, plan: Plan, number: int, capacity: int) -> None:
        self.plan, self.number, self.capacity = plan, number, capacity
        self.arrays: Arrays = []
        self.run: Run | None = None
        self.count = 0  # elements that are there

    def settle(self) -> None:
        """What is there is in `arrays`."""
        if self.run is not None:
            if self.count:
                self.arrays = self.run.arrays()
            self.run = None


def on_devices(plan: Plan, structure: Any, stacked: Arrays) -> tuple[Any, list[Any] | None]:
    """A chunk's arrays where the plan wants them.

    Returns: (their tree, what an emulator is to be told of the upload; None if nothing was uploaded).
    Raises: what JAX raises when it puts them there.
    """
    elements = _jax.tree.unflatten(structure, stacked)
    if plan.in_place:
        return elements, None
    with _thread_settings(plan), hints.uploads_kept() as uploads:
        if type(plan.place) is SingleDeviceSharding and plan.place.is_fully_addressable:
            return _jax.tree.unflatten(structure, device_put.put(stacked, plan.place)), uploads
        return _put(elements, plan.place), uploads


def _put(elements: Any, place: Any) -> Any:
    """Stacked elements on their devices; of devices of several processes this one fills its own, whose elements alone it has."""
    shardings = _jax.tree.leaves(place)
    if all(sharding.is_fully_addressable for sharding in shardings):
        return _jax.device_put(elements, place)

    def put(sharding: Any, part: Any) -> Any:
        return _jax.tree.map(lambda array: _jax.make_array_from_process_local_data(sharding, array), part)

    return _jax.tree.map(put, place, elements)


def _thread_settings(plan: Plan) -> AbstractContextManager[object]:
    """JAX's settings in the loop's thread, where they are not those of this one."""
    stack = contextlib.ExitStack()
    if jax.config.jax_enable_x64 != plan.x64:  # pyright: ignore[reportAttributeAccessIssue]
        stack.enter_context(jax.enable_x64(plan.x64))
    if jax.config.jax_default_device != plan.default_device:  # pyright: ignore[reportAttributeAccessIssue]
        stack.enter_context(jax.default_device(plan.default_device))
    return stack
