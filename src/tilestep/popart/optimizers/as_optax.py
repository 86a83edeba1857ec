"""A rule as an optax transformation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.optimizers.arithmetic import Arrays
from tilestep.popart.optimizers.context import OptimizerState
from tilestep.popart.optimizers.update_rule import UpdateRule

RuleOf = Callable[[Mapping[str, jax.ShapeDtypeStruct]], UpdateRule]  # parameters by name -> their rule


class Accumulating(NamedTuple):
    """The state of a transformation that accumulates gradients of several calls.

    Args:
        microbatches: gradients since the last update, int32.
        optimizer: the rule's state.
    """

    microbatches: jax.Array
    optimizer: OptimizerState


def joined(path: Sequence[Any]) -> str:
    """A parameter's path in its tree, joined by "/": `{"w": ...}` has "w"."""
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


def last_key(path: Sequence[Any]) -> str:
    """The last key of a parameter's path in its tree."""
    return str(getattr(path[-1], "key", path[-1]))


def update_transformation(
    rule_of: RuleOf, *, accumulation_factor: int = 1, name_of: Callable[[Sequence[Any]], str] = joined
) -> optax.GradientTransformation:
    """A transformation of gradients into what is added to the parameters. Its state is the rule's, or `Accumulating`.

    Gradients are those of the loss times the optimizer's loss scaling.

    Args:
        rule_of: the rule for the parameters of a tree.
        accumulation_factor: calls per update; the others return zeros.
        name_of: a parameter's name, from its path in the tree.
    """

    def named_leaves(tree: Any) -> tuple[Arrays, Any]:
        """The leaves by name, in the tree's order, and its structure."""
        flat: Any = jax.tree_util.tree_flatten_with_path(tree)
        leaves, structure = flat
        return {name_of(path): jnp.asarray(leaf) for path, leaf in leaves}, structure

    def rule_for(named: Arrays) -> UpdateRule:
        return rule_of({name: jax.ShapeDtypeStruct(param.shape, param.dtype) for name, param in named.items()})

    def init(params: Any) -> OptimizerState | Accumulating:
        named, _ = named_leaves(params)
        state = rule_for(named).init(named)
        return state if accumulation_factor <= 1 else Accumulating(jnp.zeros((), jnp.int32), state)

    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, OptimizerState | Accumulating]:
        if params is None:
            raise popart_exception("update(gradients, state, params) needs the parameters: weight decay and Lamb's norms look at them")
        named, tree = named_leaves(params)
        rule = rule_for(named)
        accumulated = rule.accumulate(state if accumulation_factor <= 1 else state.optimizer, named_leaves(gradients)[0])

        def last() -> tuple[Arrays, OptimizerState]:
            new, updated = rule.update(accumulated, named)
            return {name: new[name] - param for name, param in named.items()}, updated

        if accumulation_factor <= 1:
            steps, updated = last()
            return jax.tree.unflatten(tree, list(steps.values())), updated
        count = state.microbatches + 1
        none = {name: jnp.zeros_like(param) for name, param in named.items()}
        steps, updated = jax.lax.cond(count == accumulation_factor, last, lambda: (none, accumulated))
        return jax.tree.unflatten(tree, [steps[name] for name in named]), Accumulating(count % accumulation_factor, updated)

    return optax.GradientTransformation(cast("Any", init), cast("Any", update))  # optax's types have no room for a state's own
