"""The background thread of an infeed: takes elements from a dataset, gathers them into chunks, puts these on their devices.

Elements come from the dataset in order and leave in order. Until a loop has used them they are also kept in the host's memory, so that
what was gathered for one loop can be divided anew for another, and what a loop leaves goes back.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, cast, final

from tilestep import hints
from tilestep.errors import QueueError
from tilestep.train.datasets import SavesState
from tilestep.train.feeds.chunks import Arrays, Chunk, Filling, Plan, on_devices
from tilestep.train.feeds.contiguous import Run
from tilestep.train.feeds.elements import ElementSpec, Outcome
from tilestep.train.feeds.passes import Pass, Start
from tilestep.train.feeds.staging import Copier, Staging, is_settled

_GATHER_WALL_S: Final = 0.5e-3  # how long others may wait for what has come from a dataset meanwhile
_END_WALL_S: Final = 1.0  # how long `close` waits for a dataset that is in the midst of making an element


@final
class Feeder:
    """One pass over a dataset. Safe for use by one loop and any number of onlookers at once.

    Args:
        make_iterator: begins the pass; called in the thread.
        start: where it begins.
        depth: chunks that are made ahead.
        replicas: successive elements that make up one step.
        replica_axis: whether a step's elements have an axis for that.
        staging: makes the memory of chunks.
        copy: whether the dataset may write to arrays that it has given.
    """

    def __init__(
        self,
        make_iterator: Callable[[], Iterator[Any]],
        start: Start,
        *,
        depth: int,
        replicas: int,
        replica_axis: bool,
        staging: Staging,
        copy: bool,
    ) -> None:
        self._pass, self._copy = Pass(make_iterator, start), copy
        self._depth, self._replicas, self._replica_axis, self._staging = depth, replicas, replica_axis, staging
        self._copier = Copier()  # each thread has its own
        self._adjoins = True  # whether a chunk's first element may be where the others follow
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None  # while there may be something to do for it
        self._begun = False
        self._plan: Plan | None = None
        self._made = self._taken = 0  # chunks since the plan began
        self._ready: deque[Chunk] = deque()
        self._held: list[Chunk] = []  # taken, but not used yet; in the host's memory alone
        self._freed: deque[Any] = deque()  # the moments at which there was room for the next chunks to be taken
        self._filling: Filling | None = None
        self._store: deque[Arrays] = deque()  # what comes before the dataset's next element
        self._stored = 0  # elements in it
        self._pulled = start.elements  # elements that have come from the dataset
        self._consumed = start.elements
        self._settled = start.elements  # of these, those that cannot be given back
        self._end: BaseException | None = None  # what ended the pass; StopIteration if it was just over
        self._end_trace: TracebackType | None = None
        self._is_told = False  # whether a loop has had it
        self._raised: tuple[int, str] | None = None  # (elements pulled, what the dataset raised then), of what a loop has had last
        self._put_error: BaseException | None = None  # why a chunk of the plan could not be put on its devices
        self._closed = False
        self._spec: ElementSpec | None = None
        self._states: deque[tuple[int, Any]] = deque()  # (elements pulled, the iterator's state then)

    # ------------------------------------------------------------------------------------------------ the loop's side

    def begin(self, plan: Plan) -> None:
        """A loop begins: what was gathered for another plan is gathered again."""
        with self._condition:
            changed = (plan is not self._plan and plan != self._plan) or self._taken % plan.period or self._put_error is not None
            if self._is_told:  # then the dataset is asked again
                self._end, self._end_trace, self._is_told = None, None, False
                changed = True
            if changed:
                self._take_back()
                self._plan = plan
                self._put_error = None
                self._freed.clear()
                self._made = self._taken = 0
            if not plan.in_place and len(self._freed) != self._depth:
                self._freed.extend([hints.moment()] * self._depth)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="tilestep-infeed", daemon=True)
                self._begun = True
                self._thread.start()
            if changed:  # else the thread has nothing new to do, and woken would only be in the way of the loop
                self._condition.notify_all()

    def take(
        self, waiting: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext, *, wake: bool = True, hold: bool = False
    ) -> Chunk:
        """The next chunk of the plan; waits for it, inside of `waiting()`. Its elements count as consumed.

        Args:
            wake: whether the thread hears of it now, and makes another one; else `wake` is due.
            hold: whether they count only when `use_held` says so, and `give_back_held` makes them the next ones again.
        Raises: what the dataset raised, if it gives too few elements for it (StopIteration if it was over), or JAX when it put them on
            their devices; then none is consumed. QueueError if the feeder is or gets closed.
        """
        with self._condition:
            while not self._ready and not self._closed and not self._starved():
                filling = self._stored_filling()
                if filling is not None:  # it takes no dataset, in the midst of whose next element the thread may be
                    self._fill_from_store(filling)
                    self._condition.release()
                    try:
                        self._put(filling)
                    finally:
                        self._condition.acquire()
                    continue
                self._condition.notify_all()  # the thread may not have heard of the room that a loop made which was interrupted then
                with waiting():
                    self._condition.wait()
            if self._closed:
                raise QueueError(
                    "the InfeedQueue is closed: what it had not given is lost; make another one, or restore() its state() in one"
                )
            if not self._ready:
                raise self._reason()
            chunk = self._ready.popleft()
            self._taken += 1
            self._settled = self._consumed
            if hold:
                self._held.append(replace(chunk, on_device=None, uploads=None))
            else:
                self._consumed += chunk.elements
            if chunk.uploads is not None:
                hints.upload(chunk.uploads, self._freed.popleft())
                self._freed.append(hints.moment())
            if wake:
                self._condition.notify_all()
            return chunk

    def wake(self) -> None:
        """There may be room for another chunk."""
        with self._condition:
            self._condition.notify_all()

    def give_back(self, chunk: Chunk, used: int) -> None:
        """Of the chunk that was taken last only the first `used` elements were used: the others are the next ones again."""
        with self._condition:
            self._consumed -= chunk.elements - used
            rest = [array[used : chunk.elements] for array in chunk.on_host]
            self._take_back()
            if used < chunk.elements:
                self._store.appendleft(rest)
                self._stored += chunk.elements - used
            self._made = self._taken = 0  # the plan begins anew
            self._condition.notify_all()

    def use_held(self) -> None:
        """All that is held has been used."""
        with self._condition:
            self._consumed += sum(chunk.elements for chunk in self._held)
            self._settled = self._consumed
            self._held = []

    def give_back_held(self) -> None:
        """Nothing of what is held was used: it comes next again."""
        with self._condition:
            if self._held:
                held, self._held = self._held, []
                self._take_back()
                self._store.extendleft([array[: chunk.elements] for array in chunk.on_host] for chunk in reversed(held))
                self._stored += sum(chunk.elements for chunk in held)
                self._made = self._taken = 0  # the plan begins anew
                self._condition.notify_all()

    def close(self) -> None:
        """Ends the thread. What has not been taken is lost."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            thread = self._thread
        if thread is None:
            self._pass.close()
        elif thread is not threading.current_thread():
            thread.join(_END_WALL_S)

    @property
    def begun(self) -> bool:
        """Whether a thread has started."""
        return self._begun

    @property
    def consumed(self) -> int:
        """Elements that loops have used, from the dataset's first one on."""
        return self._consumed

    @property
    def available(self) -> int:
        """Elements that have come from the dataset and have not been used."""
        return self._pulled - self._consumed

    def place(self) -> Start:
        """Where a pass would have to begin that goes on after the last element used."""
        with self._condition:
            self._forget_states(self._consumed)
            if self._states:
                pulled, state = self._states[0]
                return Start(elements=self._consumed, skip=self._consumed - pulled, dataset_state=state)
            return Start(
                elements=self._consumed,
                skip=self._consumed - self._pass.start.elements + self._pass.start.skip,
                dataset_state=self._pass.start.dataset_state,
            )

    @property
    def raised(self) -> str | None:
        """What the dataset had raised when it was asked before, if it is over and has given nothing since."""
        is_over = isinstance(self._end, StopIteration)
        return self._raised[1] if is_over and self._raised is not None and self._raised[0] == self._pulled else None

    def _forget_states(self, used: int) -> None:
        """Of the states only those are needed from which an element after the first `used` ones can be reached."""
        while len(self._states) > 1 and self._states[1][0] <= used:
            self._states.popleft()

    def _reason(self) -> BaseException:
        """Why the chunk that is wanted will never be.

        It comes to hold the frames that it passes, and by them this feeder, the queue and the loop's carry: so it is not kept if it need
        not be, and what the dataset raised is given as it came from there.
        """
        if self._put_error is not None:
            error, self._put_error, self._plan = self._put_error, None, None  # a loop that begins tries again
            return error
        assert self._end is not None  # else nothing is starved
        if isinstance(self._end, StopIteration):
            return StopIteration()
        self._is_told, self._raised = True, (self._pulled, f"{type(self._end).__name__}: {self._end}")
        return self._end.with_traceback(self._end_trace)

    def _starved(self) -> bool:
        """Whether the chunk that is wanted, and is not ready, will never be."""
        if self._put_error is not None:
            return True
        if self._end is None or self._plan is None:
            return False
        there = self._stored + (self._filling.count if self._filling is not None else 0)
        return there < self._replicas * (1 if self._plan.partial else self._plan.steps(self._taken))

    def _take_back(self) -> None:
        """All that was gathered is what comes next from the store. The thread notices that its filling has gone."""
        pieces = [[array[: chunk.elements] for array in chunk.on_host] for chunk in self._ready]
        if self._filling is not None and self._filling.count:
            self._filling.settle()
            pieces.append([array[: self._filling.count] for array in self._filling.arrays])
        self._ready.clear()
        self._filling = None
        self._store.extendleft(reversed(pieces))
        self._stored += sum(len(piece[0]) for piece in pieces)

    # ---------------------------------------------------------------------------------------------- the thread's side

    def _work(self) -> None:
        copier = self._copier = Copier()
        while (filling := self._next_filling()) is not None:
            try:
                self._fill(filling)
                if self._is_current(filling) and filling.count:
                    self._put(filling)
            except BaseException as error:  # whoever wants the next element is told
                with self._condition:
                    self._end, self._end_trace = error, error.__traceback__
                    self._take_back_filling(filling)
                    self._condition.notify_all()
            del filling
        copier.close()
        if self._closed or isinstance(self._end, StopIteration):
            self._pass.close()

    def _next_filling(self) -> Filling | None:
        """Waits until another chunk is to be gathered; None: the thread ends, as nothing will be before another loop begins, or ever."""
        with self._condition:
            while not self._closed:
                filling = self._stored_filling()
                if filling is None and self._wants_more() and self._end is None:
                    filling = self._new_filling()
                if filling is not None:
                    return filling
                if self._is_over():
                    self._thread = None  # a thread that waited would keep alive what raised the dataset's exception, and is of no use
                    break
                self._condition.wait()
            return None

    def _is_over(self) -> bool:
        """Whether no more chunks of this plan can be made."""
        return self._end is not None and self._plan is not None and self._filling is None and self._stored < self._needed(self._plan)

    def _needed(self, plan: Plan) -> int:
        """Elements of the next chunk: with a dataset that is over, at least one step's if the last ones are a chunk of their own."""
        return self._replicas * (1 if plan.partial and self._end is not None else plan.steps(self._made))

    def _wants_more(self) -> bool:
        """Whether another chunk is to be gathered, and nobody is about it."""
        return self._plan is not None and self._filling is None and self._put_error is None and len(self._ready) < self._depth

    def _stored_filling(self) -> Filling | None:
        """A chunk to be gathered for which the store is enough; with a dataset that is over, what is left may be."""
        if not self._wants_more() or not self._stored:
            return None
        assert self._plan is not None
        return self._new_filling() if self._stored >= self._needed(self._plan) else None

    def _new_filling(self) -> Filling:
        assert self._plan is not None
        self._filling = Filling(self._plan, self._made, self._plan.steps(self._made) * self._replicas)
        return self._filling

    def _is_current(self, filling: Filling) -> bool:
        return self._filling is filling and not self._closed

    def _fill(self, filling: Filling) -> None:
        """Gathers elements until the chunk is full, the dataset is over, or the filling is taken back."""
        with self._condition:
            if self._is_current(filling):
                self._fill_from_store(filling)
        if filling.count == filling.capacity or self._end is not None:
            return
        iterator = self._pass.iterator()
        if self._pass.in_hand:
            if not self._is_current(filling):
                return
            self._fill_with(self._pass.in_hand[0], filling)
        if hasattr(iterator, "get_state"):
            state = cast(SavesState, iterator).get_state()
            with self._condition:
                self._forget_states(self._settled)
                self._states.append((self._pulled, state))
        try:
            while filling.count < filling.capacity and self._is_current(filling):
                if filling.capacity > 1 and not filling.count and self._adjoins and self._spec is not None:
                    self._fill_adjoining(iterator, filling, self._spec)
                elif filling.capacity > 1 and self._spec is not None and self._spec.gathers:
                    self._gather(iterator, filling, self._spec)
                else:
                    self._fill_with(next(iterator), filling)
        except StopIteration as error:
            with self._condition:
                self._end = error
                if not (filling.plan.partial and filling.count):
                    self._take_back_filling(filling)
                self._condition.notify_all()

    def _fill_with(self, element: Any, filling: Filling) -> None:
        """The dataset's next element. It is copied before the dataset is asked for another one, which may reuse its memory.

        Not if it is a chunk by itself, in memory that nobody writes to and the device can take over.
        """
        self._pass.in_hand = [element]
        spec = self._spec
        if spec is None:
            spec = self._spec = ElementSpec(element, self._pulled, x64=filling.plan.x64)
        arrays = spec.arrays(element, self._pulled)
        if filling.capacity == 1 and all(
            is_settled(array, dtype, trusted=not self._copy) for array, dtype in zip(arrays, spec.dtypes, strict=True)
        ):
            filling.arrays = [array[None] for array in arrays]
            self._pulled_into(filling, 1)
        else:
            self._copy_into(filling, arrays, spec)

    def _fill_adjoining(self, iterator: Iterator[Any], filling: Filling, spec: ElementSpec) -> None:
        """Elements as long as they lie one after the other in memory that nobody writes to, and one that does not."""
        run = filling.run = Run(spec, filling.capacity, self._staging.empty, trusted=not self._copy)
        try:
            while run.count < filling.capacity and self._is_current(filling):
                self._pass.in_hand = [next(iterator)]
                arrays = spec.arrays(self._pass.in_hand[0], self._pulled)
                with self._condition:
                    is_current = filling.run is run  # it was not taken back meanwhile
                    if is_current and run.add(arrays):
                        self._pulled += 1
                        filling.count += 1
                        self._pass.in_hand = []
                        continue
                    filling.settle()
                if is_current and not run.count:
                    self._adjoins = False
                self._copy_into(filling, arrays, spec)
                return
        finally:
            with self._condition:
                filling.settle()

    def _copy_into(self, filling: Filling, arrays: Arrays, spec: ElementSpec) -> None:
        if not filling.arrays:
            filling.arrays = self._empty(spec, filling.capacity)
        for target, array in zip(filling.arrays, arrays, strict=True):
            self._copier.copy(target[filling.count, ...], array)
        self._pulled_into(filling, 1)

    def _gather(self, iterator: Iterator[Any], filling: Filling, spec: ElementSpec) -> None:
        """As many of the dataset's next elements as come within a moment; one that is no plain NumPy goes the long way."""
        if not filling.arrays:
            filling.arrays = self._empty(spec, filling.capacity)
        count, outcome, value = spec.gather(iterator, filling.arrays, filling.count, filling.capacity, _GATHER_WALL_S)
        self._pulled_into(filling, count)
        if outcome is Outcome.ODD:
            self._fill_with(value, filling)
        elif outcome is Outcome.RAISED:
            raise value
        elif outcome is Outcome.OVER:
            raise StopIteration

    def _pulled_into(self, filling: Filling, count: int) -> None:
        """The dataset's next `count` elements have been copied to the rows after those that are there."""
        with self._condition:
            self._pulled += count
            self._pass.in_hand = []
            if self._filling is filling:
                filling.count += count
            elif count:  # the filling was taken back meanwhile: these elements come after what was in it
                self._store.append([array[filling.count : filling.count + count].copy() for array in filling.arrays])
                self._stored += count

    def _take_back_filling(self, filling: Filling) -> None:
        """The chunk will never be full: its elements wait in the store for a loop that wants fewer."""
        if self._filling is filling:
            self._filling = None
            if filling.count:
                filling.settle()
                self._store.append([array[: filling.count] for array in filling.arrays])
                self._stored += filling.count

    def _fill_from_store(self, filling: Filling) -> None:
        while self._store and filling.count < filling.capacity:
            piece = self._store.popleft()
            length = len(piece[0])
            taken = min(length, filling.capacity - filling.count)
            if taken == filling.capacity == length:
                filling.arrays = piece
            else:
                if not filling.arrays:
                    assert self._spec is not None  # there was an element
                    filling.arrays = self._empty(self._spec, filling.capacity)
                for target, array in zip(filling.arrays, piece, strict=True):
                    target[filling.count : filling.count + taken] = array[:taken]
                if taken < length:
                    self._store.appendleft([array[taken:] for array in piece])
            self._stored -= taken
            filling.count += taken

    def _empty(self, spec: ElementSpec, count: int) -> Arrays:
        return [self._staging.empty((count, *shape), dtype) for shape, dtype in zip(spec.shapes, spec.dtypes, strict=True)]

    def _put(self, filling: Filling) -> None:
        spec, plan = self._spec, filling.plan
        assert spec is not None
        for array in filling.arrays if filling.count < filling.capacity else ():
            array[filling.count :] = array[0]
        stacked = filling.arrays
        if self._replica_axis:
            stacked = [array.reshape(-1, self._replicas, *array.shape[1:]) for array in stacked]
        try:
            on_device, uploads = on_devices(plan, spec.structure, stacked)
        except Exception as error:
            with self._condition:
                if self._is_current(filling):
                    self._put_error = error
                self._take_back_filling(filling)
                self._condition.notify_all()
            return
        chunk = Chunk(on_device=on_device, on_host=filling.arrays, elements=filling.count, uploads=uploads)
        with self._condition:
            if self._is_current(filling):
                self._filling = None
                self._made += 1
                self._ready.append(chunk)
                self._condition.notify_all()
