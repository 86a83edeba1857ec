"""Finds which steps of a loop update the parameters, if its carry accumulates gradients, so that no step need ask."""

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeGuard

import jax
import numpy as np
from numpy.typing import NDArray

from tilestep import hints
from tilestep.train.gradients.accumulation import AccumulationState
from tilestep.train.offload import platform_of
from tilestep.train.other_arguments import Body, Step
from tilestep.train.untyped import Pytree, Structure
from tilestep.train.untyped import jax as _jax

MOST_PROGRAMS: Final = (
    4  # for chunks of one length whose updates are at different steps; with more of them, a branch in the step costs less
)

_jnp: Any = jax.numpy
_lock = threading.Lock()
_known: dict[int, tuple[weakref.ref[Any], int]] = {}  # by a counter's id: a reference to it, and its value


@dataclass(frozen=True, kw_only=True)
class MicrobatchCounter:
    """A leaf of a carry that counts microbatches."""

    leaf: int  # its index in the carry
    count: int  # microbatches for each update


@dataclass(frozen=True, kw_only=True)
class UpdatePattern:
    """An update for every `count` steps."""

    count: int
    accumulated: int  # microbatches since the last update, before the loop's first step

    def first_update(self, done: int, steps: int) -> int | None:
        """The first step that updates, from 1, in a chunk of `steps` steps after `done` steps of the loop; None: no step updates."""
        first = self.count - (self.accumulated + done) % self.count
        return first if first <= steps else None

    def chunk_steps(self, most: int) -> int:
        """Steps of a chunk, `most` or less, so that all chunks, or every few, update at the same steps."""
        if most >= self.count:
            return most - most % self.count
        divisor = max(steps for steps in range(1, most + 1) if self.count % steps == 0)
        return divisor if divisor * MOST_PROGRAMS >= most else most

    def is_worth_programs(self, steps: int, total: int) -> bool:
        """Whether chunks of `steps` steps, in a loop of `total` steps, make few different programs."""
        starts = range(0, min(total, steps * self.count), steps)
        return len({self.first_update(done, steps) for done in starts[: self.count]}) <= MOST_PROGRAMS


@functools.lru_cache(maxsize=256)
def counters_in(structure: Structure) -> tuple[MicrobatchCounter, ...]:
    """The counters of a carry. Those inside of an accumulating optimiser do not count, because it sees updates only."""
    counters: list[MicrobatchCounter] = []

    def visit(node: Structure, leaf: int) -> None:
        data = node.node_data()
        if data is None:
            return
        children = node.children()
        if data[0] is AccumulationState:
            if children[0].num_leaves == 1 and not children[3].num_leaves:  # else each step asks whether it is an update's last
                counters.append(MicrobatchCounter(leaf=leaf, count=data[1][0]))
            return
        for child in children:
            visit(child, leaf)
            leaf += child.num_leaves

    visit(structure, 0)
    return tuple(counters)


def update_pattern_of(carry: Pytree, counters: Sequence[MicrobatchCounter], steps: int, loop: str) -> UpdatePattern | None:
    """The updates of a loop of `steps` steps; None if its optimisers update at different steps.

    Raises: ValueError if the loop would end amid an accumulation.
    """
    leaves = _jax.tree.leaves(carry)
    patterns: set[UpdatePattern] = set()
    for counter in counters:
        for accumulated in _values(leaves[counter.leaf]):
            _require_whole(accumulated, counter.count, steps, loop)
            patterns.add(UpdatePattern(count=counter.count, accumulated=accumulated))
    return patterns.pop() if len(patterns) == 1 else None


def remember(carry: Pytree, counters: Sequence[MicrobatchCounter], value: int) -> None:
    """Notes the value of the carry's counters, so that the next loop need not wait for it."""
    leaves = _jax.tree.leaves(carry)
    with _lock:
        for counter in counters:
            leaf = leaves[counter.leaf]
            _known[id(leaf)] = weakref.ref(leaf, functools.partial(_forget, id(leaf))), value


def _forget(key: int, reference: weakref.ref[Any]) -> None:
    if _known.get(key, (None, 0))[0] is reference:
        del _known[key]


