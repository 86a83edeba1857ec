"""The operators that have an implementation here: a function for each (domain, name, version that changed its meaning).

A handler gets the `Call`, then the node's inputs by position (None where one is absent; absent ones at the end are left out), then its
attributes by name, with the defaults of the operator's schema. It returns its result, or a tuple of its results.
"""

import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

Handler = Callable[..., Any]
_H = TypeVar("_H", bound=Handler)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator in the versions from `since` to the next one that is registered.

    Attributes:
        domain: "" is ONNX's own.
        handler: see above.
        needs: positions of the inputs whose values must be known when the program is made, such as a Reshape's shape.
        random: whether it draws random numbers, so that known inputs give no known result.
        state: positions of the inputs whose initialisers it gives new values: they are state in training, and no parameters.
    """

    domain: str
    name: str
    since: int
    handler: Handler
    needs: frozenset[int]
    random: bool
    state: frozenset[int] = frozenset()


_operators: Final[dict[tuple[str, str], list[Operator]]] = {}  # by (domain, name), in the order of `since`


def op(
    *names: str,
    since: int = 1,
    domain: str = "",
    needs: Iterable[int] = (),
    random: bool = False,
    state: Iterable[int] = (),
    dialect: str = "",
) -> Callable[[_H], _H]:
    """Registers the decorated handler for `names`. A second one for the same version takes the first one's place.

    Args: dialect: of a front end that gives these operators a meaning of its own; others don't see the handler.
    """
    read, kept = frozenset(needs), frozenset(state)

    def decorator(handler: _H) -> _H:
        for name in names:
            operator = Operator(domain=domain, name=name, since=since, handler=handler, needs=read, random=random, state=kept)
            versions = _operators.setdefault((_place(domain, dialect), name), [])
            versions[:] = [other for other in versions if other.since != since]
            bisect.insort(versions, operator, key=lambda version: version.since)
        return handler

    return decorator


def register_op(domain: str, name: str, since: int = 1, *, needs: Iterable[int] = (), random: bool = False) -> Callable[[_H], _H]:
    """Registers an operator of one's own, as a decorator of its handler.

    >>> @register_op("com.example", "Twice", 1)
    ... def twice(call, x, *, shift=0.0):
    ...     return 2 * x + shift

    Args:
        domain: of the operator; "" or "ai.onnx" for ONNX's own, which replaces what is here.
        name: as in the model, such as "Softmax".
        since: the first version of the domain in which the operator has this meaning.
        needs: positions of inputs whose values must be known when the program is made.
        random: whether it draws random numbers.

    Raises: ValueError for an empty name or a version below 1.
    """
    if not name or since < 1:
        raise ValueError(f"register_op({domain!r}, {name!r}, {since}): give a name, and a version of at least 1")
    return op(name, since=since, domain=plain_domain(domain), needs=needs, random=random)


def plain_domain(domain: str) -> str:
    """The domain as it is registered: "" for "ai.onnx"."""
    return "" if domain == "ai.onnx" else domain


def _place(domain: str, dialect: str) -> str:
    """Where implementations of a domain stand in a dialect; no domain's name has a space."""
    return f"{dialect} {domain}" if dialect else domain


def find(domain: str, name: str, version: int, *, dialect: str = "") -> Operator | None:
    """The newest implementation whose version is at most `version`; None if there is none. Those of the dialect come first."""
    for place in dict.fromkeys((_place(domain, dialect), domain)):
        versions = _operators.get((place, name), [])
        position = bisect.bisect_right(versions, version, key=lambda operator: operator.since)
        if position:
            return versions[position - 1]
    return None


def all_operators() -> Mapping[tuple[str, str], tuple[Operator, ...]]:
    """All implementations by (domain, name), oldest first, without those of dialects."""
    return {key: tuple(versions) for key, versions in sorted(_operators.items()) if " " not in key[0]}
