"""Gradient accumulation: one update of the parameters for the gradients of several microbatches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import jax.numpy as jnp
import numpy as np

from tilestep.messages import plain, shortened, shown
from tilestep.train.calling import arguments_of
from tilestep.train.gradients.recompute import Recompute, in_loop, require_recompute
from tilestep.train.numbers import whole_number
from tilestep.train.offload import Offload, choice_for, in_memories_of, on_device, placed, platform_of, transformation
from tilestep.train.optimizers.initial_state import in_one_program
from tilestep.train.optimizers.offloaded import offloaded
from tilestep.train.optimizers.sharded import sharded
from tilestep.train.other_arguments import belongs_to, require_bool, require_dtype, require_function, require_one_of
from tilestep.train.untyped import jax as _jax

if TYPE_CHECKING:
    import optax

Reduction = Literal["sum", "mean", "running_mean"]
Choice = Callable[[str, Any], Any]  # (path of a variable such as "layers/0/kernel", the variable) -> what is chosen for it

_REDUCTIONS: Final = ("sum", "mean", "running_mean")
_MOST: Final = 2**31 - 1  # microbatches, which are counted in 32 bits

_jnp: Any = jnp


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("microbatch", "accumulators", "inner"), meta_fields=("count", "known"))
@dataclass(frozen=True, kw_only=True)
class AccumulationState:
    """State of `gradient_accumulation`, a pytree.

    Attributes:
        microbatch: int32[], the number of microbatches whose gradients are in the accumulators: 0 to `count` - 1.
        accumulators: a tree like the parameters', zeros where `microbatch` is 0; None for parameters that are neither real nor complex.
        inner: the optimiser's state.
        count: microbatches for each update.
        known: what a loop knows of the microbatch that comes: "between" updates, or the "last" one before an update; None: nothing. "done"
            when it has been added, by which the loop sees that each of its steps adds one.
    """

    microbatch: Any
    accumulators: Any
    inner: Any
    count: int
    known: Literal["between", "last", "done"] | None = None


def gradient_accumulation(
    optimizer: optax.GradientTransformation,
    count: int,
    *,
    dtype: Any | Choice = None,
    reduction: Reduction = "sum",
    offload_optimizer_state: Offload = None,
    shard_optimizer_state: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """An optimiser that adds up the gradients of `count` microbatches before `optimizer` sees them.

    Each call of `update` takes the gradients of one microbatch. It returns zeros, but at each `count`-th call the updates of `optimizer`
    for the accumulated gradients. In `repeat` a step is a microbatch, and the number of steps must be a multiple of `count`; the loop
    then has no branch: each update stands behind its microbatches. Anywhere else it is a branch of the program (`jax.lax.cond`).

    Args:
        optimizer: any of optax. It gets gradients in the accumulators' dtype, and its state has that of accumulators and variables together
            (`jnp.promote_types`); only the updates are of the variables' dtype again. Without `params`, `update` takes the gradients' dtype
            for it. Further arguments of `update` are those of the last microbatch.
        count: microbatches for each update, 1 or more.
        dtype: of the accumulators: None (the variable's own), a dtype, or a function of (path, variable) that returns one of these.
            Paths are like "layers/0/kernel".
        reduction: "sum"; "mean", the sum divided by `count`; "running_mean", the mean after each microbatch, which overflows in no dtype
            that holds the gradients.
        offload_optimizer_state: what of the optimiser's state is in the host's memory but for the updates, as `offload` of `offloaded`.
            None: on a platform whose devices have a memory of their own (not CPU), all but scalars, with a warning where it cannot be.
            A mapping may have entries for "accumulators", which then move in each step, and "parameters", which `placed` heeds.
        shard_optimizer_state: whether each replica keeps its part of the optimiser's state only, see `sharded`.
    Raises: ValueError for a number or name out of its bounds, or a state that is to be divided but not offloaded; TypeError for an
        `offload_optimizer_state` of another kind, or what is no optimiser. From `init` TypeError for a dtype that cannot hold the
        variable's gradients, and what `offloaded` raises. From `update` ValueError for gradients of other shapes than the parameters, and
        for the state of another accumulation.
    """
    from optax import GradientTransformationExtraArgs  # which takes a while to import

    transformation(optimizer)
    number = whole_number("count", count, least=1, most=_MOST, hint=belongs_to(count, "reduction"))
    _require_reduction(reduction)
    require_bool("shard_optimizer_state", shard_optimizer_state)
    require_dtype("dtype", dtype, allow_function=True)
    if shard_optimizer_state and choice_for(offload_optimizer_state, "optimizer_state") is False:
        raise ValueError(
            "shard_optimizer_state is True, and offload_optimizer_state False: parts of a state are kept in the host's memory; leave the "
            "latter None, or give sharded(optimizer) as the optimiser, which divides a state that stays on the device"
        )
    wrapped = offloaded(sharded(optimizer) if shard_optimizer_state else optimizer, offload_optimizer_state)
    away = offload_optimizer_state if isinstance(offload_optimizer_state, Mapping) else {}

    def init(params: Any) -> AccumulationState:
        platform = platform_of(params)
        return in_one_program(functools.partial(state_of, platform), params, platform)

    def state_of(platform: str, params: Any) -> AccumulationState:
        params = on_device(params)
        accumulators = placed(zeros_for(params, dtype), away, kind="accumulators", platform=platform)
        microbatch = _jnp.zeros((), np.int32)
        return AccumulationState(
            microbatch=microbatch, accumulators=accumulators, inner=wrapped.init(promoted(params, accumulators)), count=number
        )

    def update(updates: Any, state: AccumulationState, params: Any = None, **extra_args: Any) -> tuple[Any, AccumulationState]:
        gradients = on_device(updates)
        _require_own(state, number)
        if state.known == "done":
            raise ValueError("the gradients of a second microbatch were given in one step of the loop")
        accumulators = added(on_device(state.accumulators), gradients, state.microbatch, reduction)

        def apply(accumulators: Any, inner: Any) -> tuple[Any, Any, Any]:
            final = _map(lambda gradient, acc: gradient if acc is None else finished(acc, number, reduction), gradients, accumulators)
            seen = None if params is None else promoted(on_device(params), accumulators)
            changes, inner = wrapped.update(final, inner, seen, **extra_args)
            changes = _map(lambda change, like: change.astype(_jnp.result_type(like)), changes, gradients if params is None else params)
            # Zeros that XLA does not know for such: it makes them where the sums were, once nobody needs those, and not beside them.
            return changes, inner, _jax.tree.map(lambda acc: _jnp.where(state.microbatch < 0, acc, 0), accumulators)

        def wait(accumulators: Any, inner: Any) -> tuple[Any, Any, Any]:
            kinds, _, _ = _jax.eval_shape(apply, accumulators, inner)
            return _jax.tree.map(lambda kind: _jnp.zeros(kind.shape, kind.dtype), kinds), inner, accumulators

        now: Any = {"last": apply, "between": wait}.get(state.known or "")
        if now is None and number == 1:
            now = apply
        if now is None:
            now = functools.partial(_jax.lax.cond, state.microbatch == number - 1, apply, wait)
        changes, inner, accumulators = now(accumulators, state.inner)
        return changes, dataclasses.replace(
            state,
            microbatch=(state.microbatch + 1) % number,
            accumulators=in_memories_of(accumulators, state.accumulators),
            inner=inner,
            known=None if state.known is None else "done",
        )

    return GradientTransformationExtraArgs(init, update)


def accumulate_gradients(
    loss_fn: Callable[..., Any],
    params: Any,
    microbatches: Any,
    *,
    has_aux: bool = False,
    dtype: Any | Choice = None,
    reduction: Reduction = "sum",
    recompute: Recompute = None,
) -> tuple[Any, Any]:
    """Losses and accumulated gradients of all microbatches: a loop in the program, for a step that takes its whole batch at once.

    Args:
        loss_fn: `loss_fn(params, ...)` returns a real scalar, with `has_aux` a pair of it and a pytree of arrays. After the parameters come
            a microbatch's items, as `repeat` gives a body its element: a tuple's or list's as further arguments, a mapping's with string
            keys as keywords, anything else as one argument.
        params: a pytree of real or complex arrays; what is in the host's memory comes to the device once.
        microbatches: a pytree of arrays with the microbatches along their leading axis, which has one length, 1 or more.
        dtype, reduction: of the accumulators, see `gradient_accumulation`.
        recompute: what the gradients compute again instead of keeping it, of functions that `recomputed` marks in `loss_fn`.
    Returns: (losses, gradients), with `has_aux` ((losses, aux), gradients). Losses and what is in aux are stacked along a new leading axis;
        gradients are like the parameters, in the accumulators' dtype.
    Raises: ValueError for microbatches whose leading axes differ or are empty; TypeError for those without one, and for what
        `gradient_accumulation` and `jax.grad` refuse.
    """
    _require_reduction(reduction)
    require_recompute(recompute)
    require_bool("has_aux", has_aux)
    require_dtype("dtype", dtype, allow_function=True)
    require_function("loss_fn", loss_fn, "(params, ...) -> loss")
    number = _leading(microbatches)
    gradient_of = in_loop(_jax.value_and_grad(loss_fn, has_aux=has_aux), recompute)
    params = on_device(params)
    zeros = zeros_for(params, dtype)

    def step(accumulators: Any, numbered: Any) -> tuple[Any, Any]:
        index, microbatch = numbered
        args, kwargs = arguments_of(microbatch)
        value, gradients = gradient_of(params, *args, **kwargs)
        return added(accumulators, gradients, index, reduction), value

    accumulators, values = _jax.lax.scan(step, zeros, (np.arange(number, dtype=np.int32), microbatches))
    return values, _jax.tree.map(lambda acc: finished(acc, number, reduction), accumulators)


def effective_batch_size(microbatch: int, count: int = 1, replicas: int = 1) -> int:
    """Samples for each update: those of a microbatch times microbatches for each update times replicas.

    Raises: ValueError for a number below 1.
    """
    numbers = {"microbatch": microbatch, "count": count, "replicas": replicas}
    samples, times, copies = (whole_number(name, number, least=1) for name, number in numbers.items())
    return samples * times * copies


def zeros_for(params: Any, dtype: Any | Choice = None) -> Any:
    """Accumulators of the parameters' gradients: zeros, and None for parameters that are neither real nor complex.

    Raises: TypeError for a dtype that cannot hold them; it names the variable.
    """
    return _jax.tree_util.tree_map_with_path(lambda path, variable: _zeros(path_name(path), variable, dtype), params)


def path_name(path: Any) -> str:
    """How functions that choose by variable know one: "layers/0/kernel"."""
    return _jax.tree_util.keystr(path, simple=True, separator="/")


def added(accumulators: Any, gradients: Any, microbatch: Any, reduction: Reduction) -> Any:
    """The accumulators with one more microbatch's gradients. Args: microbatch: int32[], how many were in them before."""

    def add(gradient: Any, accumulator: Any) -> Any:
        if gradient is None or accumulator is None:
            return accumulator
        if gradient.shape != accumulator.shape:
            raise ValueError(f"a gradient of shape {gradient.shape} was given for a parameter of shape {accumulator.shape}")
        gradient = gradient.astype(accumulator.dtype)
        if reduction != "running_mean":
            return accumulator + gradient
        weight = (1 / (microbatch + 1).astype(_at_least_32_bits(accumulator.dtype))).astype(accumulator.dtype)
        return accumulator + (gradient * weight - accumulator * weight)  # no term is larger than the largest gradient

    return _jax.tree.map(add, gradients, accumulators, is_leaf=lambda leaf: leaf is None)


def finished(accumulator: Any, count: int, reduction: Reduction) -> Any:
    """What the optimiser gets of an accumulator after `count` microbatches."""
    if reduction != "mean":
        return accumulator
    return (accumulator.astype(_at_least_32_bits(accumulator.dtype)) / count).astype(accumulator.dtype)


def _at_least_32_bits(dtype: Any) -> Any:
    """A dtype in which a number of microbatches is not rounded: halves hold few of them, bfloat16 none between 256 and 258."""
    return np.float32 if dtype.itemsize < np.dtype(np.float32).itemsize else dtype


def promoted(params: Any, accumulators: Any) -> Any:
    """The parameters as the optimiser sees them, so that its state keeps its dtype when it meets gradients of the accumulators'."""

    def one(variable: Any, accumulator: Any) -> Any:
        if variable is None or accumulator is None:
            return variable
        return _jnp.asarray(variable, _jnp.promote_types(_jnp.result_type(variable), accumulator.dtype))

    return _map(one, params, accumulators)


def _map(function: Callable[[Any, Any], Any], tree: Any, other: Any) -> Any:
    """`jax.tree.map` over two trees, the first of which may have None where the other has anything; there it stays None."""
    return _jax.tree.map(lambda a, b: None if a is None else function(a, b), tree, other, is_leaf=lambda leaf: leaf is None)


def _zeros(path: str, variable: Any, dtype: Any | Choice) -> Any:
    own = _jnp.result_type(variable)
    if not _jnp.issubdtype(own, _jnp.inexact):
        return None
    wanted = dtype
    if callable(wanted) and not isinstance(wanted, type):
        wanted = cast("Choice", wanted)(path, variable)
    try:
        kind = own if wanted is None else _jax.dtypes.canonicalize_dtype(wanted)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the accumulator of {path or 'the variable'} cannot have dtype {shown(wanted)}: {shortened(plain(error), 300)}"
        ) from error
    if not _jnp.issubdtype(kind, _jnp.complexfloating if _jnp.issubdtype(own, _jnp.complexfloating) else _jnp.inexact):
        raise TypeError(f"an accumulator of dtype {kind} cannot hold the gradients of {path or 'the variable'}, which is {own}")
    try:
        _jnp.promote_types(own, kind)
    except _jax.dtypes.TypePromotionError as error:
        raise TypeError(
            f"the accumulator of {path or 'the variable'} cannot have dtype {kind}, as the variable is {own}: JAX has no dtype for both, "
            "which the optimiser's state would have; choose float16, bfloat16 or a wider one"
        ) from error
    return _jnp.zeros_like(variable, dtype=kind if wanted is None else wanted)  # JAX warns where it has no 64 bits


