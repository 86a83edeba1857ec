"""Which steps of a loop update the parameters, where its carry accumulates gradients: known before the loop runs, so that no step asks."""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import numpy as np

from tilestep import hints
from tilestep.train.calling import Body, Step
from tilestep.train.gradients.accumulation import AccumulationState
from tilestep.train.offload import platform_of
from tilestep.train.untyped import jax as _jax

_MOST_PROGRAMS: Final = 4  # of chunks of one length that differ in where updates are; beyond, a branch in the step costs less than they do

_jnp: Any = jax.numpy
_lock = threading.Lock()
_held: dict[int, tuple[weakref.ref[Any], int]] = {}  # by the counter's id: it, and its value


@dataclass(frozen=True, kw_only=True)
class Counter:
    """Where a carry counts microbatches. Attributes: leaf: its index among the carry's leaves. count: microbatches for each update."""

    leaf: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """An update for every `count` steps. Attributes: held: microbatches since the last one, before the loop's first step."""

    count: int
    held: int

    def first_update(self, done: int, steps: int) -> int | None:
        """Of a chunk of `steps` steps, after `done` steps of the loop: the number of steps up to its first update; None if it has none."""
        first = self.count - (self.held + done) % self.count
        return first if first <= steps else None

    def chunk_steps(self, most: int) -> int:
        """Steps of a chunk, `most` or less, such that updates are at the same steps of each, or of every few."""
        if most >= self.count:
            return most - most % self.count
        divisor = max(steps for steps in range(1, most + 1) if self.count % steps == 0)
        return divisor if divisor * _MOST_PROGRAMS >= most else most

    def is_worth_programs(self, steps: int, total: int) -> bool:
        """Whether chunks of `steps` steps, in a loop of `total` steps, make few different programs."""
        differing = range(0, min(total, steps * self.count), steps)
        return len({self.first_update(done, steps) for done in differing[: self.count]}) <= _MOST_PROGRAMS


@functools.lru_cache(maxsize=256)
def counters(structure: Any) -> tuple[Counter, ...]:
    """What accumulates in a carry of this structure; not what is inside of an accumulating optimiser, which sees updates only."""
    found: list[Counter] = []

    def visit(node: Any, leaf: int) -> None:
        data = node.node_data()
        if data is None:
            return
        children = node.children()
        if data[0] is AccumulationState:
            if children[0].num_leaves == 1:
                found.append(Counter(leaf=leaf, count=data[1][0]))
            return
        for child in children:
            visit(child, leaf)
            leaf += child.num_leaves

    visit(structure, 0)
    return tuple(found)


def cadence_of(carry: Any, found: Sequence[Counter], steps: int, loop: str) -> Cadence | None:
    """When a loop of `steps` steps updates; None if its optimisers don't do it at the same steps.

    Raises: ValueError if it would end amid an accumulation.
    """
    leaves = _jax.tree.leaves(carry)
    cadences: set[Cadence] = set()
    for counter in found:
        for held in _values(leaves[counter.leaf]):
            _require_whole(held, counter.count, steps, loop)
            cadences.add(Cadence(count=counter.count, held=held))
    return cadences.pop() if len(cadences) == 1 else None


def remember(carry: Any, found: Sequence[Counter], held: int) -> None:
    """The carry's counters are known to be `held`: nobody has to wait for their values."""
    leaves = _jax.tree.leaves(carry)
    with _lock:
        for counter in found:
            leaf = leaves[counter.leaf]
            _held[id(leaf)] = weakref.ref(leaf, functools.partial(_forget, id(leaf))), held


def _forget(key: int, gone: weakref.ref[Any]) -> None:
    if _held.get(key, (None, 0))[0] is gone:
        del _held[key]


def _values(counter: Any) -> set[int]:
    known = _held.get(id(counter))
    if known is not None and known[0]() is counter:
        return {known[1]}
    if isinstance(counter, jax.Array) and not counter.is_fully_addressable:
        counter = counter.addressable_shards[0].data
    if isinstance(counter, jax.Array) and platform_of(counter) in hints.dry_platforms:
        return {0}  # a dry run has no values: accumulations begin with the loop
    with hints.untimed():
        return set(np.asarray(counter).ravel().tolist())


def _require_whole(held: int, count: int, steps: int, loop: str) -> None:
    over = (held + steps) % count
    if not over or not steps:
        return
    legal = [length for length in (steps - over, steps - over + count) if length > 0]
    what = f"a multiple of {count}" if not held else f"{count - held} or a multiple of {count} more"
    there = f", {held} of which are in its carry already" if held else ""
    raise ValueError(
        f"{loop} accumulates the gradients of {count} microbatches{there}, so its number of steps must be {what}: "
        f"{steps} is not; the nearest {'are' if len(legal) > 1 else 'is'} {' and '.join(map(str, legal))}"
    )


def paced(body: Body, known: Literal["between", "last"]) -> Body:
    """The body when it is known what its step does: in the first of an update's steps, or in the last.

    Its call raises ValueError if it does not add one microbatch wherever its carry accumulates.
    """

    @functools.wraps(body)
    def run(carry: Any, *args: Any, **kwargs: Any) -> Any:
        return _map_states(_counted, body(_map_states(functools.partial(dataclasses.replace, known=known), carry), *args, **kwargs))

    return run


def _counted(state: AccumulationState) -> AccumulationState:
    if state.known != "done":
        raise ValueError("a step of the loop added no microbatch")
    return dataclasses.replace(state, known=None)


def _map_states(function: Callable[[Any], Any], tree: Any) -> Any:
    def changed(node: Any) -> Any:
        return function(node) if _is_state(node) else node

    return _jax.tree.map(changed, tree, is_leaf=_is_state)


def _is_state(node: Any) -> bool:
    return isinstance(node, AccumulationState)


def scan(between: Step, last: Step, carry: Any, elements: Any, *, steps: int, count: int, first: int | None) -> tuple[Any, Any]:
    """Like `jax.lax.scan`: `steps` steps. Number `first`, counted from 1, and each `count`-th after it are `last`, the others `between`.

    It is a loop over updates, in which there is a loop over the microbatches before the last one.
    """

    def at(index: Any) -> Any:
        return _jax.tree.map(lambda stacked: _jax.lax.dynamic_index_in_dim(stacked, index, keepdims=False), elements)

    def some(carry: Any, begin: Any, number: int) -> tuple[Any, Any]:
        return _jax.lax.scan(lambda carry, index: between(carry, at(begin + index)), carry, np.arange(number, dtype=np.int32))

    def cycle(carry: Any, begin: Any, number: int) -> tuple[Any, Any]:
        if number == 1:
            carry, value = last(carry, at(begin))
            return carry, _jax.tree.map(lambda value: value[None], value)
        carry, values = some(carry, begin, number - 1)
        carry, value = last(carry, at(begin + (number - 1)))
        return carry, _jax.tree.map(lambda values, value: _jnp.concatenate([values, value[None]]), values, value)

    if first is None:
        return some(carry, np.int32(0), steps)
    parts: list[Any] = []
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
