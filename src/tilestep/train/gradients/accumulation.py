"""Gradient accumulation: one update of the parameters for the gradients of several microbatches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import jax
import numpy as np
from jax.typing import DTypeLike

from tilestep.messages import shortened, shown
from tilestep.train.gradients.recompute import Recompute, in_loop, require_recompute
from tilestep.train.numbers import whole_number
from tilestep.train.offload import Offload, choice_for, in_memories_of, on_device, placed, platform_of, transformation
from tilestep.train.optimizers.initial_state import in_one_program
from tilestep.train.optimizers.offloaded import offloaded
from tilestep.train.optimizers.sharded import sharded
from tilestep.train.other_arguments import (
    arguments_of,
    belongs_to,
    bool_or_number,
    require_bools,
    require_dtype,
    require_function,
    require_one_of,
)
from tilestep.train.replicas.collectives import Reduction as ReplicaReduction
from tilestep.train.replicas.collectives import cross_replica, reduced_gradients, require_replica_reduction
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

if TYPE_CHECKING:
    import optax

Reduction = Literal["sum", "mean", "running_mean"]
Choice = Callable[[str, Any], Any]  # (path of a variable such as "layers/0/kernel", the variable) -> what is chosen for it

_REDUCTIONS: Final = ("sum", "mean", "running_mean")
_MOST: Final = 2**31 - 1  # microbatches, which are counted in 32 bits


@functools.partial(
    _jax.tree_util.register_dataclass, data_fields=("microbatch", "accumulators", "inner", "updates"), meta_fields=("count", "known")
)
@dataclass(frozen=True, kw_only=True)
class AccumulationState:
    """State of `gradient_accumulation`, a pytree.

    Attributes:
        microbatch: int32[], the number of microbatches whose gradients are in the accumulators: 0 to `count` - 1.
        accumulators: a tree like the parameters', zeros where `microbatch` is 0; None for parameters that are neither real nor complex.
        inner: the optimiser's state.
        updates: int32[], how many there were, if the program does not know beforehand at which call the next one comes; else None.
        count: microbatches for each update; 0 if a function says it.
        known: what a loop knows of the microbatch that comes: "between" updates, or the "last" one before an update; None: nothing. "done"
            when it has been added, by which the loop sees that each of its steps adds one.
    """

    microbatch: jax.Array
    accumulators: Pytree
    inner: Pytree
    updates: jax.Array | None
    count: int
    known: Literal["between", "last", "done"] | None = None


def gradient_accumulation(
    optimizer: optax.GradientTransformation,
    count: int | Callable[[jax.Array], jax.typing.ArrayLike],
    *,
    dtype: DTypeLike | Choice | None = None,
    reduction: Reduction = "sum",
    replica_reduction: ReplicaReduction | None = None,
    offload_optimizer_state: Offload = None,
    shard_optimizer_state: bool | int = False,
    skip_nonfinite: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """An optimiser that adds up the gradients of `count` microbatches before `optimizer` sees them.

    Each call of `update` takes the gradients of one microbatch. It returns zeros, but at each `count`-th call the updates of `optimizer`
    for the accumulated gradients. In `repeat` a step is a microbatch, and the number of steps must be a multiple of `count`; the loop
    then has no branch: each update stands behind its microbatches. Anywhere else it is a branch of the program (`jax.lax.cond`).

    Args:
        optimizer: any of optax. It gets gradients in the accumulators' dtype, and its state has the dtype of accumulators and variables
            together (`jnp.promote_types`). Only the updates have the variables' dtype again; without `params`, `update` takes the
            gradients' dtype for it. Further arguments of `update` are those of the last microbatch.
        count: microbatches for each update, 1 or more. Or a function of the updates done so far, int32[], that JAX can trace; it returns
            the number for the next one, as `every_k_schedule` of `optax.MultiSteps`. A loop may then have any number of steps, and each of
            its steps asks whether it is the last of an update.
        dtype: of the accumulators: None (the variable's own), a dtype, or a function of (path, variable) that returns one of these. Paths
            are like "layers/0/kernel".
        reduction: "sum". "mean": the sum divided by `count`. "running_mean": the mean after each microbatch, which overflows in no dtype
            that holds the gradients.
        replica_reduction: of the replicas' accumulated gradients, once for each update: "sum", "mean", or None, with which this replica's
            own reach `optimizer`, such as a `cross_replica(...)`.
        offload_optimizer_state: the part of the optimiser's state that is in the host's memory between updates, as `offload` of
            `offloaded`. None: all but scalars, on a platform whose devices have a memory of their own (not CPU), with a warning where that
            is not possible. A mapping may have entries for "accumulators", which then move in each step, and "parameters", for `placed`.
        shard_optimizer_state: whether each replica keeps only its part of the optimiser's state, see `sharded`. A number: it is divided
            within groups of so many successive replicas.
        skip_nonfinite: whether a microbatch whose gradients have an infinite number or none is left out, and does not count. Each step of a
            loop then asks whether it is the last of an update. Not in one with several replicas, each of which would leave out its own.

    Returns:
        The optimiser. Its state is an AccumulationState.

    Raises:
        ValueError: when a number or name is out of its bounds, or a state is to be divided but not offloaded. From `update`: when gradients
            have other shapes than the parameters, or the state is that of another accumulation.
        TypeError: when `optimizer` is no optimiser, or `offload_optimizer_state` is of another kind. From `init`: when a dtype cannot hold
            the variable's gradients, and as for `offloaded`.
    """
    from optax import GradientTransformationExtraArgs  # which takes a while to import

    transformation(optimizer)
    schedule = count if callable(count) else None
    number = 0 if schedule is not None else whole_number("count", count, least=1, most=_MOST, hint=belongs_to(count, "reduction"))
    require_bools(skip_nonfinite=skip_nonfinite)
    if skip_nonfinite and replica_reduction is not None:
        raise ValueError(
            "skip_nonfinite is True, and replica_reduction is given: replicas that leave out different microbatches would not update "
            "together; look at the loss of all replicas in the step instead (`cross_replica_sum`)"
        )
    is_open = schedule is not None or skip_nonfinite  # the program asks at each call
    _require_reduction(reduction)
    if replica_reduction is not None:
        optimizer = cross_replica(optimizer, replica_reduction=replica_reduction)
    shard, group_size = bool_or_number("shard_optimizer_state", shard_optimizer_state, "replicas of a group")
    require_dtype("dtype", dtype, allow_function=True)
    if shard and choice_for(offload_optimizer_state, "optimizer_state") is False:
        raise ValueError(
            f"shard_optimizer_state is {shown(shard_optimizer_state)}, and offload_optimizer_state False: parts of a state are kept in the "
            "host's memory; leave the latter None, or give sharded(optimizer) as the optimiser, which divides a state that stays on the "
            "device"
        )
    wrapped = offloaded(sharded(optimizer, group_size=group_size) if shard else optimizer, offload_optimizer_state)
    away = offload_optimizer_state if isinstance(offload_optimizer_state, Mapping) else {}

    def init(params: Pytree) -> AccumulationState:
        platform = platform_of(params)
        return in_one_program(functools.partial(state_of, platform), params, platform)

    def state_of(platform: str, params: Pytree) -> AccumulationState:
        params = on_device(params)
        accumulators = placed(zeros_for(params, dtype), away, kind="accumulators", platform=platform)
        microbatch = _jnp.zeros((), np.int32)
        return AccumulationState(
            microbatch=microbatch,
            accumulators=accumulators,
            inner=wrapped.init(promoted(params, accumulators)),
            updates=_jnp.zeros((), np.int32) if is_open else None,
            count=number,
        )

    def update(updates: Pytree, state: AccumulationState, params: Pytree = None, **extra_args: Any) -> tuple[Pytree, AccumulationState]:
        gradients = on_device(updates)
        _require_own(state, number)
        if state.known == "done":
            raise ValueError("the gradients of a second microbatch were given in one step of the loop")
        before = on_device(state.accumulators)
        accumulators = added(before, gradients, state.microbatch, reduction)
        needed, counts = number, True
        if schedule is not None:
            needed = _scheduled(schedule, state.updates)
        if skip_nonfinite:
            counts = _all_finite(gradients)
            accumulators = _jax.tree.map(lambda new, old: _jnp.where(counts, new, old), accumulators, before)
        held = state.microbatch + _jnp.asarray(counts, np.int32)

        def apply(accumulators: Pytree, inner: Pytree) -> tuple[Pytree, Pytree, Pytree]:
            final = _map(lambda gradient, acc: gradient if acc is None else finished(acc, needed, reduction), gradients, accumulators)
            seen = None if params is None else promoted(on_device(params), accumulators)
            changes, inner = wrapped.update(final, inner, seen, **extra_args)
            changes = _map(lambda change, like: change.astype(_jnp.result_type(like)), changes, gradients if params is None else params)
            # Zeros that XLA does not know for such: it makes them where the sums were, once nobody needs those, and not beside them.
            return changes, inner, _jax.tree.map(lambda acc: _jnp.where(state.microbatch < 0, acc, 0), accumulators)

        def wait(accumulators: Pytree, inner: Pytree) -> tuple[Pytree, Pytree, Pytree]:
            kinds, _, _ = _jax.eval_shape(apply, accumulators, inner)
            return _jax.tree.map(lambda kind: _jnp.zeros(kind.shape, kind.dtype), kinds), inner, accumulators

        now: Any = {"last": apply, "between": wait}.get(state.known or "")
        updates = state.updates
        if updates is not None:
            is_last = (held >= needed) & counts
            now = functools.partial(_jax.lax.cond, is_last, apply, wait)
            microbatch, updates = _jnp.where(is_last, 0, held), updates + _jnp.asarray(is_last, np.int32)
        else:
            if now is None and number == 1:
                now = apply
            if now is None:
                now = functools.partial(_jax.lax.cond, state.microbatch == number - 1, apply, wait)
            microbatch = held % number
        changes, inner, accumulators = now(accumulators, state.inner)
        return changes, dataclasses.replace(
            state,
            microbatch=microbatch,
            updates=updates,
            accumulators=in_memories_of(accumulators, state.accumulators),
            inner=inner,
            known=None if state.known is None else "done",
        )

    return GradientTransformationExtraArgs(init, update)  # pyrefly: ignore[bad-argument-type]


def _scheduled(schedule: Callable[[jax.Array], Any], updates: jax.Array | None) -> jax.Array:
    """Microbatches of the next update, int32[], at least 1. Raises: TypeError if the function returns something else."""
    number = _jnp.asarray(schedule(_jnp.zeros((), np.int32) if updates is None else updates))
    if number.shape != () or not _jnp.issubdtype(number.dtype, _jnp.integer):
        raise TypeError(
            f"count returned {number.dtype}[{','.join(map(str, number.shape))}]: a function of the updates done so far returns one whole "
            "number, the microbatches of the next update"
        )
    return _jnp.maximum(number.astype(np.int32), 1)


def _all_finite(gradients: Pytree) -> jax.Array:
    leaves = [leaf for leaf in _jax.tree.leaves(gradients) if _jnp.issubdtype(leaf.dtype, _jnp.inexact)]
    return _jnp.stack([_jnp.isfinite(leaf).all() for leaf in leaves]).all() if leaves else _jnp.asarray(True)


def accumulate_gradients(
    loss_fn: Callable[..., Any],
    params: Pytree,
    microbatches: Pytree,
    *,
    take: Callable[[Pytree], Pytree] | None = None,
    has_aux: bool = False,
    dtype: DTypeLike | Choice | None = None,
    reduction: Reduction = "sum",
    replica_reduction: ReplicaReduction | None = None,
    recompute: Recompute = None,
) -> tuple[Pytree, Pytree]:
    """Losses and accumulated gradients of all microbatches: a loop in the program, for a step that takes its whole batch at once.

    Args:
        loss_fn: `loss_fn(params, ...)` returns a real scalar, [], or with `has_aux` a pair of it and a pytree of arrays. After the
            parameters come a microbatch's items, as `repeat` gives a body its element: those of a tuple or list as further arguments, of a
            mapping with string keys as keywords, anything else as one argument.
        params: a pytree of real or complex arrays. Those in the host's memory come to the device once.
        microbatches: a pytree of arrays, [microbatches, ...], one microbatch or more.
        take: a function that makes the microbatch of what `microbatches` has, before anything is differentiated. So microbatches may come
            one by one, with `np.arange(n)` for `microbatches` and `lambda _: infeed(None, shape)[0]`. None: it is taken as it is.
        has_aux: whether `loss_fn` returns a pair.
        dtype: of the accumulators, see `gradient_accumulation`.
        reduction: of the gradients, see `gradient_accumulation`.
        replica_reduction: of the replicas' accumulated gradients: "sum", "mean", or None, which leaves each replica its own.
        recompute: what the gradients compute again instead of storing, in functions that `recomputed` marks in `loss_fn`.

    Returns:
        (losses, gradients), with `has_aux` ((losses, aux), gradients). Losses, [microbatches], and the arrays of aux, [microbatches, ...],
        are stacked. Gradients have the parameters' structure and shapes, and the accumulators' dtype.

    Raises:
        ValueError: when the microbatches' leading axes differ or are empty.
        TypeError: when an array has no leading axis, and as for `gradient_accumulation` and `jax.grad`.
    """
    _require_reduction(reduction)
    if replica_reduction is not None:
        require_replica_reduction(replica_reduction)
    require_recompute(recompute)
    require_bools(has_aux=has_aux)
    require_dtype("dtype", dtype, allow_function=True)
    require_function("loss_fn", loss_fn, "(params, ...) -> loss")
    if take is not None:
        require_function("take", take, "(microbatch) -> microbatch")
    number = _leading(microbatches)
    gradient_of = in_loop(_jax.value_and_grad(loss_fn, has_aux=has_aux), recompute)
    params = on_device(params)
    zeros = zeros_for(params, dtype)

    def step(accumulators: Pytree, numbered: Any) -> tuple[Pytree, Pytree]:
        index, microbatch = numbered
        args, kwargs = arguments_of(microbatch if take is None else take(microbatch))
        value, gradients = gradient_of(params, *args, **kwargs)
        return added(accumulators, gradients, index, reduction), value

    accumulators, values = _jax.lax.scan(step, zeros, (np.arange(number, dtype=np.int32), microbatches))
    gradients = _jax.tree.map(lambda acc: finished(acc, number, reduction), accumulators)
    return values, gradients if replica_reduction is None else reduced_gradients(gradients, replica_reduction)


def effective_batch_size(microbatch: int, count: int = 1, replicas: int | Replicas = 1) -> int:
    """The number of samples for each update.

    Args:
        microbatch: samples of a microbatch, 1 or more.
        count: microbatches for each update, 1 or more.
        replicas: their number, 1 or more, or the Replicas of the loop.

    Returns:
        microbatch * count * replicas, in samples.

    Raises:
        TypeError: when an argument is no whole number.
        ValueError: when a number is below 1.
    """
    numbers = {"microbatch": microbatch, "count": count, "replicas": replicas.count if isinstance(replicas, Replicas) else replicas}
    samples, times, copies = (whole_number(name, number, least=1) for name, number in numbers.items())
    return samples * times * copies


def zeros_for(params: Pytree, dtype: DTypeLike | Choice | None = None) -> Pytree:
    """Accumulators of the parameters' gradients: zeros, and None for parameters that are neither real nor complex.

    Raises: TypeError for a dtype that cannot hold them; it names the variable.
    """
    return _jax.tree_util.tree_map_with_path(lambda path, variable: _zeros(path_name(path), variable, dtype), params)


def path_name(path: Any) -> str:
    """How functions that choose by variable know one: "layers/0/kernel"."""
    return _jax.tree_util.keystr(path, simple=True, separator="/")


def added(accumulators: Pytree, gradients: Pytree, microbatch: jax.Array, reduction: Reduction) -> Pytree:
    """The accumulators with one more microbatch's gradients. Args: microbatch: int32[], how many were in them before."""

    def add(gradient: jax.Array | None, accumulator: jax.Array | None) -> jax.Array | None:
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


def finished(accumulator: jax.Array, count: int | jax.Array, reduction: Reduction) -> jax.Array:
    """What the optimiser gets of an accumulator after `count` microbatches."""
    if reduction != "mean":
        return accumulator
    return (accumulator.astype(_at_least_32_bits(accumulator.dtype)) / count).astype(accumulator.dtype)


def _at_least_32_bits(dtype: np.dtype[Any]) -> DTypeLike:
    """A dtype in which a number of microbatches is not rounded: halves hold few of them, bfloat16 none between 256 and 258."""
    return np.float32 if dtype.itemsize < np.dtype(np.float32).itemsize else dtype


def promoted(params: Pytree, accumulators: Pytree) -> Pytree:
    """The parameters as the optimiser sees them, so that its state keeps its dtype when it meets gradients of the accumulators'."""

    def one(variable: jax.Array | None, accumulator: jax.Array | None) -> jax.Array | None:
        if variable is None or accumulator is None:
            return variable
        return _jnp.asarray(variable, _jnp.promote_types(_jnp.result_type(variable), accumulator.dtype))

    return _map(one, params, accumulators)


def _map(function: Callable[[Any, Any], Any], tree: Pytree, other: Pytree) -> Pytree:
    """`jax.tree.map` over two trees, the first of which may have None where the other has anything; there it stays None."""
    return _jax.tree.map(lambda a, b: None if a is None else function(a, b), tree, other, is_leaf=lambda leaf: leaf is None)


def _zeros(path: str, variable: jax.Array, dtype: DTypeLike | Choice | None) -> Any:
    own = _jnp.result_type(variable)
    if not _jnp.issubdtype(own, _jnp.inexact):
        return None
    wanted = dtype
    if callable(wanted) and not isinstance(wanted, type):
        wanted = wanted(path, variable)
    try:
        kind = own if wanted is None else _jax.dtypes.canonicalize_dtype(wanted)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the accumulator of {path or 'the variable'} cannot have dtype {shown(wanted)}: {shortened(error, 300)}"
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


def _require_own(state: Pytree, count: int) -> None:
    """Raises: TypeError or ValueError for the state of another optimiser."""
    if not isinstance(state, AccumulationState):
        raise TypeError(f"the state is a {type(state).__name__}: it must be the AccumulationState that this optimiser's init has returned")
    if state.count != count:
        raise ValueError(
            f"the state accumulates {state.count or 'a scheduled number of'} microbatches for each update, but the optimiser "
            f"{count or 'a scheduled number'}: make the state with this "
            "optimiser's init, or put what state.inner has into such a one"
        )


def _require_reduction(reduction: Any) -> None:
    require_one_of("reduction", reduction, _REDUCTIONS)


def _leading(microbatches: Pytree) -> int:
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
