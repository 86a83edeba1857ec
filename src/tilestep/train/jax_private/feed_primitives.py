"""Infeed and outfeed as JAX primitives: their effect, their rules, and the functions that XLA:CPU calls for them.

It needs what is private in JAX: how an effect is made known, and how it passes from program to program.
"""

import atexit
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.ffi
import numpy as np
from jax._src import core, dispatch, effects
from jax._src.interpreters import ad
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from tilestep.errors import UnsupportedError
from tilestep.hints import INFEED_TARGET, OUTFEED_TARGET, UNKNOWN_ZERO_TARGET, dry_platforms
from tilestep.train import _feeds

_batching: Any = batching  # JAX's types don't tell what these modules hold
_dispatch: Any = dispatch
_mlir: Any = mlir
_ffi: Any = jax.ffi

_DIFFERENTIATES: Final = (ad.JVPTrace, ad.LinearizeTrace)
PLATFORMS: Final = ("cpu", "ipu")  # by their numbers in native/queue.c


class _FeedEffect(effects.Effect):
    """The feeds of a program happen in the order in which it was written; on several devices, on each by itself."""

    def __repr__(self) -> str:
        return "Feed"

    __str__ = __repr__


_FEED: Final = _FeedEffect()
for _kinds in (
    effects.ordered_effects,
    effects.shardable_ordered_effects,
    effects.lowerable_effects,
    effects.control_flow_allowed_effects,
):
    _kinds.add_type(_FeedEffect)


class _FeedPrimitive(Primitive):
    """Refuses to be differentiated, also where no derivative passes through it: JAX would take it out of the loop that it is in."""

    def bind_with_trace(self, trace: Any, *rest: Any) -> Any:
        if isinstance(trace, _DIFFERENTIATES):
            raise UnsupportedError(
                f"{self.name} inside of what is differentiated (jax.grad, jvp, vjp): take the data before and pass it in, or return what "
                "is to be sent (has_aux=True) and send it afterwards"
            )
        return super().bind_with_trace(trace, *rest)


_infeed_p: Any = _FeedPrimitive("infeed")
_outfeed_p: Any = _FeedPrimitive("outfeed")


def bind_infeed(avals: Sequence[jax.ShapeDtypeStruct]) -> list[Any]:
    """The arrays of the next element, which has these shapes and dtypes."""
    return _infeed_p.bind(avals=tuple((aval.shape, aval.dtype) for aval in avals))


def bind_outfeed(leaves: Sequence[Any]) -> None:
    """Sends arrays as one element."""
    _outfeed_p.bind(*leaves)


def _infeed_result(*, avals: tuple[tuple[tuple[int, ...], Any], ...]) -> tuple[list[Any], set[Any]]:
    return [core.ShapedArray(shape, dtype) for shape, dtype in avals], {_FEED}


def _outfeed_result(*leaves: Any) -> tuple[list[Any], set[Any]]:
    del leaves
    return [], {_FEED}


def _lower(target: str) -> Callable[..., Any]:
    call = _ffi.ffi_lowering(target, has_side_effect=True)

    def lower(ctx: Any, *operands: Any, **parameters: Any) -> list[Any]:
        del parameters
        platform = _platform(ctx, target)
        _require_own_devices(ctx, target)
        _close_at_exit()
        with_token = ctx.replace(avals_in=[core.abstract_token, *ctx.avals_in], avals_out=[core.abstract_token, *ctx.avals_out])
        token, *results = call(with_token, ctx.tokens_in.get(_FEED), *operands, platform=np.int64(PLATFORMS.index(platform)))
        ctx.set_tokens_out(_mlir.TokenSet({_FEED: token}))
        return results

    return lower


def _platform(ctx: Any, target: str) -> str:
    platforms = tuple(ctx.platforms or ctx.module_context.platforms)
    if len(platforms) == 1 and platforms[0] in PLATFORMS:
        return platforms[0]
    raise UnsupportedError(
        f"{_verb(target)} inside of a program works on one of the platforms {' and '.join(PLATFORMS)}, but this program is for "
        f"{', '.join(platforms)}: pass the data as arguments, or let tilestep.train.repeat feed it"
    )


