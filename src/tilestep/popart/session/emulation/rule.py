"""A session's optimiser for the parameters of single stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax

from tilestep.popart.optimizers import UpdateRule

RuleOf = Callable[[Mapping[str, jax.ShapeDtypeStruct]], UpdateRule]  # parameters by tensor -> their rule


def update_transformation(rule_of: RuleOf) -> optax.GradientTransformation:
    """A transformation of gradients that are accumulated already. A parameter's name is the last key of its path in the tree."""

    def rule_for(params: Mapping[str, jax.Array]) -> UpdateRule:
        return rule_of({name: jax.ShapeDtypeStruct(param.shape, param.dtype) for name, param in params.items()})

    def init(params: Any) -> Any:
        named, _ = _named(params)
        return rule_for(named).init(named)

    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        named, structure = _named(params)
        rule = rule_for(named)
        new, state = rule.update(rule.accumulate(state, _named(gradients)[0]), named)
        return jax.tree.unflatten(structure, [new[name] - param for name, param in named.items()]), state

    return optax.GradientTransformation(cast("Any", init), cast("Any", update))  # optax's types have no room for a state's own


def _named(tree: Any) -> tuple[dict[str, jax.Array], Any]:
    """The leaves by name, in the tree's order, and its structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return {str(getattr(path[-1], "key", path[-1])): jnp.asarray(leaf) for path, leaf in leaves}, structure
