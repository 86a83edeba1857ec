"""Optimisers of the published runs: variables in halves, and what an update computes in float32 as far as the run did."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax


def in_float32(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """`optimizer` with state and arithmetic in float32, whatever the variables' dtype; no float32 copy of the variables is kept."""

    def wide(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)

    def init(params: Any) -> Any:
        return optimizer.init(wide(params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        changes, state = optimizer.update(wide(updates), state, None if params is None else wide(params))
        return jax.tree.map(lambda change, variable: change.astype(variable.dtype), changes, updates), state

    return optax.GradientTransformation(init, update)
