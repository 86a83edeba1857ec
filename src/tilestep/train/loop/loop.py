"""Training loops that stay on the device: many steps of a program for each call of the host."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, cast, final

import jax
import numpy as np
from jax.sharding import Sharding

from tilestep import hints
from tilestep.errors import LoopInterrupt, QueueError
from tilestep.train.calling import Body, name_of
from tilestep.train.ctrl_c import CtrlC
from tilestep.train.feeds.chunks import DEFAULT_CHUNK, Chunk
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.recompute import Recompute, require_recompute
from tilestep.train.loop import call_cache
from tilestep.train.loop.call_cache import Call
from tilestep.train.loop.carry import Carry, prepared
from tilestep.train.loop.effective_batch import UpdateSize, update_size
from tilestep.train.loop.program_cache import FIRST_IN_FLIGHT, Loop, Span, repeat_loop, while_loop_loop
from tilestep.train.loop.replicated import Spread, spread_over
from tilestep.train.loop.step import truth
from tilestep.train.loop.update_pattern import Cadence, Counter, cadence_of, counters, remember
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import belongs_to, require_function
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.resume import tell_loop_state
from tilestep.train.untyped import jax as _jax

# Chunks are started ahead of the device, which is waited for when so much is in flight: a wait costs a wake-up, no wait the memory of
# their elements, and time at Ctrl-C.
_MOST_IN_FLIGHT, _LEAST_IN_FLIGHT = 16, 2  # chunks
_IN_FLIGHT_WALL_S: Final = 0.05  # of work
_IN_FLIGHT_BYTES: Final = 2**28  # of elements, as far as that is not less than FIRST_IN_FLIGHT chunks
_ORDER: Final = ": repeat(n, body, carry, ...)"
_MOST_STEPS: Final = 2**31 - 1  # of one program, which counts them in 32 bits


def repeat(
    n: int,
    body: Body,
    carry: Any,
    infeed: InfeedQueue | None = None,
    outfeed: OutfeedQueue | None = None,
    *,
    chunk: int | None = None,
    donate: bool = True,
    progress: bool = False,
    replicas: Replicas | None = None,
    recompute: Recompute = None,
) -> Any:
    """Runs `n` steps of `body` on the device: one program for each chunk of steps, which the host only starts.

    `body(carry, ...)` returns the new carry: the same structure, shapes and dtypes. With an infeed it also gets the step's element: a
    tuple's or list's items as further arguments, a mapping with string keys as keyword arguments, anything else as one argument. It is
    traced once for each length of chunk, and not again when a loop with the same body (the same function object) and the like carry is
    called again.

    Args:
        n: steps, 0 or more. Exactly so many elements are consumed; what has been made ahead stays for the next loop.
        carry: a pytree of arrays and numbers. Numbers become arrays of JAX's default types.
        infeed: where elements come from.
        outfeed: where `body` sends values with `outfeed.enqueue`.
        chunk: steps of one program; None: the lesser of n and 64 (and of the outfeed's buffer_depth, unless it drops).
        donate: whether the carry's arrays are given up, as `jax.jit(donate_argnums=...)` does. Without, they are copied first.
        progress: whether to show a bar with the steps done.
        replicas: on which `body` runs, once on each: with the whole carry, and its own element of the infeed. Each keeps its carry by
            itself: what it learns from its element must be combined (`cross_replica_mean`, `cross_replica(optimizer)`) for the carries to
            stay equal. Values for the outfeed have a leading axis of replicas if there are several. The carry is copied to the replicas
            if it is not there, and returned replicated: JAX shows replica 0's (`replica_differences` compares).
        recompute: what the gradients in `body` compute again instead of keeping it, of functions that `tilestep.train.recomputed` marks:
            None, "full", a policy of `jax.checkpoint_policies` or a tuple of names (see there).
    Returns: the carry after `n` steps. Its arrays may still be being computed.
    Raises: TypeError for a body that does not take its arguments or keep the carry, ValueError for a number out of its bounds. QueueError
        for a feed that is closed or in use. What the dataset raises; DatasetError if it ends early. LoopInterrupt at Ctrl-C. The latter
        four have a `loop_state`.
    """
    call = Call(body, infeed, outfeed, (n, chunk, replicas, recompute))
    recent = call_cache.found(carry, call) if donate and type(n) is int else None
    if recent is not None and recent.sure:
        plan, tree, sure = cast("_Plan", recent.plan), carry, True
    else:
        plan, tree = _planned(call, carry, donate=donate)
        sure = recent is not None and tree is carry and plan.holds_as(cast("_Plan", recent.plan))
    total, steps, kept, paced = plan.total, plan.steps, plan.loop, plan.paced
    with _Run(f"repeat({total})", kept, tree, infeed, outfeed, total=total, progress=progress) as run:
        if plan.counting:
            run.tell(update_size(f"repeat_{name_of(body)}", plan.counting, infeed, replicas, None if paced is None else kept))
        if infeed is not None and total:
            infeed.begin(chunk_steps=steps, steps=total, carry_place=plan.place, over=replicas)
        with _group(kept, steps, total % steps):
            while run.steps < total:
                now = min(steps, total - run.steps)
                program = kept.program(_span(paced, kept, run.steps, now))
                elements = run.elements(now)
                args = run.carry, None if elements is None else elements.on_device
                if outfeed is not None and not run.steps:
                    run.will_enqueue(lambda program=program, args=args: program.trace(*args).out_info[-1])
                carry, values = program(*args)
                run.did(now, carry, values)
        if paced is not None and not kept.unsteady:
            remember(run.carry, plan.counting, 0)
        if plan.holds_again and type(n) is int:
            call_cache.remember(run.carry, call, plan, sure=sure, before=recent)
    return run.reached[0]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What `repeat` finds out of its arguments before it begins.

    Attributes: place and shardings as a Carry has them. counting: what accumulates in the carry. cadence: when it updates. paced: the same
        if the loop's programs differ in it.
    """

    total: int
    steps: int  # of a chunk
    loop: Loop
    place: Sharding | None
    shardings: tuple[Any, ...]
    counting: tuple[Counter, ...]
    cadence: Cadence | None
    paced: Cadence | None

    @property
    def holds_again(self) -> bool:
        """Whether it is the plan for the carry that comes out, too: no accumulation has come to stand elsewhere."""
        return not self.counting or (self.paced is not None and not self.paced.held and not self.loop.unsteady)

    def holds_as(self, other: _Plan) -> bool:
        """Whether the carries of two plans were in the same place."""
        return self.place == other.place and self.shardings == other.shardings


def _planned(call: Call, carry: Any, *, donate: bool) -> tuple[_Plan, Any]:
    """The plan, and the carry made ready. Raises: TypeError, ValueError for arguments that cannot be."""
    n, chunk, replicas, recompute = call.rest
    total = whole_number("n", n, least=0, hint=_ORDER)
    require_function("body", call.body, f"(carry, ...) -> carry{_ORDER}")
    _require_queues(call.infeed, call.outfeed)
    require_recompute(recompute)
    spread = spread_over(replicas, call.infeed, call.outfeed)
    state = prepared(carry, donate=donate, loop="repeat")
    if spread is not None:
        state = spread.placed(state)
    counting = counters(state.structure)
    cadence = cadence_of(carry, counting, total, f"repeat({total})") if counting else None
    steps = _chunk_steps(chunk, min(total, DEFAULT_CHUNK), call.outfeed, cadence)
    loop = repeat_loop(
        call.body,
        key=_key(state),
        infed=call.infeed is not None,
        outfeed=call.outfeed,
        shardings=_shardings(state),
        spread=spread,
        recompute=recompute,
    )
    plan = _Plan(
        total=total,
        steps=steps,
        loop=loop,
        place=state.place,
        shardings=state.shardings,
        counting=counting,
        cadence=cadence,
        paced=cadence if cadence is not None and cadence.is_worth_programs(steps, total) else None,
    )
    return plan, state.tree


def while_loop(
    condition: Callable[[Any], Any],
    body: Body,
    carry: Any,
    infeed: InfeedQueue | None = None,
    outfeed: OutfeedQueue | None = None,
    *,
    maximum_iterations: int | None = None,
    chunk: int | None = None,
    donate: bool = True,
    progress: bool = False,
    replicas: Replicas | None = None,
    recompute: Recompute = None,
) -> Any:
    """Runs steps of `body` on the device as long as `condition(carry)` is true: before each step, also the first one.

    The condition sees the carry and no element; with replicas it must be true on all of them. Elements are consumed for the steps that
    are done, and no others. The host looks at the end of each chunk whether to go on. Without feeds and `chunk`, all steps are one chunk.

    Args: maximum_iterations: steps at most; None: any number. The others, what is returned and raised: see `repeat`.
    Raises: TypeError if the condition returns anything but one scalar of dtype bool.
    """
    most = None if maximum_iterations is None else whole_number("maximum_iterations", maximum_iterations, least=0)
    require_function("condition", condition, "(carry) -> bool; a number of steps is for repeat")
    require_function("body", body, "(carry, ...) -> carry: while_loop(condition, body, carry, ...)")
    _require_queues(infeed, outfeed)
    require_recompute(recompute)
    divided = infeed is not None or outfeed is not None or chunk is not None
    whole = DEFAULT_CHUNK if divided else _MOST_STEPS
    steps = _chunk_steps(chunk, whole if most is None else min(most, whole), outfeed)
    spread = spread_over(replicas, infeed, outfeed)
    state = prepared(carry, donate=donate, loop="while_loop")
    if spread is not None:
        state = spread.placed(state)
    counting = counters(state.structure)
    kept = while_loop_loop(
        body,
        condition,
        key=_key(state),
        infed=infeed is not None,
        outfeed=outfeed,
        shardings=_shardings(state),
        spread=spread,
        recompute=recompute,
    )
    program = kept.program(Span(steps=steps if infeed is not None or outfeed is not None else 1))
    with _Run("while_loop()", kept, state.tree, infeed, outfeed, total=most, progress=progress) as run:
        if counting:
            run.tell(update_size(f"while_loop_{name_of(body)}", counting, infeed, replicas, None))
        if infeed is not None:
            infeed.begin(chunk_steps=steps, steps=None, carry_place=state.place, over=replicas)
        with _group(kept, steps, 0):
            going = most is None or most > 0
            while going:
                try:
                    elements = run.elements(steps)
                except Exception:
                    if run.steps == 0 and not _holds(condition, run.carry, spread):
                        break  # no element is needed
                    raise
                limit = steps if most is None else min(steps, most - run.steps)
                there = None if elements is None or infeed is None else elements.elements // infeed.elements_per_step
                if there is not None:
                    limit = min(limit, there)
                args = run.carry, np.int32(limit), None if elements is None else elements.on_device
                if outfeed is not None and not run.steps:
                    run.will_enqueue(lambda args=args: program.trace(*args).out_info[-1])
                carry, status, values = program(*args)
                if infeed is not None:
                    infeed.wake()  # before the host waits
                going = (found := int(status)) > 0
                done = found if found >= 0 else ~found
                if infeed is not None and elements is not None and done * infeed.elements_per_step < elements.elements:
                    infeed.give_back(elements, done * infeed.elements_per_step)
                run.did(done, carry, values)
                going = going and (most is None or run.steps < most)
    return run.reached[0]


@final
class _Run:
    """One call of a loop: it has reserved its feeds, knows what is done, and says so when something ends it.

    Attributes: reached: what the last step has returned that is known to be done, and how many steps were done for it. It is read without a
        call after the end, where a Ctrl-C finds nobody who keeps it (`CtrlC.end`).
    """

    def __init__(
        self,
        name: str,
        loop: Loop,
        carry: Any,
        infeed: InfeedQueue | None,
        outfeed: OutfeedQueue | None,
        *,
        total: int | None,
        progress: bool,
    ) -> None:
        self.reached: tuple[Any, int] = carry, 0  # set at once: no Ctrl-C comes between a carry and its number of steps
        self._name, self._loop, self._infeed, self._outfeed = name, loop, infeed, outfeed
        self._total, self._progress = total, progress
        self._started = 0  # chunks
        self._ahead = 0  # of them since the device was waited for
        self._since: float | None = None  # when it was, as time.perf_counter tells it
        self._ctrl_c = CtrlC()
        self._bar: AbstractContextManager[tuple[Callable[[int], None], Callable[[str], None]]] | None = None
        self._describe: Callable[[str], None] | None = None
        self._advance: Callable[[int], None] | None = None
        self._feeding = False
        self._taken: Chunk | None = None  # elements of a chunk that is about to start
        self._update: UpdateSize | None = None

    @property
    def carry(self) -> Any:
        """The carry that is reached."""
        return self.reached[0]

    @property
    def steps(self) -> int:
        """How many steps were done for the carry."""
        return self.reached[1]

    def __enter__(self) -> _Run:
        self._ctrl_c.begin()
        try:
            self._reserve()
            if self._progress:
                from tilestep.train.progress_bar import shown  # rich takes a while to import

                self._bar = shown(self._name, self._total)
                self._advance, self._describe = self._bar.__enter__()
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        has_come = False
        try:
            if self._bar is not None:
                self._bar.__exit__(kind, error, trace)
            if self._infeed is not None:
                if self._taken is not None and (isinstance(error, Exception) or not self._is_lost()):  # the program did not start
                    self._infeed.give_back(self._taken, 0)
                self._infeed.release()
            if self._outfeed is not None:
                self._outfeed.release()
            if self._update is not None and self.steps:
                self._update.ended(self.carry, self.steps)
        finally:
            has_come = self._ctrl_c.end()
        if error is None and not has_come:
            return
        if has_come or isinstance(error, KeyboardInterrupt):
            self._interrupted(error or KeyboardInterrupt())
        if error is not None and self._feeding and not isinstance(error, KeyboardInterrupt):
            note = f"{self._name} had done {self.steps:,} steps; tilestep.train.loop_state(error) has the carry after them" + (
                f". The infeed's dataset has had {self._infeed.consumed:,} elements used" if self._infeed is not None else ""
            )
            tell_loop_state(error, carry=self.carry, steps=self.steps, note=note)

    def tell(self, update: UpdateSize | None) -> None:
        """Says what an update is of."""
        self._update = update
        if self._describe is not None and update is not None:
            self._describe(f"{self._name}, {update}")

    def elements(self, steps: int) -> Chunk | None:
        """What the next chunk of `steps` steps needs: its elements, and room in the outfeed."""
        self._ctrl_c.check()
        self._feeding = True
        if self._outfeed is not None:
            self._outfeed.make_room(steps, self._ctrl_c.waiting)
        if self._infeed is not None:
            self._taken = self._infeed.take(self._ctrl_c.waiting, wake=False)
        self._feeding = False
        return self._taken

    def will_enqueue(self, kinds: Callable[[], Any]) -> None:
        """The first chunk is about to start; of its values, stacked, `kinds` gives shapes and dtypes."""
        assert self._outfeed is not None
        self._feeding = True
        self._outfeed.require_alike(kinds)
        self._feeding = False

    def did(self, steps: int, carry: Any, values: Any) -> None:
        """A chunk of so many steps has been started, and `carry` is what it returns."""
        self._ctrl_c.is_noting = True
        try:
            self.reached = carry, self.steps + steps
            taken, self._taken = self._taken, None
            if self._outfeed is not None:
                self._feeding = True
                self._outfeed.deliver(values, steps)
                self._feeding = False
        finally:
            self._ctrl_c.is_noting = False
        if self._infeed is not None:
            self._infeed.wake()
        if self._update is not None and taken is not None and not self._started:
            self._update.began(taken)
            self.tell(self._update)
        self._started += 1
        self._ahead += 1
        if self._advance is not None or self._ahead >= self._loop.in_flight:
            # on a real machine the loop is one program, and nobody waits
            hints.wait_untimed(_jax.tree.leaves(self.carry), _jax.block_until_ready)
            self._waited(taken)
        if self._advance is not None:
            self._advance(self.steps)

    def _waited(self, taken: Chunk | None) -> None:
        """Sets how many chunks like this one are started before the next wait."""
        now = time.perf_counter()
        if self._since is not None:
            most = _MOST_IN_FLIGHT
            if taken is not None:
                size = sum(leaf.nbytes for leaf in _jax.tree.leaves(taken.on_device))
                most = min(most, max(FIRST_IN_FLIGHT, _IN_FLIGHT_BYTES // max(1, size)))
            lasting = (now - self._since) / self._ahead
            self._loop.in_flight = min(most, max(_LEAST_IN_FLIGHT, int(_IN_FLIGHT_WALL_S / lasting)))
        self._since, self._ahead = now, 0

    def _is_lost(self) -> bool:
        """Whether a program that has been started has the carry, and nobody knows what it returns."""
        return any(leaf.is_deleted() for leaf in _jax.tree.leaves(self.carry) if isinstance(leaf, jax.Array))

    def _interrupted(self, error: BaseException) -> None:
        """Raises: LoopInterrupt, when what was started is done. Not if the Ctrl-C came, out of our hands, while the carry was donated."""
        if not self._is_lost():
            _jax.block_until_ready(self.carry)
            interrupt = LoopInterrupt(carry=self.carry, steps=self.steps)
            tell_loop_state(interrupt, carry=self.carry, steps=self.steps)
            raise interrupt from error


def _require_queues(infeed: object, outfeed: object) -> None:
    for name, value, kind in (("infeed", infeed, InfeedQueue), ("outfeed", outfeed, OutfeedQueue)):
        if value is not None and not isinstance(value, kind):
            hint = belongs_to(value, "infeed", "outfeed") or "; InfeedQueue(dataset) makes one of a dataset" * (name == "infeed")
            raise TypeError(f"{name} is a {type(value).__name__}: it must be an {kind.__name__}, or None{hint}")


def _holds(condition: Callable[[Any], Any], carry: Any, spread: Spread | None) -> bool:
    def check(carry: Any) -> Any:
        return truth(condition, carry)

    return bool(_jax.jit(check if spread is None else spread.over_all(check))(carry))


def _group(loop: Loop, steps: int, rest: int) -> AbstractContextManager[None]:
    """The chunks' programs are one program to an emulated machine, unless the caller says what is."""
    return contextlib.nullcontext() if hints.current_group() else hints.program_group(f"{loop.name} {steps}+{rest}")


def _chunk_steps(chunk: int | None, default: int, outfeed: OutfeedQueue | None, cadence: Cadence | None = None) -> int:
    depth = None if outfeed is None or outfeed.mode == "last" or outfeed.when_full == "drop" else outfeed.buffer_depth
    if chunk is None:
        most = max(1, default if depth is None else min(default, depth))
        return most if cadence is None else cadence.chunk_steps(most)
    steps = whole_number("chunk", chunk, least=1, most=_MOST_STEPS)
    if depth is not None and steps > depth:
        raise ValueError(f"chunk is {steps}, but the outfeed holds the values of {depth} steps at most: choose a chunk of {depth} or less")
    return steps


def _span(cadence: Cadence | None, kept: Loop, done: int, steps: int) -> Span:
    """What the next chunk of `steps` steps does, after `done` steps."""
    if cadence is None or kept.unsteady:
        return Span(steps=steps)
    return Span(steps=steps, every=cadence.count, first=cadence.first_update(done, steps))


def _key(carry: Carry) -> Any:
    return carry.structure, carry.shardings


def _shardings(carry: Carry) -> Any:
    """Where the carry's leaves must be after the loop, as a tree; None lets XLA choose."""
    return None if not carry.shardings else _jax.tree.unflatten(carry.structure, carry.shardings)