def _require_own_devices(ctx: Any, target: str) -> None:
    """Refuses what a partitioner would have to divide: an element belongs to one device."""
    context = ctx.module_context.axis_context
    mesh = getattr(context, "mesh", None)
    if mesh is not None:
        divided = [str(axis) for axis, size in mesh.shape.items() if size > 1 and axis not in context.manual_axes]
        if not divided:
            return
        where = f"mesh axes {', '.join(divided)} are divided by the compiler"
    elif getattr(context, "num_devices", 1) > 1:
        where = f"the program runs on {context.num_devices} devices"
    else:
        return
    raise UnsupportedError(
        f"{_verb(target)} inside of a program belongs to one device, but {where}: wrap the feed in jax.shard_map over all axes, "
        "where each device has a queue of its own"
    )


def _verb(target: str) -> str:
    return target.removeprefix("tilestep_")


def _close_at_exit() -> None:
    """Programs that still wait at exit are refused their data; before anything else at exit waits for them, so it is registered last."""
    atexit.unregister(_feeds.close)
    atexit.register(_feeds.close)


def _no_vmap(name: str) -> Callable[..., Any]:
    def refuse(*unused: Any, **parameters: Any) -> Any:
        del unused, parameters
        raise UnsupportedError(
            f"{name} cannot be vmapped: an element is for one program, not one for each row; take the feed out of jax.vmap and map over "
            "the element's leading axis"
        )

    return refuse


def _order_within_programs_only() -> None:
    """Has each program with feeds begin by itself.

    JAX passes the token of an ordered effect from one program of a thread to the next, whatever their devices: a program would wait for
    another device's data, and after one that failed all others would fail too. What one thread dispatches to a device runs in order anyway.
    """
    token_input, token_result = _dispatch.RuntimeTokenSet.get_token_input, _dispatch.RuntimeTokenSet.set_token_result
    first: dict[tuple[Any, ...], Any] = {}

    @functools.wraps(token_input)
    def get_token_input(self: Any, eff: Any, devices: Any) -> Any:
        if not isinstance(eff, _FeedEffect):
            return token_input(self, eff, devices)
        key = (*devices, devices[0].platform in dry_platforms)  # values of a dry run and real ones don't mix
        if key not in first or first[key]._buf.is_deleted():
            self.current_tokens.pop(eff, None)
            first[key] = token_input(self, eff, devices)
            self.current_tokens.pop(eff, None)
        return first[key]

    @functools.wraps(token_result)
    def set_token_result(self: Any, eff: Any, token: Any) -> None:
        if not isinstance(eff, _FeedEffect):
            token_result(self, eff, token)

    _dispatch.RuntimeTokenSet.get_token_input = get_token_input
    _dispatch.RuntimeTokenSet.set_token_result = set_token_result


_order_within_programs_only()
_infeed, _outfeed, _unknown_zero = _feeds.targets()
for _primitive, _target, _capsule, _result in (
    (_infeed_p, INFEED_TARGET, _infeed, _infeed_result),
    (_outfeed_p, OUTFEED_TARGET, _outfeed, _outfeed_result),
):
    _primitive.multiple_results = True
    _primitive.def_effectful_abstract_eval(_result)
    _primitive.def_impl(functools.partial(_dispatch.apply_primitive, _primitive))
    _batching.fancy_primitive_batchers[_primitive] = _no_vmap(_verb(_target))
    _ffi.register_ffi_target(_target, _capsule, platform="cpu")  # XLA:CPU computes the values of `ipu`, too, which is its own affair
    _mlir.register_lowering(_primitive, _lower(_target))  # elsewhere it says that it cannot
    _mlir.register_lowering(_primitive, _lower(_target), platform="cpu")
_ffi.register_ffi_target(UNKNOWN_ZERO_TARGET, _unknown_zero, platform="cpu")
