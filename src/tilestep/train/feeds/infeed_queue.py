"""A training loop's data: elements of a dataset, put on their devices ahead of the loop."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, TypeGuard, final

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from tilestep.errors import DatasetError, QueueError
from tilestep.messages import shown
from tilestep.train.ctrl_c import CtrlC, whole
from tilestep.train.datasets import Dataset, iterator_maker
from tilestep.train.feeds.chunks import Chunk, ChunkPlan
from tilestep.train.feeds.passes import Start
from tilestep.train.feeds.prefetch import Feeder
from tilestep.train.feeds.staging import StagingMemory
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import require_bools, require_tree
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import Device, Pytree
from tilestep.train.untyped import jax as _jax

_MOST_REPLICAS: Final = 2**31 - 1
_HOW_SHARDING: Final = "it must be a jax.Device, a NamedSharding or a SingleDeviceSharding, or a tree of them"
MOST_AHEAD: Final = 255  # chunks; the bound of TensorFlow for the IPU


@final
class InfeedQueue:
    """Feeds the elements of a dataset to `repeat` and `while_loop`, in order, each one once.

    A background thread takes elements from the dataset, stacks those of a chunk, and puts chunks on their devices ahead of the loop.
    It starts with the first loop. A queue feeds one loop at a time; the next loop goes on with the first element that is left. A loop
    raises DatasetError for an element unlike the first one, and for a whole number that does not fit in 32 bits.

    Args:
        dataset: an iterable of pytrees of arrays (anything that `np.asarray` takes) and of random keys (`jax.random.key`), or a callable
            without arguments that returns one.
            Every element has the first one's structure, shapes and dtypes. 64-bit numbers become 32-bit ones unless `jax_enable_x64` is set
            where the queue's first loop begins.
        prefetch_depth: chunks that are made ahead, 1 to 255.
        sharding: where elements go: a device, a sharding of one element (of one step, if `replicas` is given), or a tree of such that is a
            prefix of an element's. None: to where the loop's carry is, replicated over its mesh if it is on several devices.
        replicas: successive elements that make one step: element `step * replicas + r` is replica r's. Each array [n, ...] then has a
            leading axis of replicas, [replicas, n, ...], which `sharding` may divide. With `sharding` None it is divided over the loop's
            replicas. Replicas in place of their number: with several processes a step takes one element for each replica of this process
            (`Replicas.share`). None: a step is one element, without such an axis.
        copy: False is a promise that nothing writes to the arrays of an element once it has come from the dataset. The queue then does not
            copy a large element (from 64 KiB on) that is a chunk by itself (`chunk=1`), dense and at a multiple of 64 bytes. It never
            copies such an element in read-only memory (`np.load(file, mmap_mode="r")`, tf.data).

    Raises:
        TypeError: when the dataset, a number or the sharding is of the wrong kind.
        ValueError: when a number is out of its bounds.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        prefetch_depth: int = 3,
        sharding: Pytree = None,
        replicas: int | Replicas | None = None,
        copy: bool = True,
    ) -> None:
        self._make_iterator: Callable[[], Iterator[Pytree]] = iterator_maker(dataset)
        self._one_pass = isinstance(dataset, Iterator)
        self._depth = whole_number("prefetch_depth", prefetch_depth, least=1, most=MOST_AHEAD)
        self.replicas: Final = (
            replicas
            if replicas is None or isinstance(replicas, Replicas)
            else whole_number("replicas", replicas, least=1, most=_MOST_REPLICAS)
        )
        self._replicas = len(self.replicas.local) if isinstance(self.replicas, Replicas) else self.replicas
        self._sharding = None if sharding is None else _shardings(sharding)
        require_bools(copy=copy)
        self._copy = copy
        self._lock = threading.Lock()
        self._user: str | None = None
        self._planned: tuple[tuple[Any, ...], ChunkPlan] | None = None  # (the last loop's wants, the chunks that follow)
        self._closed = False
        self._staging = StagingMemory()
        self._feeder = self._start(Start())
        self._finalizer = weakref.finalize(self, _close, weakref.ref(self._feeder))

    def __enter__(self) -> InfeedQueue:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._user or "idle"
        return f"<InfeedQueue: {self.consumed:,} elements consumed, {self._feeder.available:,} waiting, {state}>"

    @property
    def consumed(self) -> int:
        """Elements of the dataset that loops have used so far."""
        return self._feeder.consumed

    @property
    def elements_per_step(self) -> int:
        """How many elements one step takes: the number of replicas, of this process where there are several."""
        return self._replicas or 1

    def close(self) -> None:
        """Ends the thread; elements that were made ahead are lost. Again, it does nothing."""
        self._closed = True
        self._finalizer()

    @whole
    def state(self) -> dict[str, Any]:
        """The position as plain data, to be saved beside the carry: after the last element that a loop has used.

        Returns:
            {"elements": the number of elements used}. For datasets whose iterator has `get_state` and `set_state` (grain's
            have), or `state_dict` and `load_state_dict`, also "dataset", the
            iterator's own state at some element, and "skip", the number of elements used from there on.

        Raises:
            QueueError: while a loop uses the queue.
        """
        with self._reserved("state()"):
            return self.position()

    @whole
    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes to a position that `state()` gave, of this queue or of another one with an equal dataset.

        A dataset whose iterator knows its place goes there itself. Any other begins anew, and its first elements are taken and dropped.

        Args:
            state: a result of `state()`.

        Raises:
            QueueError: while a loop uses the queue, when it is closed, or when the dataset is an iterator whose one pass has begun.
            TypeError: when `state` is no mapping.
            ValueError: when `state` is no state of an InfeedQueue.
        """
        with self._reserved("restore()"):
            start = _start_of(state)
            if self._one_pass and self._feeder.has_begun:
                raise QueueError(
                    "the dataset is an iterator whose one pass has begun: it cannot go back; give the InfeedQueue an iterable that begins "
                    "anew each time, or a callable that returns one"
                )
            self._finalizer.detach()
            self._feeder.close()
            self._feeder = self._start(start)
            self._finalizer = weakref.finalize(self, _close, weakref.ref(self._feeder))

    def _start(self, start: Start) -> Feeder:
        return Feeder(
            self._make_iterator,
            start,
            depth=self._depth,
            replicas=self._replicas,
            staging=self._staging,
            copy=self._copy,
        )

    @whole
    def reserve(self, user: str) -> None:
        """One loop begins to use the queue. Raises: QueueError if it is closed, or another one does."""
        with self._lock:
            if self._closed:
                raise QueueError("the InfeedQueue is closed: make another one")
            if self._user is not None:
                raise QueueError(
                    f"{user} cannot use the InfeedQueue while {self._user} does: give each loop that runs at once a queue of its own"
                )
            self._user = user

    @whole
    def release(self) -> None:
        """The loop has ended. What it holds and has not used comes next again."""
        try:
            self._feeder.give_back_held()
        finally:
            with self._lock:
                self._user = None

    @whole
    def begin(self, *, chunk_steps: int, steps: int | None, carry_sharding: Sharding | None, over: Replicas | None = None) -> None:
        """A loop that has reserved the queue says how it wants its elements.

        Args:
            chunk_steps: steps of a chunk.
            steps: how many it needs; None: as many as there are, the last ones in a chunk that is not full.
            carry_sharding: where its carry is, if that is committed to a place.
            over: its replicas.
        """
        config: Any = jax.config
        if over is None and isinstance(self.replicas, Replicas):
            over = self.replicas
        wanted = (chunk_steps, steps, carry_sharding, over, config.jax_default_device, bool(config.jax_enable_x64))
        if self._planned is None or self._planned[0] != wanted:
            self._planned = wanted, self._plan(*wanted)
        self._feeder.begin(self._planned[1])

    def _plan(
        self,
        chunk_steps: int,
        steps: int | None,
        carry_sharding: Sharding | None,
        over: Replicas | None,
        default_device: Device | str | None,
        x64: bool,
    ) -> ChunkPlan:
        chunks, rest = (1, 0) if steps is None else divmod(steps, chunk_steps)
        sharding = self._sharding
        if sharding is None:
            sharding = _beside(carry_sharding) if over is None or self.replicas is None else _chunk_sharding(over.divided)
        devices = carry_sharding.device_set if carry_sharding is not None else () if default_device is not None else jax.devices()[:1]
        return ChunkPlan(
            chunk_steps=chunk_steps,
            chunks=chunks,
            rest_steps=rest,
            sharding=sharding,
            default_device=default_device,
            x64=x64,
            in_place=self._sharding is None and over is None and [device.platform for device in devices] == ["cpu"],
            partial=steps is None,
        )

    @whole
    def take(self, check: Callable[[], None] | None = None, *, wake: bool = True, hold: bool = False) -> Chunk:
        """The next chunk of a loop that has begun; waits for it.

        Args:
            check: called again and again while it waits. What it raises ends the wait.
            wake: whether the thread goes on right now; else at `wake`, which a loop calls when it has started the chunk's program: before
                that the thread would only be in its way.
            hold: whether its elements count as consumed only when `use_held` says that all that were taken have been used.
        Raises: what the dataset raised; DatasetError if it is over.
        """
        try:
            return self._feeder.take(check, wake=wake, hold=hold)
        except StopIteration:
            used, left = self._feeder.consumed, self._feeder.available
            rest = f", {left:,} after them are left for a loop that needs no more" if left else ""
            if self._feeder.raised is not None:
                raise DatasetError(
                    f"the dataset's iterator had raised {self._feeder.raised}, and was over when it was asked again, after {used + left:,} "
                    f"elements, as a generator is that has raised: the loop needs more; {used:,} are used{rest}. "
                    "infeed.restore(infeed.state()) begins a dataset anew and goes there; an iterator with a __next__ of its own can go on"
                ) from None
            raise DatasetError(
                f"the dataset ended after {used + left:,} elements: the loop needs more; {used:,} are used{rest}. Let the dataset repeat, "
                "or run fewer steps"
            ) from None

    @whole
    def position(self) -> dict[str, Any]:
        """As `state()`, for the loop that uses the queue."""
        start = self._feeder.next_start()
        if start.dataset_state is None:
            return {"elements": start.elements}
        return {"elements": start.elements, "skip": start.skip, "dataset": start.dataset_state}

    @whole
    def wake(self) -> None:
        """The thread goes on."""
        self._feeder.wake()

    @whole
    def use_held(self) -> None:
        """All that the loop holds has been used."""
        self._feeder.use_held()

    @whole
    def give_back(self, chunk: Chunk, used: int) -> None:
        """Of the chunk taken last only `used` elements were used."""
        self._feeder.give_back(chunk, used)

    def _reserved(self, user: str) -> _Reserved:
        return _Reserved(self, user)


@final
class _Reserved:
    """A queue is in use inside. A Ctrl-C comes at the end."""

    def __init__(self, queue: InfeedQueue, user: str) -> None:
        self._queue, self._user, self._ctrl_c = queue, user, CtrlC()

    def __enter__(self) -> None:
        self._ctrl_c.begin()
        try:
            self._queue.reserve(self._user)
        except BaseException:
            self._ctrl_c.end()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._queue.release()
        finally:
            has_come = self._ctrl_c.end()
        if has_come:
            raise KeyboardInterrupt


def _shardings(sharding: Pytree) -> Pytree:
    """Where chunks go, as a tree. Raises: TypeError for a tree without any place, or with something else."""
    require_tree("sharding", sharding)
    found = _jax.tree.map(_chunk_sharding, sharding)
    if not _jax.tree.leaves(found):
        raise TypeError(f"sharding is {shown(sharding)}, which has no place for anything: {_HOW_SHARDING}; None is the place of the carry")
    return found


def _chunk_sharding(sharding: object) -> Sharding:
    """Where chunks go if elements go to `sharding`: an axis of steps comes first, and is not divided."""
    if isinstance(sharding, NamedSharding):
        spec = PartitionSpec(None, *sharding.spec)
        return NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)
    if isinstance(sharding, SingleDeviceSharding):
        return sharding
    if isinstance(sharding, jax.Device):
        return SingleDeviceSharding(sharding)
    raise TypeError(f"sharding has a {type(sharding).__name__}: {_HOW_SHARDING}")


def _beside(carry_sharding: Sharding | None) -> Sharding | None:
    """Where chunks go if only the place of the carry is known."""
    if carry_sharding is None or len(carry_sharding.device_set) == 1:
        return None if carry_sharding is None else SingleDeviceSharding(next(iter(carry_sharding.device_set)))
    if isinstance(carry_sharding, NamedSharding):
        return NamedSharding(carry_sharding.mesh, PartitionSpec())
    raise TypeError(
        f"the carry has a {type(carry_sharding).__name__}, which does not say where elements go: give the InfeedQueue a "
        "sharding of elements"
    )


def _close(feeder: weakref.ref[Feeder]) -> None:
    """Ends a feeder's thread, which keeps it alive; without one there is nothing to end."""
    if (found := feeder()) is not None:
        found.close()


def _start_of(state: Mapping[str, Any]) -> Start:
    if not isinstance(state, Mapping):  # a caller's mistake
        raise TypeError(f"state is a {type(state).__name__}: it must be a mapping as InfeedQueue.state() returns it")
    elements, skip = state.get("elements"), state.get("skip", 0)
    if not _is_count(elements) or not _is_count(skip) or set(state) - {"elements", "skip", "dataset"}:
        raise ValueError(f"{shown(dict(state))} is no state of an InfeedQueue: it must have 'elements', as state() returns it")
    if "dataset" in state:
        return Start(elements=elements, skip=skip, dataset_state=state["dataset"])
    return Start(elements=elements, skip=elements)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
