"""Loops that are called again with the carry that they returned: what the call before found out of its arguments holds still.

Written to touch little: it runs between two programs, when the processor's caches are full of these programs' data.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Final, Generic, NamedTuple, TypeVar

from jax.tree_util import tree_flatten, tree_leaves

from tilestep.train.calling import Body
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue

P = TypeVar("P")

_reference: Any = weakref.ref
_recent: Final[dict[int, Recent[Any]]] = {}  # by the id of the carry's first leaf


class Call(NamedTuple):
    """A loop's arguments but for the carry. Attributes: rest: those of which equal ones will do."""

    body: Body
    infeed: InfeedQueue | None
    outfeed: OutfeedQueue | None
    rest: tuple[Any, ...]


class Recent(NamedTuple, Generic[P]):
    """A call that has returned. Attributes: plan: what it found out. sure: whether that held for a call before it, too."""

    plan: P
    sure: bool
    references: list[Any]  # to the carry's leaves; the first one forgets the call. Nothing is kept alive here, nor are body and feeds
    structure: Any
    whose: tuple[Any, Any, Any]
    rest: tuple[Any, ...]


def found(carry: Any, call: Call) -> Recent[Any] | None:
    """The call with these arguments that returned this very carry, if there is one."""
    leaves, structure = tree_flatten(carry)
    recent = _recent.get(id(leaves[0])) if leaves else None
    if recent is None or recent.structure != structure or recent.rest != call.rest:
        return None
    for reference, leaf in zip(recent.references, leaves, strict=True):
        if reference() is not leaf:
            return None
    for reference, one in zip(recent.whose, call, strict=False):
        if (reference if reference is None else reference()) is not one:
            return None
    return recent


def remember(carry: Any, call: Call, plan: P, *, sure: bool, before: Recent[P] | None) -> None:
    """The call has returned the carry. Args: before: what `found` gave for it."""
    if before is None:
        leaves, structure = tree_flatten(carry)
        try:
            whose = (_weak(call.body), _weak(call.infeed), _weak(call.outfeed))
        except TypeError:  # a body of another kind than a function, which nothing tells from one that is gone
            return
    else:
        leaves, structure, whose = tree_leaves(carry), before.structure, before.whose
    if leaves:
        key = id(leaves[0])
        references: list[Any] = [_reference(leaves[0], functools.partial(_forget, key)), *map(_reference, leaves[1:])]
        _recent[key] = Recent(plan, sure, references, structure, whose, call.rest)


def _weak(one: Any) -> Any:
    return None if one is None else _reference(one)


def _forget(key: int, gone: Any) -> None:
    recent = _recent.get(key)
    if recent is not None and recent.references[0] is gone:
        del _recent[key]
