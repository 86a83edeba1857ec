"""One call of a loop: it reserves the feeds, records the steps done, and reports them when an exception ends the loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, final

import jax

from tilestep import hints
from tilestep.errors import LoopInterrupt, NotFiniteError, QueueError
from tilestep.train.checkpoints.checkpoints import SavingLoop
from tilestep.train.ctrl_c import CtrlC, whole
from tilestep.train.feeds.chunks import Chunk
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.loop.effective_batch import UpdateSize
from tilestep.train.loop.finite import first_wrong
from tilestep.train.loop.program_cache import FIRST_IN_FLIGHT, LoopPrograms
from tilestep.train.patience import Aloud
from tilestep.train.resume import tell_loop_state
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_MOST, _LEAST = 16, 2  # chunks
_TARGET_WAIT_WALL_S: Final = 0.05  # between two waits for the device
_MOST_IN_FLIGHT_BYTES: Final = 2**28  # unless FIRST_IN_FLIGHT chunks have more


@final
class ChunksInFlight:
    """The chunks that a loop has started since it last waited for the device.

    Each wait measures how long a chunk takes, and sets `loop.in_flight` so that waits are about `_TARGET_WAIT_WALL_S` apart.
    """

    __slots__ = ("_count", "_last_wait", "_loop")

    def __init__(self, loop: LoopPrograms) -> None:
        self._loop, self._count = loop, 0
        self._last_wait: float | None = None  # time.perf_counter(), s

    def add(self) -> bool:
        """Counts a chunk that has been started. Returns: whether the loop must wait for the device now."""
        self._count += 1
        return self._count >= self._loop.in_flight

    def waited(self, chunk: Chunk | None) -> None:
        """The device has finished all chunks. Args: chunk: elements of the last one."""
        now = time.perf_counter()
        if self._last_wait is not None:
            most = _MOST
            if chunk is not None:
                size_bytes = sum(leaf.nbytes for leaf in _jax.tree.leaves(chunk.on_device))
                most = min(most, max(FIRST_IN_FLIGHT, _MOST_IN_FLIGHT_BYTES // max(1, size_bytes)))
            chunk_wall_s = (now - self._last_wait) / self._count
            self._loop.in_flight = min(most, max(_LEAST, int(_TARGET_WAIT_WALL_S / chunk_wall_s)))
        self._last_wait, self._count = now, 0


@final
class Session:
    """One call of a loop. A `with` block holds its feeds, and keeps a Ctrl-C back until the loop can say what it has done.

    Args:
        name: of the loop, for messages and the progress bar.
        loop: its programs.
        carry: before the first step.
        total: steps, if known.
        progress: whether to show a progress bar.
        checkpoints: what saves the carry where a chunk ends.
    Attributes:
        reached: (the newest carry, the number of steps done for it). The loop reads it after the block without a call, because a Ctrl-C
            that comes in a call would lose the carry (`CtrlC.end`).
    """

    def __init__(
        self,
        name: str,
        loop: LoopPrograms,
        carry: Pytree,
        infeed: InfeedQueue | None,
        outfeed: OutfeedQueue | None,
        *,
        total: int | None,
        progress: bool,
        checkpoints: SavingLoop | None = None,
    ) -> None:
        self._checkpoints = checkpoints
        self._before = 0 if checkpoints is None else checkpoints.done  # steps of the same loop, before this process's
        self.reached: tuple[Pytree, int] = carry, 0  # one assignment: no Ctrl-C comes between a carry and its number of steps
        self._name, self._infeed, self._outfeed = name, infeed, outfeed
        self._total, self._progress = total, progress
        self._is_first = True  # no chunk has been started
        self._in_flight = ChunksInFlight(loop)
        self._ctrl_c = CtrlC()
        self._bar: AbstractContextManager[tuple[Callable[[int], None], Callable[[str], None]]] | None = None
        self._set_bar: tuple[Callable[[int], None], Callable[[str], None]] | None = None  # (the steps done, the name)
        self._is_feeding = False  # an exception now comes from a feed or the dataset
        self._taken: Chunk | None = None  # elements of the chunk that is about to start
        self._update: UpdateSize | None = None

    @property
    def carry(self) -> Pytree:
        """The newest carry."""
        return self.reached[0]

    @property
    def steps(self) -> int:
        """The number of steps done for the newest carry."""
        return self.reached[1]

    @whole
    def __enter__(self) -> Session:
        self._ctrl_c.begin()
        try:
            self._reserve()
            if self._progress:
                from tilestep.train.progress_bar import shown  # rich takes a while to import

                self._bar = shown(self._name, self._total)
                self._set_bar = self._bar.__enter__()
        except BaseException:
            self._ctrl_c.end()
            raise
        return self

    def _reserve(self) -> None:
        if self._infeed is not None:
            self._infeed.reserve(self._name)
        if self._outfeed is not None:
            try:
                self._outfeed.reserve(self._name)
            except QueueError:
                if self._infeed is not None:
                    self._infeed.release()
                raise

    @whole
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        interrupt: LoopInterrupt | None = None
        try:
            self._release(error)
            if self._bar is not None:
                self._bar.__exit__(kind, error, trace)
            if self._update is not None and self.steps:
                self._update.ended(self.carry, self.steps)
            if self._ctrl_c.has_come or isinstance(error, KeyboardInterrupt):
                interrupt = self._interrupt()
        finally:
            came_last = self._ctrl_c.end()
        if interrupt is not None:
            raise interrupt from error
        if came_last and not isinstance(error, KeyboardInterrupt):
            self._raise_late(error)
        if error is not None and (self._is_feeding or self.steps) and not isinstance(error, KeyboardInterrupt) and self._has_carry():
            used = f". The infeed's dataset has had {self._infeed.consumed:,} elements used" if self._infeed is not None else ""
            self._tell_state(error, used)

    def _release(self, error: BaseException | None) -> None:
        try:
            if self._infeed is not None:
                if self._taken is not None and (isinstance(error, Exception) or not self._is_lost()):  # the program did not start
                    self._infeed.give_back(self._taken, 0)
                self._infeed.release()
        finally:
            if self._outfeed is not None:
                self._outfeed.release()

    def show_update(self, update: UpdateSize | None) -> None:
        """Sets the size of an update, which the progress bar shows."""
        self._update = update
        if self._set_bar is not None and update is not None:
            self._set_bar[1](f"{self._name}, {update}")

    @whole
    def elements(self, steps: int) -> Chunk | None:
        """Waits for what the next chunk of `steps` steps needs: its elements, and room in the outfeed.

        Returns: the elements; None without an infeed.
        Raises: KeyboardInterrupt if a Ctrl-C has come. What `InfeedQueue.take` and `OutfeedQueue.make_room` raise.
        """
        self._ctrl_c.check()
        self._is_feeding = True
        if self._outfeed is not None:
            self._outfeed.make_room(steps, self._ctrl_c.check)
        if self._infeed is not None:
            self._taken = self._infeed.take(self._ctrl_c.check, wake=False)
        self._is_feeding = False
        return self._taken

    def will_enqueue(self, specs: Callable[[], Pytree]) -> None:
        """The first chunk is about to start. Args: specs: returns the shapes and dtypes of its stacked values for the outfeed."""
        assert self._outfeed is not None
        self._is_feeding = True
        self._outfeed.require_alike(specs)
        self._is_feeding = False

    def require_finite(self, found: jax.Array) -> None:
        """Waits for a chunk that has been started.

        Args: found: see `finite.first_wrong`.
        Raises: NotFiniteError; the chunk is not done then.
        """
        with Aloud(self.steps_of_device):
            wrong = first_wrong(self.carry, found)
        if wrong is not None:
            self._is_feeding = True
            raise NotFiniteError(name=self._name, step=self._before + self.steps + wrong[0], path=wrong[1])

    def steps_of_device(self) -> str:
        """What it waits for, when it does so for the device."""
        return f"the device, which has not done all steps that {self._name} has started"

    def did(self, steps: int, carry: Pytree, values: Pytree) -> None:
        """A chunk has been started. Args: steps: of it. carry, values: its results, which may still be being computed."""
        chunk = self._note(steps, carry, values)
        if self._is_first:
            self._is_first = False
            if self._update is not None and chunk is not None:
                self._update.began(chunk)
                self.show_update(self._update)
        must_wait = self._in_flight.add()
        if must_wait or self._set_bar is not None:
            # A real machine runs the loop as one program, for which nobody waits.
            with Aloud(self.steps_of_device):
                hints.wait_untimed(_jax.tree.leaves(self.carry), _jax.block_until_ready)
            self._in_flight.waited(chunk)
            if self._set_bar is not None:
                self._set_bar[0](self.steps)
        if self._checkpoints is not None:
            self._is_feeding = True  # an error now tells the carry, too
            self._checkpoints.reached(self.steps, self.carry)
            self._is_feeding = False

    @whole
    def _note(self, steps: int, carry: Pytree, values: Pytree) -> Chunk | None:
        """Returns: the chunk's elements. The infeed gets those back that the steps have not used."""
        self.reached = carry, self.steps + steps
        chunk, self._taken = self._taken, None
        if chunk is not None and self._infeed is not None and (used := steps * self._infeed.elements_per_step) < chunk.elements:
            self._infeed.give_back(chunk, used)
        if self._outfeed is not None:
            self._is_feeding = True
            self._outfeed.deliver(values, steps)
            self._is_feeding = False
        if self._infeed is not None:
            self._infeed.wake()
        return chunk

    def _is_lost(self) -> bool:
        """Whether a started program has taken the carry over, and its result has not been noted."""
        return any(leaf.is_deleted() for leaf in _jax.tree.leaves(self.carry) if isinstance(leaf, jax.Array))

    def _has_carry(self) -> bool:
        """Whether the newest carry can be read: no program has taken it over or failed on its way there. Waits for it."""
        try:
            with Aloud(self.steps_of_device):
                _jax.block_until_ready(self.carry)
        except Exception:  # a program failed, or an array is deleted
            return False
        return not self._is_lost()

    def _interrupt(self) -> LoopInterrupt | None:
        """Waits for the chunks that were started. Returns: what is to be raised; None if a Ctrl-C has lost the carry."""
        if self._is_lost():
            return None
        with Aloud(self.steps_of_device):
            self._ctrl_c.wait(lambda: _jax.block_until_ready(self.carry))
        interrupt = LoopInterrupt(carry=self.carry, steps=self._before + self.steps)
        self._tell_state(interrupt)
        return interrupt

    def _tell_state(self, error: BaseException, more: str = "") -> None:
        tell_loop_state(error, name=self._name, carry=self.carry, steps=self._before + self.steps, more=more)

    def _raise_late(self, error: BaseException | None) -> None:
        """Raises: LoopInterrupt for a Ctrl-C that came at the very end, unless the carry is lost."""
        interrupt = self._interrupt()
        if interrupt is not None:
            raise interrupt from error
