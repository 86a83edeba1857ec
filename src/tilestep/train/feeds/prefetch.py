"""The background thread of an infeed: takes elements from a dataset, gathers them into chunks, puts these on their devices.

Elements come from the dataset in order and leave in order. Until a loop has used them they also stay in the host's memory, so that elements
gathered for one loop can be divided anew for another, and those that a loop leaves go back.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, final

from tilestep import hints
from tilestep.errors import QueueError
from tilestep.train.feeds.chunks import Chunk, ChunkPlan, Filling, on_devices
from tilestep.train.feeds.gatherer import Gatherer
from tilestep.train.feeds.lineup import Lineup
from tilestep.train.feeds.passes import DatasetPass, Ending, Start
from tilestep.train.feeds.position import Position, Store
from tilestep.train.feeds.staging import StagingMemory
from tilestep.train.patience import Aloud, wait
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_END_WALL_S: Final = 1.0  # how long `close` waits for a dataset that is making an element


@final
class Feeder:
    """One pass over a dataset. Safe for use by one loop and any number of observers at once.

    Args:
        make_iterator: begins the pass; called in the thread.
        start: of the pass.
        depth: chunks that are made ahead.
        replicas: elements of a step; None: one, whose arrays have no axis of replicas.
        staging: makes the memory of chunks.
        copy: whether the dataset may write to arrays that it has given.
    """

    def __init__(
        self,
        make_iterator: Callable[[], Iterator[Pytree]],
        start: Start,
        *,
        depth: int,
        replicas: int | None,
        staging: StagingMemory,
        copy: bool,
    ) -> None:
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None  # while there may be something to do for it
        self._has_begun = self._is_closed = False
        self._depth, self._replicas = depth, replicas
        self._pass, self._position, self._ending, self._store = DatasetPass(make_iterator, start), Position(start), Ending(), Store()
        self._gatherer = Gatherer(self._pass, self._position, self._store, lock=self._condition, staging=staging, copy=copy)
        self._lineup = Lineup(depth=depth, replicas=replicas or 1)
        self._held: list[Chunk] = []  # taken, but not used yet; in the host's memory alone
        self._freed: deque[Any] = deque()  # moments (of an emulator) at which there was room for the next chunks to be taken

    # ------------------------------------------------------------------------------------------------ the loop's side

    def begin(self, plan: ChunkPlan) -> None:
        """A loop begins. Elements gathered for another plan are gathered again."""
        with self._condition:
            lineup = self._lineup
            is_new = lineup.differs(plan)
            is_new = self._ending.clear_told() or is_new
            if is_new:
                self._take_back()
                lineup.plan, lineup.error = plan, None
                self._freed.clear()
                lineup.restart()
            if not plan.in_place and len(self._freed) != self._depth:
                self._freed.extend([hints.moment()] * self._depth)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="tilestep-infeed", daemon=True)
                self._has_begun = True
                self._thread.start()
            if is_new:  # else the thread has nothing new to do, and would disturb the loop
                self._condition.notify_all()

    def take(self, check: Callable[[], None] | None = None, *, wake: bool = True, hold: bool = False) -> Chunk:
        """The next chunk of the plan; waits for it. Its elements count as consumed.

        Args:
            check: called again and again while it waits. What it raises ends the wait.
            wake: whether to tell the thread now, which then makes another chunk. False: the caller calls `wake` later.
            hold: whether the elements count as consumed only at `use_held`, and `give_back_held` makes them the next ones again.
        Raises:
            Exception: the dataset's, if it gives too few elements (StopIteration if it was over), or JAX's from putting them on their
                devices. No element is consumed.
            QueueError: if the feeder is closed, or closes meanwhile.
        """
        with self._condition:
            lineup = self._lineup
            aloud = Aloud(lambda: "the next elements of its InfeedQueue: the dataset has not given them yet")
            while not lineup.ready and not self._is_closed and not self._can_never_come():
                filling = self._stored_filling()
                if filling is not None:  # gathered here, because the thread may be waiting for the dataset's next element
                    self._store.fill(filling, self._gatherer.empty)
                    self._condition.release()
                    try:
                        self._put(filling)
                    finally:
                        self._condition.acquire()
                    continue
                self._condition.notify_all()  # an interrupted loop may not have told the thread of room
                with _jax.profiler.TraceAnnotation(hints.INFEED_WAIT):
                    wait(self._condition, check, aloud)
            if self._is_closed:
                raise QueueError(
                    "the InfeedQueue is closed: what it had not given is lost; make another one, or restore() its state() in one"
                )
            if not lineup.ready:
                raise self._reason()
            chunk = lineup.take()
            self._position.final = self._position.consumed
            if hold:
                self._held.append(replace(chunk, on_device=None, uploads=None))
            else:
                self._position.consumed += chunk.elements
            if chunk.uploads is not None:
                hints.upload(chunk.uploads, self._freed.popleft())
                self._freed.append(hints.moment())
            if wake:
                self._condition.notify_all()
            return chunk

    def wake(self) -> None:
        """Tells the thread that there may be room for another chunk."""
        with self._condition:
            self._condition.notify_all()

    def give_back(self, chunk: Chunk, used: int) -> None:
        """Takes back all but the first `used` elements of the chunk that was taken last: they are the next ones again."""
        with self._condition:
            self._position.consumed -= chunk.elements - used
            rest = [array[used : chunk.elements] for array in chunk.on_host]
            self._take_back()
            if used < chunk.elements:
                self._store.put_first([rest])
            self._lineup.restart()
            self._condition.notify_all()

    def use_held(self) -> None:
        """All held elements have been used."""
        with self._condition:
            self._position.consumed += sum(chunk.elements for chunk in self._held)
            self._position.final = self._position.consumed
            self._held = []

    def give_back_held(self) -> None:
        """No held element has been used: they are the next ones again."""
        with self._condition:
            if self._held:
                held, self._held = self._held, []
                self._take_back()
                self._store.put_first([[array[: chunk.elements] for array in chunk.on_host] for chunk in held])
                self._lineup.restart()
                self._condition.notify_all()

    def close(self) -> None:
        """Ends the thread. Elements that have not been taken are lost."""
        with self._condition:
            self._is_closed = True
            if self._lineup.filling is not None:
                self._lineup.filling.is_wanted = False
            self._condition.notify_all()
            thread = self._thread
        if thread is None:
            self._pass.close()
        elif thread is not threading.current_thread():
            thread.join(_END_WALL_S)

    @property
    def has_begun(self) -> bool:
        """Whether a thread has started."""
        return self._has_begun

    @property
    def consumed(self) -> int:
        """Elements that loops have used, from the dataset's first one on."""
        return self._position.consumed

    @property
    def available(self) -> int:
        """Elements that have come from the dataset and have not been used."""
        return self._position.available

    def next_start(self) -> Start:
        """The start of a pass that goes on after the last element used."""
        with self._condition:
            return self._position.next_start()

    @property
    def raised(self) -> str | None:
        """The text of the exception before, if the dataset is over and has given no element since that exception."""
        return self._ending.raised(self._position.pulled)

    def _reason(self) -> BaseException:
        """Why the chunk that a loop waits for will never be."""
        lineup = self._lineup
        if lineup.error is not None:
            error, lineup.error, lineup.plan = lineup.error, None, None  # a loop that begins tries again
            return error
        return self._ending.tell(self._position.pulled)

    def _can_never_come(self) -> bool:
        return self._lineup.can_never_come(self._store.count, has_ended=self._ending.has_come)

    def _take_back(self) -> None:
        """Elements of all chunks that were not taken go to the store."""
        self._store.put_first(self._lineup.take_apart())

    # ---------------------------------------------------------------------------------------------- the thread's side

    def _work(self) -> None:
        copier = self._gatherer.open()
        while (filling := self._next_filling()) is not None:
            try:
                self._fill(filling)
                if filling.is_wanted and filling.count:
                    self._put(filling)
            except BaseException as error:  # the loop that needs the next element raises it
                with self._condition:
                    self._ending.set(error)
                    self._take_back_filling(filling)
                    self._condition.notify_all()
            del filling
        copier.close()
        if self._is_closed or self._ending.is_over:
            self._pass.close()

    def _next_filling(self) -> Filling | None:
        """Waits until another chunk is to be gathered; None: the thread ends, because no loop wants more."""
        with self._condition:
            lineup = self._lineup
            while not self._is_closed:
                filling = self._stored_filling()
                if filling is None and lineup.wants_more() and not self._ending.has_come:
                    filling = lineup.start_filling()
                if filling is not None:
                    return filling
                if self._ending.has_come and lineup.plan is not None and lineup.filling is None and not self._is_enough(lineup.plan):
                    self._thread = None  # a thread that waited would keep the frames of the dataset's exception alive
                    break
                self._condition.wait()
            return None

    def _is_enough(self, plan: ChunkPlan) -> bool:
        """Whether the store has the elements of the next chunk."""
        return self._store.count >= self._lineup.needed(plan, has_ended=self._ending.has_come)

    def _stored_filling(self) -> Filling | None:
        """A chunk to be gathered for which the store has enough elements."""
        if not self._lineup.wants_more() or not self._store.count:
            return None
        assert self._lineup.plan is not None
        return self._lineup.start_filling() if self._is_enough(self._lineup.plan) else None

    def _fill(self, filling: Filling) -> None:
        """Gathers elements until the chunk is full, the dataset is over, or the chunk is taken back."""
        with self._condition:
            if filling.is_wanted:
                self._store.fill(filling, self._gatherer.empty)
        if filling.count == filling.capacity or self._ending.has_come:
            return
        try:
            with _jax.profiler.TraceAnnotation(hints.INFEED_GATHER):
                self._gatherer.gather(filling)
        except StopIteration as error:
            with self._condition:
                self._ending.set(error)
                if not (filling.plan.partial and filling.count):
                    self._take_back_filling(filling)
                self._condition.notify_all()

    def _take_back_filling(self, filling: Filling) -> None:
        """The chunk will never be full. Its elements go to the store, for a loop that wants fewer."""
        if self._lineup.filling is filling:
            self._lineup.filling = None
            filling.is_wanted = False
            if filling.count:
                self._store.put_last(filling.elements())

    def _put(self, filling: Filling) -> None:
        spec, plan = self._gatherer.spec, filling.plan
        assert spec is not None
        for array in filling.arrays if filling.count < filling.capacity else ():
            array[filling.count :] = array[0]
        stacked = filling.arrays
        if self._replicas is not None:
            stacked = [array.reshape(-1, self._replicas, *array.shape[1:]) for array in stacked]
        try:
            with _jax.profiler.TraceAnnotation(hints.INFEED_PUT):
                on_device, uploads = on_devices(plan, spec.structure, stacked, spec.generators)
        except Exception as error:
            with self._condition:
                if filling.is_wanted:
                    self._lineup.error = error
                self._take_back_filling(filling)
                self._condition.notify_all()
            return
        chunk = Chunk(on_device=on_device, on_host=filling.arrays, elements=filling.count, uploads=uploads)
        with self._condition:
            if filling.is_wanted:
                self._lineup.add(chunk)
                self._condition.notify_all()
