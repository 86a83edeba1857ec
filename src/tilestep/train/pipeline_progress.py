"""What a pipeline's run has done, for the bar on the terminal, for Ctrl-C, and for exceptions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, final

import jax

from tilestep import hints
from tilestep.errors import LoopInterrupt, ProcessFailedError
from tilestep.train.interrupt import CtrlC
from tilestep.train.pipeline_batches import Batch
from tilestep.train.pipeline_tracing import Element

_SAME_CTRL_C_WALL_S: Final = 1.0  # within which one that was sent to all processes has come to each

_jax: Any = jax  # whose types say nothing of what is in a tree


@final
class _Counted:
    """A batch that tells of each element that is taken."""

    def __init__(self, batch: Batch, tell: Callable[[], None]) -> None:
        self._batch, self._tell = batch, tell

    @property
    def is_there(self) -> bool:
        """As the batch's."""
        return self._batch.is_there

    def elements(self) -> Iterator[Element]:
        """Those of the batch."""
        for element in self._batch.elements():
            self._tell()
            yield element

    def whole(self, where: Any) -> None:
        """They are counted one by one."""

    def stacks(self) -> list[Element]:
        """Those of the batch."""
        return self._batch.stacks()

    def are_plain(self, first: Element) -> bool:
        """As those of the batch."""
        return self._batch.are_plain(first)


@final
class Progress:
    """Some updates. An exception inside gets as its `state` that after the last finished one; Ctrl-C waits for the end of an update.

    Args: state: before the first. bar: (name, updates, microbatches of each) for a bar; None: there is none.
    """

    def __init__(self, state: Any, *, bar: tuple[str, int, int] | None) -> None:
        self.state = state
        self.updates = 0
        self._bar_of, self._started = bar, 0
        self._ctrl_c = CtrlC()
        self._bar: AbstractContextManager[tuple[Callable[[int], None], Callable[[str], None]]] | None = None
        self._advance: Callable[[int], None] | None = None
        self._describe: Callable[[str], None] | None = None

    def __enter__(self) -> Progress:
        self._ctrl_c.begin()
        if self._bar_of is not None:
            from tilestep.train.progress import shown  # rich takes a while to import

            name, updates, count = self._bar_of
            self._bar = shown(name, updates * count)
            self._advance, self._describe = self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)
        if isinstance(error, ProcessFailedError) and error.interrupted:  # a terminal sends it to all processes
            self._ctrl_c.expect(_SAME_CTRL_C_WALL_S)
        self._ctrl_c.end()
        late: KeyboardInterrupt | None = None
        if error is None or isinstance(error, ProcessFailedError):  # perhaps of another process's Ctrl-C
            try:
                self._ctrl_c.check()
            except KeyboardInterrupt as interrupt:
                late = interrupt
        if error is None and late is None:
            return
        state = None if self._is_lost() else self.state
        is_interrupt = late is not None or (isinstance(error, KeyboardInterrupt) and not isinstance(error, LoopInterrupt))
        if is_interrupt and state is not None:
            _jax.block_until_ready(state)
            raise LoopInterrupt(carry=state, steps=self.updates, what="updates of the pipeline") from (error or late)
        if error is None:
            assert late is not None  # one of the two there is
            raise late
        with contextlib.suppress(AttributeError):  # of an exception that has no place for it
            error.state = state  # pyright: ignore[reportAttributeAccessIssue]

    def _is_lost(self) -> bool:
        """Whether arrays have gone into an update that is not over."""
        return any(leaf.is_deleted() for leaf in _jax.tree.leaves(self.state) if isinstance(leaf, jax.Array))

    def check(self) -> None:
        """Raises: KeyboardInterrupt if a Ctrl-C has come."""
        self._ctrl_c.check()

    @property
    def waiting(self) -> Callable[[], AbstractContextManager[None]]:
        """For what waits for data or room: inside, a Ctrl-C comes at once."""
        return self._ctrl_c.waiting

    def counting(self, batch: Batch) -> Batch:
        """The batch; each of its elements is a microbatch that begins."""
        return batch if self._advance is None else _Counted(batch, self._began)

    def _began(self) -> None:
        if self._advance is not None:
            self._advance(self._started)
        self._started += 1

    def compiled(self, done: int, total: int) -> None:
        """So many of all programs are compiled."""
        if self._describe is not None and self._bar_of is not None:
            self._describe(f"{self._bar_of[0]}, {done} of {total} programs compiled" if done < total else self._bar_of[0])

    def did(self, outputs: Any) -> None:
        """Another update has been started, after which the outputs are there."""
        if self._describe is not None and self._bar_of is not None:
            hints.wait_aside(_jax.tree.leaves(outputs), _jax.block_until_ready)
            name, updates, count = self._bar_of
            self._describe(f"{name}, update {self.updates} of {updates}")
            self._started = self.updates * count
            if self._advance is not None:
                self._advance(self._started)
