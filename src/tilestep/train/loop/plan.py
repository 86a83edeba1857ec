"""What a loop finds from its arguments before its first step: the steps of a chunk, the programs, where the carry is, when it updates."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from jax.sharding import NamedSharding, Sharding
from jax.typing import ArrayLike

from tilestep.train.feeds.chunks import DEFAULT_CHUNK
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.gradients.recompute import Recompute, require_recompute
from tilestep.train.loop import call_cache
from tilestep.train.loop.call_cache import CachedCall, LoopCall
from tilestep.train.loop.carry import Carry, prepared
from tilestep.train.loop.program_cache import ChunkSpan, LoopPrograms, LoopSettings, repeat_loop, while_loop_loop
from tilestep.train.loop.replicated import ReplicatedLoop, replicated_loop
from tilestep.train.loop.update_pattern import MicrobatchCounter, UpdatePattern, counters_in, update_pattern_of
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import belongs_to, require_function
from tilestep.train.planned import CompilerOptions
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_ORDER: Final = ": repeat(n, body, carry, ...)"
_MOST_TOTAL: Final = 2**63 - 1  # steps of a loop, which the host counts
_MOST_PROGRAM_STEPS: Final = 2**31 - 1  # a program counts them in 32 bits


@dataclass(frozen=True, kw_only=True)
class RepeatPlan:
    """A call of `repeat`, ready to run."""

    total: int  # steps of the loop
    chunk_steps: int  # steps of a chunk, but the last one, which may have fewer
    loop: LoopPrograms  # its programs
    sharding: Sharding | None  # sharding, shardings: as a Carry has them
    shardings: tuple[NamedSharding | None, ...]
    counters: tuple[MicrobatchCounter, ...]  # where the carry counts microbatches
    pattern: UpdatePattern | None  # which steps update, if the chunks' programs are made for that; else each step finds out

    @property
    def is_repeatable(self) -> bool:
        """Whether it is also the plan for the carry that the loop returns: no accumulation has moved on."""
        return not self.counters or (self.pattern is not None and not self.pattern.accumulated and not self.loop.unsteady)

    def has_sharding_of(self, other: RepeatPlan) -> bool:
        """Whether the carries of two plans are on the same devices, divided alike."""
        return self.sharding == other.sharding and self.shardings == other.shardings

    def span(self, done: int, steps: int) -> ChunkSpan:
        """The next chunk of `steps` steps, after `done` steps of the loop."""
        if self.pattern is None or self.loop.unsteady:
            return ChunkSpan(steps=steps)
        return ChunkSpan(steps=steps, every=self.pattern.count, first=self.pattern.first_update(done, steps))


class PlannedCall(NamedTuple):
    """A call of `repeat` with its plan."""

    plan: RepeatPlan
    carry: Pytree  # ready to be donated
    cached: CachedCall[RepeatPlan] | None  # the earlier call that returned this carry, if it is known
    is_confirmed: bool  # whether the plan held for the earlier call too, so that the next call need not plan again


def placed_carry(carry: Pytree, replicas: Replicas, infeed: InfeedQueue | None, outfeed: OutfeedQueue | None) -> Pytree:
    """The carry on each replica. Raises: TypeError, ValueError: as `repeat`."""
    replicated = replicated_loop(replicas, infeed, outfeed)
    assert replicated is not None
    return replicated.placed(prepared(carry, donate=False, loop="repeat")).tree


def plan_repeat(call: LoopCall, carry: Pytree, *, donate: bool) -> PlannedCall:
    """Plans a call of `repeat`, or takes the plan of the earlier call that returned this very carry.

    Raises: TypeError, ValueError: for arguments that `repeat` refuses.
    """
    cached: CachedCall[RepeatPlan] | None = call_cache.lookup(carry, call) if donate and type(call.rest[0]) is int else None
    if cached is not None and cached.is_confirmed:
        return PlannedCall(cached.plan, carry, cached, True)
    plan, ready = _new_plan(call, carry, donate=donate)
    is_confirmed = cached is not None and ready is carry and plan.has_sharding_of(cached.plan)
    return PlannedCall(plan, ready, cached, is_confirmed)


def _new_plan(call: LoopCall, carry: Pytree, *, donate: bool) -> tuple[RepeatPlan, Pytree]:
    """(The plan, the carry ready to be donated). Raises: TypeError, ValueError."""
    n, chunk, replicas, recompute, options, check_nans = call.rest
    total = whole_number("n", whole_number("n", n, least=0, hint=_ORDER), least=0, most=_MOST_TOTAL)
    require_function("body", call.body, f"(carry, ...) -> carry{_ORDER}")
    _require_feeds(call.infeed, call.outfeed)
    require_recompute(recompute)
    replicated = replicated_loop(replicas, call.infeed, call.outfeed)
    state = prepared(carry, donate=donate, loop="repeat")
    if replicated is not None:
        state = replicated.placed(state)
    counters = counters_in(state.structure)
    pattern = update_pattern_of(carry, counters, total, f"repeat({total})") if counters else None
    chunk_steps = _chunk_steps(chunk, min(total, DEFAULT_CHUNK), call.outfeed, pattern)
    loop = repeat_loop(call.body, _settings(call, state, replicated, recompute, options, check_nans=check_nans))
    plan = RepeatPlan(
        total=total,
        chunk_steps=chunk_steps,
        loop=loop,
        sharding=state.sharding,
        shardings=state.shardings,
        counters=counters,
        pattern=pattern if pattern is not None and pattern.is_worth_programs(chunk_steps, total) else None,
    )
    return plan, state.tree


@dataclass(frozen=True, kw_only=True)
class WhilePlan:
    """A call of `while_loop`, ready to run."""

    most: int | None  # steps at most; None: any number
    chunk_steps: int  # steps of a chunk
    loop: LoopPrograms  # its programs
    replicated: ReplicatedLoop | None  # the replicas that it runs on
    carry: Carry  # ready to be donated
    counters: tuple[MicrobatchCounter, ...]  # where the carry counts microbatches


def plan_while_loop(
    condition: Callable[[Pytree], ArrayLike],
    call: LoopCall,
    carry: Pytree,
    *,
    donate: bool,
) -> WhilePlan:
    """Plans a call of `while_loop`. Raises: TypeError, ValueError: for arguments that `while_loop` refuses."""
    maximum_iterations, chunk, replicas, recompute, options = cast(
        "tuple[int | None, int | None, Replicas | None, Recompute, CompilerOptions]", call.rest
    )
    most = None if maximum_iterations is None else whole_number("maximum_iterations", maximum_iterations, least=0, most=_MOST_TOTAL)
    require_function("condition", condition, "(carry) -> bool; a number of steps is for repeat")
    require_function("body", call.body, "(carry, ...) -> carry: while_loop(condition, body, carry, ...)")
    _require_feeds(call.infeed, call.outfeed)
    require_recompute(recompute)
    has_chunks = call.infeed is not None or call.outfeed is not None or chunk is not None
    longest = DEFAULT_CHUNK if has_chunks else _MOST_PROGRAM_STEPS
    chunk_steps = _chunk_steps(chunk, longest if most is None else min(most, longest), call.outfeed)
    replicated = replicated_loop(replicas, call.infeed, call.outfeed)
    state = prepared(carry, donate=donate, loop="while_loop")
    if replicated is not None:
        state = replicated.placed(state)
    loop = while_loop_loop(call.body, condition, _settings(call, state, replicated, recompute, options))
    return WhilePlan(
        most=most, chunk_steps=chunk_steps, loop=loop, replicated=replicated, carry=state, counters=counters_in(state.structure)
    )


def _require_feeds(infeed: object, outfeed: object) -> None:
    for name, value, kind in (("infeed", infeed, InfeedQueue), ("outfeed", outfeed, OutfeedQueue)):
        if value is not None and not isinstance(value, kind):
            hint = belongs_to(value, "infeed", "outfeed") or "; InfeedQueue(dataset) makes one of a dataset" * (name == "infeed")
            raise TypeError(f"{name} is a {type(value).__name__}: it must be an {kind.__name__}, or None{hint}")


def _chunk_steps(chunk: int | None, default: int, outfeed: OutfeedQueue | None, pattern: UpdatePattern | None = None) -> int:
    depth = None if outfeed is None or outfeed.mode == "last" or outfeed.when_full == "drop" else outfeed.buffer_depth
    if chunk is None:
        most = max(1, default if depth is None else min(default, depth))
        return most if pattern is None else pattern.chunk_steps(most)
    steps = whole_number("chunk", chunk, least=1, most=_MOST_PROGRAM_STEPS)
    if depth is not None and steps > depth:
        raise ValueError(f"chunk is {steps}, but the outfeed holds the values of {depth} steps at most: choose a chunk of {depth} or less")
    return steps


def _settings(
    call: LoopCall,
    carry: Carry,
    replicated: ReplicatedLoop | None,
    recompute: Recompute,
    options: CompilerOptions,
    *,
    check_nans: bool = False,
) -> LoopSettings:
    outfeed = call.outfeed
    return LoopSettings(
        key=(carry.structure, carry.shardings),
        has_infeed=call.infeed is not None,
        outfeed=None if outfeed is None else weakref.ref(outfeed),
        keeps_last=outfeed is not None and outfeed.mode == "last",
        shardings=_jax.tree.unflatten(carry.structure, carry.shardings) if carry.shardings else None,
        replicated=replicated,
        recompute=recompute,
        options=options,
        check_nans=check_nans,
    )
