"""Caches the previous call's plan: a loop called with the very carry that it returned skips its argument checks.

Lookups touch little memory, because they run between two programs, when the processor's caches are full of these programs' data.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Final, Generic, NamedTuple, TypeVar

from jax.tree_util import tree_flatten, tree_leaves

from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.other_arguments import Body
from tilestep.train.untyped import Pytree, Structure

P = TypeVar("P")

_reference: Any = weakref.ref  # typed, it would ask for a type of each leaf
_cache: Final[dict[int, CachedCall[Any]]] = {}  # by the id of the carry's first leaf


class LoopCall(NamedTuple):
    """A loop's arguments but for the carry."""

    body: Body
    infeed: InfeedQueue | None
    outfeed: OutfeedQueue | None
    rest: tuple[Any, ...]  # arguments that are compared by value; the others must be the same objects


class CachedCall(NamedTuple, Generic[P]):
    """A call that has returned a carry. It keeps no array, body or feed alive."""

    plan: P
    is_confirmed: bool  # whether the plan also held for the call before it
    leaves: list[weakref.ref[Any]]  # weak references to the returned carry's leaves; the first one removes the call from the cache
    structure: Structure  # structure of the carry
    # weak references to the body, the infeed and the outfeed; None for a feed that there was not
    objects: tuple[weakref.ref[Any] | None, weakref.ref[Any] | None, weakref.ref[Any] | None]
    rest: tuple[Any, ...]  # as in Call


def lookup(carry: Pytree, call: LoopCall) -> CachedCall[Any] | None:
    """The call with these arguments that returned this very carry, if there is one."""
    leaves, structure = tree_flatten(carry)
    cached = _cache.get(id(leaves[0])) if leaves else None
    if cached is None or cached.structure != structure or cached.rest != call.rest:
        return None
    for reference, leaf in zip(cached.leaves, leaves, strict=True):
        if reference() is not leaf:
            return None
    for reference, argument in zip(cached.objects, call, strict=False):
        if (reference if reference is None else reference()) is not argument:
            return None
    return cached


def store(carry: Pytree, call: LoopCall, plan: P, *, is_confirmed: bool, cached: CachedCall[P] | None) -> None:
    """Notes that the call has returned the carry. Args: cached: the result of `lookup` for the call."""
    if cached is None:
        leaves, structure = tree_flatten(carry)
        try:
            objects = (_weak(call.body), _weak(call.infeed), _weak(call.outfeed))
        except TypeError:  # a body without weak references: later a new body at the same address could not be told from it
            return
    else:
        leaves, structure, objects = tree_leaves(carry), cached.structure, cached.objects
    if leaves:
        key = id(leaves[0])
        references: list[Any] = [_reference(leaves[0], functools.partial(_forget, key)), *map(_reference, leaves[1:])]
        _cache[key] = CachedCall(plan, is_confirmed, references, structure, objects, call.rest)


def _weak(argument: object) -> weakref.ref[Any] | None:
    return None if argument is None else _reference(argument)


def _forget(key: int, reference: weakref.ref[Any]) -> None:
    cached = _cache.get(key)
    if cached is not None and cached.leaves[0] is reference:
        del _cache[key]