def _require_own(state: Any, count: int) -> None:
    """Raises: TypeError or ValueError for the state of another optimiser."""
    if not isinstance(state, AccumulationState):
        raise TypeError(f"the state is a {type(state).__name__}: it must be the AccumulationState that this optimiser's init has returned")
    if state.count != count:
        raise ValueError(
            f"the state accumulates {state.count} microbatches for each update, but the optimiser {count}: make the state with this "
            "optimiser's init, or put what state.inner has into such a one"
        )


def _require_reduction(reduction: Any) -> None:
    require_one_of("reduction", reduction, _REDUCTIONS)


def _leading(microbatches: Any) -> int:
    """How many there are."""
    leaves = _jax.tree_util.tree_flatten_with_path(microbatches)[0]
    if not leaves:
        raise ValueError("microbatches has no array, so nothing says how many there are")
    lengths = {}
    for path, leaf in leaves:
        where = f"microbatches{_jax.tree_util.keystr(path)}"
        shape = _jnp.shape(leaf)
        if not shape:
            raise TypeError(f"{where} is a scalar: each array needs the microbatches along its leading axis")
        lengths.setdefault(shape[0], where)
    if len(lengths) > 1:
        found = ", ".join(f"{where} has {length}" for length, where in lengths.items())
        raise ValueError(f"the leading axes of microbatches must have one length, the number of microbatches: {found}")
    (number,) = lengths
    return whole_number("the number of microbatches", number, least=1)