def _values(counter: jax.Array | NDArray[Any]) -> set[int]:
    known = _known.get(id(counter))
    if known is not None and known[0]() is counter:
        return {known[1]}
    if isinstance(counter, jax.Array) and not counter.is_fully_addressable:
        counter = counter.addressable_shards[0].data
    if isinstance(counter, jax.Array) and platform_of(counter) in hints.dry_platforms:
        return {0}  # a dry run has no values: accumulations begin with the loop
    with hints.untimed():
        return set(np.asarray(counter).ravel().tolist())


def _require_whole(accumulated: int, count: int, steps: int, loop: str) -> None:
    over = (accumulated + steps) % count
    if not over or not steps:
        return
    legal = [length for length in (steps - over, steps - over + count) if length > 0]
    rule = f"a multiple of {count}" if not accumulated else f"{count - accumulated} or a multiple of {count} more"
    there = f", {accumulated} of which are in its carry already" if accumulated else ""
    raise ValueError(
        f"{loop} accumulates the gradients of {count} microbatches{there}, so its number of steps must be {rule}: "
        f"{steps} is not; the nearest {'are' if len(legal) > 1 else 'is'} {' and '.join(map(str, legal))}"
    )


def specialized(body: Body, known: Literal["between", "last"]) -> Body:
    """The body for a step that is known to update ("last") or not to ("between"), so that it has no branch.

    Its call raises ValueError if it does not add exactly one microbatch wherever its carry accumulates.
    """

    @functools.wraps(body)
    def run(carry: Pytree, *args: Pytree, **kwargs: Pytree) -> Pytree:
        return _map_states(_counted, body(_map_states(functools.partial(dataclasses.replace, known=known), carry), *args, **kwargs))

    return run


def _counted(state: AccumulationState) -> AccumulationState:
    if state.known != "done":
        raise ValueError("a step of the loop added no microbatch")
    return dataclasses.replace(state, known=None)


def _map_states(function: Callable[[AccumulationState], AccumulationState], tree: Pytree) -> Pytree:
    def changed(node: Pytree) -> Pytree:
        return function(node) if _is_state(node) else node

    return _jax.tree.map(changed, tree, is_leaf=_is_state)


def _is_state(node: object) -> TypeGuard[AccumulationState]:
    return isinstance(node, AccumulationState)


def scan(between: Step, last: Step, carry: Pytree, elements: Pytree, *, steps: int, count: int, first: int | None) -> tuple[Pytree, Pytree]:
    """Like `jax.lax.scan`, but of two steps: a loop over updates, around a loop over each update's microbatches but the last one.

    Args:
        between: a step that does not update.
        last: a step that updates: number `first`, counted from 1, and each `count`-th after it.
        elements: stacked along their first axis, [steps, ...].
        steps: of both kinds.
        count: steps for each update.
        first: None: no step updates.
    Returns: (the carry, the steps' values stacked along their first axis).
    """

    def at(index: jax.Array | np.int32) -> Pytree:
        return _jax.tree.map(lambda stacked: _jax.lax.dynamic_index_in_dim(stacked, index, keepdims=False), elements)

    def some(carry: Pytree, begin: jax.Array | np.int32, number: int) -> tuple[Pytree, Pytree]:
        return _jax.lax.scan(lambda carry, index: between(carry, at(begin + index)), carry, np.arange(number, dtype=np.int32))

    def cycle(carry: Pytree, begin: jax.Array | np.int32, number: int) -> tuple[Pytree, Pytree]:
        if number == 1:
            carry, value = last(carry, at(begin))
            return carry, _jax.tree.map(lambda value: value[None], value)
        carry, values = some(carry, begin, number - 1)
        carry, value = last(carry, at(begin + (number - 1)))
        return carry, _jax.tree.map(lambda values, value: _jnp.concatenate([values, value[None]]), values, value)

    if first is None:
        return some(carry, np.int32(0), steps)
    parts: list[Pytree] = []
    head = 0 if first == count else first
    if head:
        carry, values = cycle(carry, np.int32(0), head)
        parts.append(values)
    cycles, tail = divmod(steps - head, count)
    if cycles:
        begins = np.arange(head, head + cycles * count, count, dtype=np.int32)
        carry, values = _jax.lax.scan(lambda carry, begin: cycle(carry, begin, count), carry, begins)
        parts.append(_jax.tree.map(lambda values: values.reshape(cycles * count, *values.shape[2:]), values))
    if tail:
        carry, values = some(carry, np.int32(steps - tail), tail)
        parts.append(values)
    return carry, parts[0] if len(parts) == 1 else _jax.tree.map(lambda *values: _jnp.concatenate(values), *parts)
