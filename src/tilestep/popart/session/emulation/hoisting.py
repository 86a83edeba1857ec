"""Arrays that a stage's function has in itself, such as an operator's constant, as arguments: a pipeline's stage may not capture them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

from tilestep.popart.session.graph import Values
from tilestep.popart.session.replication import AXIS
from tilestep.train.untyped import jax as _jax

Run = Callable[[Values, Values, Sequence[Any], Any], tuple[Any, Values]]  # (parameters, auxiliary state, what comes in, key)
_NAME: Final = " constant "  # how their names begin


def hoisted(run: Run, arguments: tuple[Any, ...], *, replicas: int) -> tuple[Run, dict[str, jax.ShapeDtypeStruct]]:
    """(the function with such arrays as further auxiliary state, their shapes by name).

    Args:
        arguments: shapes and dtypes of the function's.
        replicas: whose collectives it may have.
    """
    axes = [(AXIS, replicas)] if replicas > 1 else None
    found = _arrays(_jax.make_jaxpr(run, axis_env=axes)(*arguments).consts)
    if not found:
        return run, {}
    names = [f"{_NAME}{number}" for number in range(len(found))]

    def with_constants(params: Values, aux: Values, given: Sequence[Any], key: Any) -> tuple[Any, Values]:
        mine = {name: aux[name] for name in names}
        rest = params, {name: value for name, value in aux.items() if name not in mine}, given, key
        closed, shapes = _jax.make_jaxpr(run, return_shape=True)(*rest)
        values = iter(mine.values())
        consts = [next(values) if np.ndim(const) else const for const in closed.consts]
        outputs, new = _jax.tree.unflatten(_jax.tree.structure(shapes), _jax.core.eval_jaxpr(closed.jaxpr, consts, *_jax.tree.leaves(rest)))
        return outputs, {**new, **mine}

    return with_constants, {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in zip(names, found, strict=True)}


def _arrays(consts: Sequence[Any]) -> list[Any]:
    return [const for const in consts if np.ndim(const)]
