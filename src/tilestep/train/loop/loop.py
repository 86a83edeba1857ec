"""Training loops that stay on the device: many steps of a program for each call of the host."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import jax
import numpy as np
from jax.typing import ArrayLike

from tilestep import hints
from tilestep.train.checkpoints.checkpoints import Checkpoints, SavingLoop
from tilestep.train.feeds.chunks import DEFAULT_CHUNK
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.recompute import Recompute
from tilestep.train.loop import call_cache, update_pattern
from tilestep.train.loop.call_cache import LoopCall
from tilestep.train.loop.effective_batch import update_size
from tilestep.train.loop.plan import placed_carry, plan_repeat, plan_while_loop
from tilestep.train.loop.program_cache import ChunkSpan, LoopPrograms
from tilestep.train.loop.replicated import ReplicatedLoop
from tilestep.train.loop.session import Session
from tilestep.train.loop.step import truth
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import Body, name_of, require_bools, require_kind
from tilestep.train.patience import Aloud
from tilestep.train.planned import GivenOptions, plan_options_of
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


def repeat(
    n: int,
    body: Body,
    carry: Pytree,
    infeed: InfeedQueue | None = None,
    outfeed: OutfeedQueue | None = None,
    *,
    chunk: int | None = None,
    donate: bool = True,
    progress: bool = False,
    replicas: Replicas | None = None,
    recompute: Recompute = None,
    plan_options: GivenOptions | None = None,
    checkpoints: Checkpoints | None = None,
    check_nans: bool = False,
) -> Pytree:
    """Runs `n` steps of `body` on the device: one program for each chunk of steps, which the host only starts.

    `body(carry, ...)` returns the new carry, with the same structure, shapes and dtypes. With an infeed it also gets the step's element:
    the items of a tuple or list as further arguments, a mapping with string keys as keyword arguments, anything else as one argument.
    JAX traces the body once for each length of chunk. It does not trace it again when a loop with the same body (the same function object)
    and a carry of the same structure, shapes and dtypes is called again.

    Args:
        n: steps, 0 or more. The loop consumes exactly one step's elements for each; elements made ahead stay for the next loop.
        body: the step, a function that JAX can trace.
        carry: a pytree of arrays and numbers, of any shapes. Numbers become arrays of JAX's default dtypes.
        infeed: the source of elements.
        outfeed: receives the values that `body` sends with `outfeed.enqueue`.
        chunk: steps of one program. None: the lesser of n and 64 (and of the outfeed's buffer_depth, unless it drops).
        donate: whether the loop may overwrite the carry's arrays, as with `jax.jit(donate_argnums=...)`. False: they are copied first.
        progress: whether to show a bar with the steps done.
        replicas: the devices on which `body` runs, once on each: with the whole carry, and its own element of the infeed. Each replica
            keeps its own carry, so `body` must combine what it learns from its element (`cross_replica_mean`, `cross_replica(optimizer)`)
            for the carries to stay equal. Values for the outfeed get a leading axis of replicas if there are several. The carry is copied
            to the replicas if it is not there, and returned replicated: JAX shows replica 0's (`replica_differences` compares).
        recompute: what the gradients in `body` compute again instead of storing, in functions that `tilestep.train.recomputed` marks:
            None, "full", a policy of `jax.checkpoint_policies` or a tuple of names (see there).
        plan_options: how the loop is planned on emulated IPUs, such as {"available_memory_proportion": 0.2}, by the names of
            `compiler_options`, with or without `ipu_`. They are checked on any platform, and have no effect on others.
        checkpoints: where the carry and the feeds are saved as the loop goes on. If it has a checkpoint, the loop restores the latest, and
            runs what remains of its `n` steps; if all are done, it returns at once.
        check_nans: whether all numbers of the carry must be finite after each step, but for those in the host's memory. The host then waits
            for each chunk, and the carry is there twice, because a chunk that fails is not done: its elements come again.

    Returns:
        The carry after `n` steps: the structure, shapes and dtypes of `carry`. Its arrays may still be being computed.

    Raises:
        TypeError: when the body does not take its arguments or does not keep the carry's structure, shapes and dtypes.
        ValueError: when a number is out of its bounds, or `n` would end amid an accumulation.
        QueueError: when a feed is closed or in use.
        DatasetError: when the dataset ends before the loop.
        CheckpointError: when a checkpoint cannot be saved or restored.
        NotFiniteError: when `check_nans` finds an infinite number or none. It names the step and the leaf.
        Preempted: after SIGTERM, when a checkpoint is saved.
        LoopInterrupt: at Ctrl-C. It, CheckpointError, QueueError, DatasetError, NotFiniteError and what the dataset itself raises have a
            `loop_state`.
    """
    require_bools(donate=donate, progress=progress, check_nans=check_nans)
    options = plan_options_of(plan_options)
    if checkpoints is None:
        call = LoopCall(body, infeed, outfeed, (n, chunk, replicas, recompute, options, check_nans))
        return _repeat(call, carry, donate=donate, progress=progress)
    require_kind("checkpoints", checkpoints, Checkpoints, "a Checkpoints, or None")
    total = whole_number("n", n, least=0)
    facts = {"accumulation": [counter.count for counter in update_pattern.counters_in(_jax.tree.structure(carry))]}
    if replicas is not None:
        carry = placed_carry(carry, replicas, infeed, outfeed)  # each replica has its own, also in a checkpoint
    chunk = _no_longer_than(checkpoints.every, chunk, outfeed)
    run = SavingLoop(
        checkpoints, f"repeat({total})", carry, infeeds={"infeed": infeed}, outfeeds={"outfeed": outfeed}, total=total, facts=facts
    )
    call = LoopCall(body, infeed, outfeed, (run.left, chunk, replicas, recompute, options, check_nans))
    with run:
        return _repeat(call, run.state, donate=donate, progress=progress, run=run)


def _no_longer_than(every: int | None, chunk: int | None, outfeed: OutfeedQueue | None) -> int | None:
    """Steps of a chunk, so that there is an end of one within `every` steps; None: as a loop chooses by itself."""
    if every is None or (chunk is None and every >= DEFAULT_CHUNK):
        return chunk
    if chunk is not None:
        return min(every, whole_number("chunk", chunk, least=1))
    depth = None if outfeed is None or outfeed.mode == "last" or outfeed.when_full == "drop" else outfeed.buffer_depth
    return every if depth is None else min(every, depth)


def _repeat(call: LoopCall, carry: Pytree, *, donate: bool, progress: bool, run: SavingLoop | None = None) -> Pytree:
    body, infeed, outfeed, (n, _, replicas, *_, check_nans) = call.body, call.infeed, call.outfeed, call.rest
    plan, ready, cached, is_confirmed = plan_repeat(call, carry, donate=donate)
    total, chunk_steps, loop = plan.total, plan.chunk_steps, plan.loop
    name = f"repeat({total if run is None else run.done + total})"
    with Session(name, loop, ready, infeed, outfeed, total=total, progress=progress, checkpoints=run) as session:
        if plan.counters:
            session.show_update(
                update_size(f"repeat_{name_of(body)}", plan.counters, infeed, replicas, None if plan.pattern is None else loop)
            )
        if infeed is not None and total:
            infeed.begin(chunk_steps=chunk_steps, steps=total, carry_sharding=plan.sharding, over=replicas)
        with _group(loop, chunk_steps, total % chunk_steps):
            while (done := session.reached[1]) < total:
                steps = min(chunk_steps, total - done)
                program = loop.program(plan.span(done, steps))
                elements = session.elements(steps)
                args = session.reached[0], None if elements is None else elements.on_device
                if outfeed is not None and not done:
                    session.will_enqueue(lambda program=program, args=args: _values(program.trace(*args).out_info[-1], check_nans))
                is_compiled = done > 0 and steps == chunk_steps
                with Aloud(session.steps_of_device) if is_compiled else contextlib.nullcontext():
                    carry, values = program(*args)
                if check_nans:
                    session.require_finite(values[1])
                session.did(steps, carry, _values(values, check_nans))
        if plan.pattern is not None and not loop.unsteady:
            update_pattern.remember(session.carry, plan.counters, 0)
        if plan.is_repeatable and type(n) is int:
            call_cache.store(session.carry, call, plan, is_confirmed=is_confirmed, cached=cached)
    return session.reached[0]


def _values(values: Pytree, check_nans: bool) -> Pytree:
    """Those for the outfeed, of what a program returns."""
    return values[0] if check_nans else values


def while_loop(
    condition: Callable[[Pytree], ArrayLike],
    body: Body,
    carry: Pytree,
    infeed: InfeedQueue | None = None,
    outfeed: OutfeedQueue | None = None,
    *,
    maximum_iterations: int | None = None,
    chunk: int | None = None,
    donate: bool = True,
    progress: bool = False,
    replicas: Replicas | None = None,
    recompute: Recompute = None,
    plan_options: GivenOptions | None = None,
) -> Pytree:
    """Runs steps of `body` on the device as long as `condition(carry)` is true, which it asks before each step.

    The condition sees the carry and no element. With replicas it must be true on all of them. Elements count as consumed for the steps
    that are done, and no others. At the end of each chunk the host reads whether to go on. Without feeds and `chunk`, all steps are one
    chunk.

    Args:
        condition: a function of the carry that returns one scalar, bool[].
        body, carry, infeed, outfeed: as for `repeat`.
        maximum_iterations: steps at most, 0 or more. None: any number.
        chunk: steps of one program. None: 64 with a feed (or the outfeed's buffer_depth if that is less), else all.
        donate, progress, replicas, recompute, plan_options: as for `repeat`.

    Returns:
        The first carry for which the condition is false, or the carry after `maximum_iterations` steps.

    Raises:
        TypeError: when the condition does not return one scalar of dtype bool, and as for `repeat`.
        ValueError: as for `repeat`.
        QueueError: as for `repeat`.
        DatasetError: as for `repeat`.
        LoopInterrupt: as for `repeat`.
    """
    require_bools(donate=donate, progress=progress)
    call = LoopCall(body, infeed, outfeed, (maximum_iterations, chunk, replicas, recompute, plan_options_of(plan_options)))
    plan = plan_while_loop(condition, call, carry, donate=donate)
    most, chunk_steps, loop = plan.most, plan.chunk_steps, plan.loop
    program = loop.program(ChunkSpan(steps=chunk_steps if infeed is not None or outfeed is not None else 1))
    with Session("while_loop()", loop, plan.carry.tree, infeed, outfeed, total=most, progress=progress) as session:
        if plan.counters:
            session.show_update(update_size(f"while_loop_{name_of(body)}", plan.counters, infeed, replicas, None))
        if infeed is not None:
            infeed.begin(chunk_steps=chunk_steps, steps=None, carry_sharding=plan.carry.sharding, over=replicas)
        with _group(loop, chunk_steps, 0):
            goes_on = most is None or most > 0
            while goes_on:
                try:
                    elements = session.elements(chunk_steps)
                except Exception:
                    if session.steps == 0 and not _holds(condition, session.carry, plan.replicated):
                        break  # no element is needed
                    raise
                limit = chunk_steps if most is None else min(chunk_steps, most - session.steps)
                if infeed is not None and elements is not None:
                    limit = min(limit, elements.elements // infeed.elements_per_step)
                args = session.carry, np.int32(limit), None if elements is None else elements.on_device
                if outfeed is not None and not session.steps:
                    session.will_enqueue(lambda args=args: program.trace(*args).out_info[-1])
                carry, status, values = program(*args)
                if infeed is not None:
                    infeed.wake()  # before the host waits
                with Aloud(session.steps_of_device):
                    status = int(status)
                goes_on, done = status > 0, status if status >= 0 else ~status
                session.did(done, carry, values)
                goes_on = goes_on and (most is None or session.steps < most)
    return session.reached[0]


def _holds(condition: Callable[[Pytree], ArrayLike], carry: Pytree, replicated: ReplicatedLoop | None) -> bool:
    def check(carry: Pytree) -> jax.Array:
        return truth(condition, carry)

    return bool(_jax.jit(check if replicated is None else replicated.on_all_replicas(check))(carry))


def _group(loop: LoopPrograms, steps: int, rest: int) -> AbstractContextManager[None]:
    """Makes the chunks' programs one program to an emulated machine, unless the caller has made a group of programs."""
    if hints.current_group():
        return contextlib.nullcontext()
    loop.groups.add(name := f"{loop.name} {steps}+{rest}")
    return hints.program_group(name)
