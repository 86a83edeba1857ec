"""Starting a compiled program without looking for it.

A jitted function finds out at each call which program fits its arguments: structure, shapes, dtypes, places, options of JAX. That is a
third of what starting a small program takes the host. Who calls it with the same again and again, and knows it, can start the program
itself. What does so is not public, and used here alone; where JAX has it no more, or not as it is known here, nothing is started so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


class _Private(NamedTuple):
    """What of JAX is needed: all options that programs depend on; the class of arrays."""

    options: Callable[[], object]
    array: type


def _private() -> _Private | None:
    """None if this version of JAX does not have it as it is known here."""
    try:
        from jax._src import array, config

        options: Any = config.trace_context
        options()
        return _Private(options, array.ArrayImpl)
    except (ImportError, AttributeError):
        return None


FOUND: Final = _private()  # None: no program is started directly
_TRACED_OPTIONS: Final = (  # for versions of JAX that do not say which they look at
    "jax_enable_x64",
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
)


def options() -> object:
    """What a jitted function looks at beside its arguments: what is traced with equal ones is the same."""
    return tuple(getattr(_jax.config, name, None) for name in _TRACED_OPTIONS) if FOUND is None else FOUND.options()


def may_start() -> bool:
    """Whether programs may be started directly: not where JAX itself looks at results, and there is a program at all."""
    config = _jax.config
    return FOUND is not None and not (config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs)


def are_plain(leaves: Iterable[Pytree], sharding: Any) -> bool:
    """Whether these are arrays on devices at `sharding`, dense in the order of their axes, and none of them is weakly typed."""
    return FOUND is not None and all(_is_plain(leaf, FOUND.array) and leaf.sharding == sharding for leaf in leaves)


def become_plain(leaves: Iterable[Pytree]) -> bool:
    """Whether these are so, wherever they are, or are NumPy's, which become so when they are put on a device."""
    return FOUND is not None and all(isinstance(leaf, np.ndarray | np.generic) or _is_plain(leaf, FOUND.array) for leaf in leaves)


def _is_plain(leaf: Any, array: type) -> bool:
    if type(leaf) is not array or leaf.aval.weak_type or leaf.is_deleted():
        return False
    layout = leaf.format.layout
    return layout is None or tuple(layout.major_to_minor) == tuple(range(leaf.ndim))


def direct(compiled: Any) -> Callable[..., Any] | None:
    """What starts a compiled program of one device, and gives what the jitted function would.

    It must be given arguments of the structure that the program was compiled for, and arrays as `are_plain` has them, of the same
    shapes and dtypes: nobody looks.

    Args: compiled: a `jax.stages.Compiled`.
    Returns: None for a program that has effects or arrays of keys, and where JAX doesn't have what this takes.
    """
    if FOUND is None:
        return None
    try:
        executable, taken, given = compiled._executable, compiled.in_tree, compiled.out_tree
        call = executable.unsafe_call
        start, handlers = executable.xla_executable.execute_sharded, call.out_handler.handlers
        does_more = call.ordered_effects or call.has_unordered_effects or call.has_host_callbacks or call.mut is not None
        does_more = does_more or bool(compiled._params.const_args)
        kinds = [*executable.in_avals, *executable.out_avals]
        kept = sorted(executable._kept_var_idx)
    except AttributeError:
        return None
    if does_more or any(_jax.dtypes.issubdtype(kind.dtype, _jax.dtypes.extended) for kind in kinds):
        return None
    if len(kept) == taken.num_leaves:

        def call_all(*args: Any) -> Any:
            return given.unflatten(start(taken.flatten_up_to((args, {}))).consume_with_handlers(handlers))

        return call_all

    def call_some(*args: Any) -> Any:
        leaves = taken.flatten_up_to((args, {}))
        return given.unflatten(start([leaves[place] for place in kept]).consume_with_handlers(handlers))

    return call_some
