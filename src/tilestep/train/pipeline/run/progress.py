"""Tracks the updates that a pipeline's run has done, for the bar on the terminal, for Ctrl-C, and for exceptions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, NamedTuple, final

import jax
from jax.sharding import Sharding

from tilestep import hints
from tilestep.errors import LoopInterrupt, ProcessFailedError
from tilestep.train.ctrl_c import CtrlC, whole
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.patience import Aloud
from tilestep.train.pipeline.compile.tracing import Element
from tilestep.train.pipeline.run.batches import Batch
from tilestep.train.resume import tell_loop_state
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_SAME_CTRL_C_WALL_S: Final = 1.0  # within which one that was sent to all processes has come to each


@final
class _Counted:
    """A batch that tells of each element that is taken."""

    def __init__(self, batch: Batch, tell: Callable[[], None]) -> None:
        self._batch, self._tell, self.is_there = batch, tell, batch.is_there

    def elements(self) -> Iterator[Element]:
        """Those of the batch."""
        for element in self._batch.elements():
            self._tell()
            yield element

    def whole(self, where: Sharding) -> None:
        """They are counted one by one."""

    def stacks(self) -> list[Element]:
        """Those of the batch."""
        return self._batch.stacks()

    def are_plain(self, first: Element) -> bool:
        """As those of the batch."""
        return self._batch.are_plain(first)


class Elements(NamedTuple):
    """What a queue gets of an update."""

    values: Any  # values with an axis of elements
    number: int  # number of elements


NO_ELEMENTS: Final = Elements(None, 0)


@final
class Progress:
    """Some updates. Ctrl-C waits for the end of an update; an exception inside gets the state after the last one that is done.

    Args: state: before the first. name: of the pipeline. count: microbatches of an update. updates: how many there are to be. before: how
        many of the same run there were before these. bar: whether there is one.
    Attributes: state: after the last update that is done. It is read without a call after the end, where a Ctrl-C finds nobody who keeps
        it (`CtrlC.end`). updates: how many are done. outputs: what the last one gave out.
    """

    def __init__(self, state: Pytree, *, name: str, count: int, updates: int, bar: bool, before: int = 0) -> None:
        self.state = state
        self.updates, self._before = 0, before
        self.outputs: Any = None
        self._name, self._count, self._total, self._wants_bar, self._started = name, count, updates, bar, 0
        self._ctrl_c = CtrlC()
        self._bar: AbstractContextManager[tuple[Callable[[int], None], Callable[[str], None]]] | None = None
        self._advance: Callable[[int], None] | None = None
        self._describe: Callable[[str], None] | None = None
        self._infeed: InfeedQueue | None = None  # those that the run has reserved
        self._outfeed: OutfeedQueue | None = None
        self._watched: OutfeedQueue | None = None

    @whole
    def __enter__(self) -> Progress:
        self._ctrl_c.begin()
        try:
            if self._wants_bar:
                from tilestep.train.progress_bar import shown  # rich takes a while to import

                self._bar = shown(self._name, self._total * self._count)
                self._advance, self._describe = self._bar.__enter__()
        except BaseException:
            self._ctrl_c.end()
            raise
        return self

    @whole
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        raised: BaseException | None = None
        try:
            self._release()
            if self._bar is not None:
                self._bar.__exit__(kind, error, trace)
            if isinstance(error, ProcessFailedError) and error.interrupted:  # a terminal sends it to all processes
                self._ctrl_c.expect(_SAME_CTRL_C_WALL_S)
            if error is not None or self._ctrl_c.has_come:
                raised = self._ended_by(error, has_come=self._ctrl_c.has_come)
        finally:
            came_last = self._ctrl_c.end()
        if raised is None and came_last:  # at the very end
            raised = self._ended_by(error, has_come=True)
        if raised is not None and raised is not error:
            raise raised from error

    def _ended_by(self, error: BaseException | None, *, has_come: bool) -> BaseException:
        """Returns: after a Ctrl-C LoopInterrupt, when what was started is done, or KeyboardInterrupt if the state is lost."""
        is_lost = any(leaf.is_deleted() for leaf in _jax.tree.leaves(self.state) if isinstance(leaf, jax.Array))
        raised = error
        if (has_come or isinstance(error, KeyboardInterrupt)) and not is_lost:
            with Aloud(lambda: f"the devices, which have not done all that {self._name} has started"):
                self._ctrl_c.wait(lambda: _jax.block_until_ready(self.state))
            raised = LoopInterrupt(
                carry=self.state, steps=self._before + self.updates, what="updates of the pipeline", outputs=self.outputs
            )
        elif has_come and not isinstance(error, KeyboardInterrupt):
            raised = KeyboardInterrupt()
        assert raised is not None  # one of the two there is
        if not is_lost:
            tell_loop_state(raised, name=self._name, carry=self.state, steps=self._before + self.updates, units="updates", state="state")
        with contextlib.suppress(Exception):  # some exceptions take no attribute
            raised.state = None if is_lost else self.state  # pyrefly: ignore[missing-attribute]
        return raised

    @whole
    def reserve(self, user: str, infeed: InfeedQueue | None, outfeed: OutfeedQueue | None, watched: OutfeedQueue | None = None) -> None:
        """The feeds are in use to the end. Raises: QueueError if one is closed, or in use."""
        if infeed is not None:
            infeed.reserve(user)
            self._infeed = infeed
        if outfeed is not None:
            outfeed.reserve(user)
            self._outfeed = outfeed
        if watched is not None:
            watched.reserve(user)
            self._watched = watched

    def _release(self) -> None:
        try:
            if self._infeed is not None:
                self._infeed.release()
        finally:
            try:
                if self._outfeed is not None:
                    self._outfeed.release()
            finally:
                if self._watched is not None:
                    self._watched.release()

    def check(self) -> None:
        """Raises: KeyboardInterrupt if a Ctrl-C has come."""
        self._ctrl_c.check()

    def counting(self, batch: Batch) -> Batch:
        """The batch; each of its elements is a microbatch that begins."""
        return batch if self._advance is None else _Counted(batch, self._began)

    @whole
    def _began(self) -> None:
        if self._advance is not None:
            self._advance(self._started)
        self._started += 1

    @whole
    def compiled(self, done: int, total: int) -> None:
        """So many of all programs are compiled."""
        if self._describe is not None:
            self._describe(f"{self._name}, {done} of {total} programs compiled" if done < total else self._name)

    @whole
    def did(self, state: Pytree, outputs: Any, given: Elements = NO_ELEMENTS, seen: Elements = NO_ELEMENTS) -> None:
        """Another update has been started, after which these are there.

        Args: given: what the outfeed gets. seen: what the queue of what is watched gets.
        """
        if self._infeed is not None:
            self._infeed.use_held()
        self.state, self.outputs = state, outputs
        self.updates += 1
        if self._outfeed is not None:
            self._outfeed.deliver(given.values, given.number)
        if self._watched is not None:
            self._watched.deliver(seen.values, seen.number)

    def show(self) -> None:
        """Shows in the bar, if there is one, that the last update is done."""
        if self._describe is not None:
            with Aloud(lambda: f"update {self.updates} of {self._name}"):
                hints.wait_untimed(_jax.tree.leaves(self.outputs), _jax.block_until_ready)
            self._show()

    @whole
    def _show(self) -> None:
        if self._describe is not None and self._advance is not None:
            self._describe(f"{self._name}, update {self.updates} of {self._total}")
            self._started = self.updates * self._count
            self._advance(self._started)
