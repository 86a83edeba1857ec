"""Recomputation: what the backward pass needs is computed again there, and takes no memory in between."""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeVar, cast

from tilestep.messages import shown
from tilestep.train.feeds.outfeed_queue import uncollected
from tilestep.train.jaxprs import programs_of
from tilestep.train.other_arguments import Body, name_of
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

# None: everything is kept. "full": nothing but the function's arguments. A policy of `jax.checkpoint_policies`. Names: what
# `jax.ad_checkpoint.checkpoint_name` calls so is kept, and nothing else.
Recompute = None | Literal["full"] | Callable[..., Any] | tuple[str, ...]

F = TypeVar("F", bound=Callable[..., Any])

_met: ContextVar[list[Recompute] | None] = ContextVar("tilestep_recomputed", default=None)  # by marked functions of a body being traced

_CHECKPOINTS: Final = frozenset({"checkpoint", "remat", "remat2"})  # names of `jax.checkpoint`'s primitive in versions of JAX
_AS_THE_LOOP_SAYS: Final = "as the loop says"

# What the loop whose body is being traced says; JAX's caches tell its values apart. Made at once: JAX compiles anew what it knew before.
_of_loop: Final[Any] = _jax.make_user_context(None)


def recomputed(function: F, recompute: Recompute | Literal["as the loop says"] = _AS_THE_LOOP_SAYS) -> F:
    """A function whose gradients need less memory: the backward pass computes its intermediate values again.

    It is for parts of a differentiated function, such as a layer. The backward pass computes a whole part again before it goes through it,
    so with "full" a single part as large as the loss itself saves nothing. A random key among the arguments gives the same numbers each
    time.

    Args:
        function: of pytrees of arrays.
        recompute: None: nothing is computed again. "full": everything but the arguments. A policy of `jax.checkpoint_policies`. A tuple of
            names: everything but the arguments and the values to which `jax.ad_checkpoint.checkpoint_name` gives such a name. By default,
                the
            choice of the loop around it, `repeat(..., recompute=...)`; nothing outside of a loop.

    Returns:
        The function, with the same values.

    Raises:
        TypeError: when `function` is no function, or `recompute` of another kind.
        ValueError: when `recompute` is another string, or a tuple without names.
    """
    if not callable(function):
        raise TypeError(f"function is {shown(function)}: it must be a function, whose values recomputed() keeps")
    if not (isinstance(recompute, str) and recompute == _AS_THE_LOOP_SAYS):
        return checkpointed(function, recompute)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Pytree:
        said: Recompute = _of_loop.value
        if (met := _met.get()) is not None:
            met.append(said)
        return checkpointed(function, said)(*args, **kwargs)

    return cast("F", run)


def checkpointed(function: F, recompute: Recompute) -> F:
    """`recomputed` by something that is said."""
    require_recompute(recompute)
    if recompute is None:
        return function
    policy: Any = None
    if isinstance(recompute, tuple):
        policy = _jax.checkpoint_policies.save_only_these_names(*recompute)
    elif callable(recompute):
        policy = recompute
    return _jax.checkpoint(function, policy=policy)


def require_recompute(recompute: Any) -> None:
    """Raises: TypeError or ValueError for what says nothing about recomputation."""
    if (
        recompute is None
        or (isinstance(recompute, str) and recompute == "full")
        or (callable(recompute) and not isinstance(recompute, type))
    ):
        return
    if isinstance(recompute, tuple) and recompute and all(isinstance(name, str) for name in cast("tuple[Any, ...]", recompute)):
        return
    kind = ValueError if isinstance(recompute, str | tuple) else TypeError
    raise kind(
        f'recompute is {shown(recompute)}: it must be None, "full", a policy of jax.checkpoint_policies, or a tuple of one or more names '
        "that jax.ad_checkpoint.checkpoint_name gives"
    )


def in_loop(body: Body, recompute: Recompute) -> Body:
    """The body in a loop that says what is recomputed. Its call raises ValueError if nothing in it is marked by `recomputed`.

    Where no marked function is called while the body is traced, there may be one in a jitted function that JAX has traced before: the body
    is traced once more to look for it.
    """
    if recompute is None:
        return body

    def recomputes(args: Any, kwargs: Any) -> bool:
        def look(args: Any, kwargs: Any) -> Any:
            with uncollected():
                return body(*args, **kwargs)

        return _has_checkpoint(_jax.make_jaxpr(look)(args, kwargs).jaxpr)

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Pytree:
        token = _met.set(met := [])
        try:
            with _of_loop(recompute):
                result = body(*args, **kwargs)
                found = bool(met) or recomputes(args, kwargs)
        finally:
            _met.reset(token)
        if not found:
            raise ValueError(
                f"recompute is {shown(recompute)}, but the loop's body {name_of(body)} calls nothing to recompute: differentiate "
                "tilestep.train.recomputed(loss) in place of loss"
            )
        return result

    return run


def _has_checkpoint(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        if equation.primitive.name in _CHECKPOINTS:
            return True
        if any(_has_checkpoint(inner) for inner in programs_of(equation)):
            return True
    return False
