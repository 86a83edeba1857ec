"""What the programs of a session do with each tensor on its way: they look at it, tap its gradient and give it its name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from tilestep.popart.session.graph import Values

Mark = Callable[[str, Any], Any]  # (name, value) -> the value in its place


def marking(captured: Values, marked: Values, taps: Values, *, tensors: Collection[str], loss: str = "", named: bool = False) -> Mark:
    """What each tensor of a model is given to.

    Args:
        captured: gets the values of `tensors`.
        marked: gets the value of `loss`.
        taps: zeros that are added to tensors whose gradients are wanted.
        tensors: that are looked at.
        loss: what is differentiated; '' in inference.
        named: whether tensors get the names by which `jax.checkpoint` knows them.
    """

    def mark(name: str, value: Any) -> Any:
        if name in tensors:
            captured[name] = jnp.asarray(value)
        if name in taps:
            value = value + taps[name]  # a zero whose gradient is that of the value
        if named and isinstance(value, jax.Array):  # else it is a constant, which may decide shapes
            value = checkpoint_name(value, name)
        if name == loss:
            marked[name] = jnp.asarray(value)
        return value

    return mark
