"""Finds the step after which a number of a loop's carry is not finite."""

from typing import Any, Final

import jax
import numpy as np

from tilestep.train.offload import is_on_host
from tilestep.train.other_arguments import Step
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_NONE: Final = np.int32(2**31 - 1)  # as a step: none


def looked_at(carry: Pytree) -> Pytree:
    """The state of steps that are `looking`: (the carry, steps done, for each leaf the first step that has spoiled it)."""
    return carry, np.int32(0), _jax.numpy.full(len(_jax.tree.leaves(carry)), _NONE)


def looking(step: Step) -> Step:
    """The same step, which looks at the carry after it. Numbers in the host's memory are not looked at."""

    def looked(state: Pytree, element: Pytree) -> tuple[Pytree, Pytree]:
        carry, done, first = state
        carry, values = step(carry, element)
        is_wrong = _jax.numpy.array([~_is_finite(leaf) for leaf in _jax.tree.leaves(carry)], bool)
        return (carry, done + 1, _jax.numpy.where(is_wrong, _jax.numpy.minimum(first, done), first)), values

    return looked


def _is_finite(leaf: jax.Array) -> Any:
    if not _jax.numpy.issubdtype(leaf.dtype, _jax.numpy.inexact) or is_on_host(leaf):
        return np.True_
    return _jax.numpy.isfinite(leaf).all()


def first_wrong(carry: Pytree, found: jax.Array) -> tuple[int, str] | None:
    """(The first step of a chunk after which a number is not finite, the path of the first such leaf); None: there is none.

    Args:
        carry: any of the loop's.
        found: int32[1, leaves] or int32[1, replicas, leaves], of `looking` steps. It is waited for.
    """
    if (step := np.asarray(found).min(initial=_NONE)) == _NONE:
        return None
    firsts = np.asarray(found).reshape(-1, found.shape[-1]).min(0)
    paths = [_jax.tree_util.keystr(path) for path, _ in _jax.tree_util.tree_flatten_with_path(carry)[0]]
    return int(step), f"carry{paths[int(firsts.argmin())]}"
