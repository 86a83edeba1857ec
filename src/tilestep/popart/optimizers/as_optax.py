"""An optimizer as an optax transformation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers.rule import Arrays, OptimizerState, UpdateContext, UpdateRule

if TYPE_CHECKING:
    from tilestep.popart.optimizers.optimizer import Optimizer


class OptaxState(NamedTuple):
    """The state of the transformation.

    Args:
        microbatches: gradients since the last update, int32.
        optimizer: the rule's state.
    """

    microbatches: jax.Array
    optimizer: OptimizerState


def as_optax(optimizer: Optimizer, context: UpdateContext) -> optax.GradientTransformation:
    """`optimizer` as a transformation of gradients into what is added to the parameters.

    A parameter's name is its path in the tree, joined by "/": `{"w": ...}` has "w". Gradients are those of the loss times the optimizer's
    loss scaling. With accumulation only each `accumulation_factor`-th call changes the parameters; the others return zeros.

    Args:
        optimizer: the optimizer.
        context: the session's numbers; its `params` are ignored.
    """

    def rule_of(params: Arrays) -> UpdateRule:
        shapes = {id: jax.ShapeDtypeStruct(param.shape, param.dtype) for id, param in params.items()}
        return optimizer.rule(replace(context, params=shapes))

    def init(params: Any) -> OptaxState:
        named, _ = _named(params)
        return OptaxState(jnp.zeros((), jnp.int32), rule_of(named).init(named))

    def update(gradients: Any, state: OptaxState, params: Any = None) -> tuple[Any, OptaxState]:
        if params is None:
            raise popart_exception("update(gradients, state, params) needs the parameters: weight decay and Lamb's norms look at them")
        named, tree = _named(params)
        rule = rule_of(named)
        accumulated = rule.accumulate(state.optimizer, _named(gradients)[0])

        def last() -> tuple[Arrays, OptimizerState]:
            new, updated = rule.update(accumulated, named)
            return {id: new[id] - named[id] for id in named}, updated

        if context.accumulation_factor <= 1:
            steps, updated = last()
            return jax.tree.unflatten(tree, list(steps.values())), OptaxState(state.microbatches, updated)
        count = state.microbatches + 1
        none = {id: jnp.zeros_like(param) for id, param in named.items()}
        steps, updated = jax.lax.cond(count == context.accumulation_factor, last, lambda: (none, accumulated))
        return jax.tree.unflatten(tree, [steps[id] for id in named]), OptaxState(count % context.accumulation_factor, updated)

    return optax.GradientTransformation(cast("Any", init), cast("Any", update))  # optax's types have no room for a state's own


def _named(tree: Any) -> tuple[Arrays, Any]:
    """The leaves by name, in the tree's order, and its structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): jnp.asarray(leaf) for path, leaf in leaves}, structure
