"""Ensembles of decision trees of the domain ai.onnx.ml. All rows go down all trees at once, one level in a turn of a loop."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.convert import convert
from tilestep.onnx.interpreter.graph import Node, schema_of
from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import MOST_KNOWN_BYTES, Array, has_room, jax_dtype
from tilestep.onnx.ops.ml.features import ML
from tilestep.onnx.ops.ml.linear import both_scores, label_at, labels_of, transformed

_MODES: Final = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_MEMBER: Final = _MODES.index("BRANCH_MEMBER")
_COMPARE: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    lambda x, y: x <= y,
    lambda x, y: x < y,
    lambda x, y: x >= y,
    lambda x, y: x > y,
    lambda x, y: x == y,
    lambda x, y: x != y,
)
_MOST_TIMES: Final = 16  # as much memory as the weights themselves take, at most, if all nodes have weights of all targets
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, kw_only=True, eq=False)
class Forest:
    """Trees with their nodes in common arrays. A leaf is its own child.

    Attributes:
        roots: the node at which each tree begins.
        depth: comparisons on the longest way.
        features, splits, modes, true_nodes, false_nodes, missing_is_true: of each node; `splits` has the type of the comparison.
        members: of each node, values of which one must be equal, filled with NaN; None without such nodes.
        weights: what each node adds to each target: [nodes, targets].
        has: to which targets it adds: [nodes, targets].
    """

    roots: Array
    depth: int
    features: Array
    splits: Array
    modes: Array
    true_nodes: Array
    false_nodes: Array
    missing_is_true: Array
    members: Array | None
    weights: Array
    has: Array

    def leaves(self, x: Any) -> Any:
        """The leaf of each row in each tree: [rows, trees]."""

        def down(_: Any, at: Any) -> Any:
            value = jnp.take_along_axis(x, jnp.asarray(self.features)[at], axis=1)
            holds = self._holds(at, value)
            missing = jnp.asarray(self.missing_is_true)
            if self.missing_is_true.any():
                holds = holds | (missing[at] & jnp.isnan(value))
            return jnp.where(holds, jnp.asarray(self.true_nodes)[at], jnp.asarray(self.false_nodes)[at])

        start = jnp.broadcast_to(jnp.asarray(self.roots), (x.shape[0], len(self.roots)))
        return lax.fori_loop(0, self.depth, down, start)

    def _holds(self, at: Any, value: Any) -> Any:
        """Whether the comparison of each row's node holds. Kinds of comparisons that no node has are left out."""
        split = jnp.asarray(self.splits)[at].astype(value.dtype)
        used = np.unique(self.modes[self.true_nodes != np.arange(len(self.modes))])
        result: Any = jnp.zeros(at.shape, bool)
        for mode in used.tolist():
            if mode == _MEMBER:
                holds = (value[..., None] == jnp.asarray(self.members)[at].astype(value.dtype)).any(-1)
            else:
                holds = _COMPARE[mode](value, split)
            result = holds if len(used) == 1 else jnp.where(jnp.asarray(self.modes)[at] == mode, holds, result)
        return result

    def scores(self, x: Any, aggregate: str) -> Any:
        """What the leaves add up to: [rows, targets]."""
        if aggregate not in _AGGREGATES:
            raise ValueError(f"aggregate_function '{aggregate}', which must be one of {', '.join(_AGGREGATES)}")
        if x.ndim != 2 or (self.depth and x.shape[1] <= self.features.max()):
            raise ValueError(f"its input has the shape {list(x.shape)}, and needs [rows, {self.features.max() + 1} features or more]")
        leaves = self.leaves(x)
        taken = jnp.asarray(self.weights, jax_dtype(self.weights.dtype))[leaves]
        if aggregate in ("SUM", "AVERAGE"):
            return taken.sum(1) / (len(self.roots) if aggregate == "AVERAGE" else 1)
        has = jnp.asarray(self.has)[leaves]
        worst = np.inf if aggregate == "MIN" else -np.inf
        best = getattr(jnp, aggregate.lower())(jnp.where(has, taken, worst), axis=1)
        return jnp.where(has.any(1), best, 0)


def _finished(
    roots: Array,
    features: Any,
    splits: Array,
    modes: Array,
    children: tuple[Array, Array],
    missing: Any,
    weights: tuple[Array, Array],
    members: Any,
    is_leaf: Array,
) -> Forest:
    """A forest of arrays that have been checked by themselves. Raises: ValueError if nodes form no trees."""
    count = len(modes)
    tracks = np.asarray(missing, bool) if len(missing) else np.zeros(count, bool)
    features = np.asarray(features, np.int64)
    if (
        len(tracks) != count
        or len(features) != count
        or len(splits) != count
        or (count and (features.min() < 0 or features.max() >= 1 << 31))
    ):
        raise ValueError(
            f"its {count} nodes have {len(features)} features, {len(splits)} values and {len(tracks)} directions of missing values"
        )
    return Forest(
        roots=roots.astype(np.int32),
        depth=_depth(roots, children, is_leaf),
        features=features.astype(np.int32),
        splits=splits,
        modes=modes.astype(np.int32),
        true_nodes=children[0].astype(np.int32),
        false_nodes=children[1].astype(np.int32),
        missing_is_true=tracks,
        members=members,
        weights=weights[0],
        has=weights[1],
    )


def _depth(roots: Array, children: tuple[Array, Array], is_leaf: Array) -> int:
    """Comparisons on the longest way to a leaf. Raises: ValueError if two ways lead to one node, as in a circle, or none to it."""
    level, depth, seen = roots, 0, np.zeros(len(is_leaf), bool)
    while True:
        if len(np.unique(level)) < len(level) or seen[level].any():
            raise ValueError("its nodes form no trees: two ways lead to one node")
        seen[level] = True
        inner = level[~is_leaf[level]]
        if not len(inner):
            break
        level, depth = np.concatenate([children[0][inner], children[1][inner]]), depth + 1
    if not seen.all():
        raise ValueError(f"{len(seen) - seen.sum()} nodes belong to no tree")
    return depth


def _leaf_weights(nodes: Array, targets: Array, values: Array, num_nodes: int, num_targets: int) -> tuple[Array, Array]:
    """What each node adds to each target, and whether it does. Raises: ValueError for targets that don't exist and for too many."""
    if not len(nodes) == len(targets) == len(values) or (len(targets) and not 0 <= targets.min() <= targets.max() < num_targets):
        raise ValueError(f"it has weights for {len(nodes)} nodes, {len(targets)} targets of {num_targets} and {len(values)} values")
    if num_nodes * num_targets * values.itemsize > max(MOST_KNOWN_BYTES, _MOST_TIMES * values.nbytes):
        raise ValueError(f"{num_nodes:,} nodes with {num_targets:,} targets are too many for {len(values):,} weights")
    weights, has = np.zeros((num_nodes, num_targets), values.dtype), np.zeros((num_nodes, num_targets), bool)
    np.add.at(weights, (nodes, targets), values)
    has[nodes, targets] = True
    return weights, has


def _numbers(attributes: Mapping[str, Any], name: str) -> Array:
    """An attribute of floats, or the tensor that may be given in its place."""
    tensor = attributes.get(f"{name}_as_tensor")
    return np.asarray(attributes.get(name, ()), np.float32) if tensor is None else tensor.reshape(-1)


@functools.lru_cache(maxsize=64)
def _old_forest(node: Node, prefix: str, num_targets: int) -> Forest:
    """The trees of a classifier ("class") or a regressor ("target"), whose nodes have a number in their tree."""
    attributes = node.attributes
    trees, numbers = (np.asarray(attributes.get(f"nodes_{name}", ()), np.int64) for name in ("treeids", "nodeids"))
    modes = list(attributes.get("nodes_modes", ()))
    if not len(trees) == len(numbers) == len(modes) or not modes:
        raise ValueError(f"its nodes have {len(trees)} trees, {len(numbers)} numbers and {len(modes)} modes")
    place = {key: at for at, key in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    if len(place) < len(modes):
        raise ValueError("two nodes of a tree have the same number")
    unknown = set(modes) - {*_MODES[:_MEMBER], "LEAF"}
    if unknown:
        raise ValueError(f"nodes_modes has '{sorted(unknown)[0]}'")
    is_leaf = np.array([mode == "LEAF" for mode in modes])
    children = [
        np.array(
            [at if is_leaf[at] else _place(place, tree, child) for at, (tree, child) in enumerate(zip(trees.tolist(), given, strict=True))]
        )
        for given in (attributes["nodes_truenodeids"], attributes["nodes_falsenodeids"])
    ]
    inner = ~is_leaf
    reached = np.zeros(len(modes), bool)
    reached[children[0][inner]] = reached[children[1][inner]] = True
    roots = np.flatnonzero(~reached)
    if len(roots) != len(set(trees.tolist())):
        raise ValueError(f"it has {len(set(trees.tolist()))} trees, and {len(roots)} nodes that none leads to")
    weighted = [
        _place(place, tree, number)
        for tree, number in zip(attributes.get(f"{prefix}_treeids", ()), attributes.get(f"{prefix}_nodeids", ()), strict=True)
    ]
    targets = np.asarray(attributes.get(f"{prefix}_ids", ()), np.int64)
    return _finished(
        roots,
        attributes.get("nodes_featureids", ()),
        _numbers(attributes, "nodes_values"),
        np.array([_MODES.index(mode) if mode != "LEAF" else 0 for mode in modes]),
        (children[0], children[1]),
        attributes.get("nodes_missing_value_tracks_true", ()),
        _leaf_weights(np.asarray(weighted, np.int64), targets, _numbers(attributes, f"{prefix}_weights"), len(modes), num_targets),
        None,
        is_leaf,
    )


def _place(place: Mapping[tuple[int, int], int], tree: int, number: int) -> int:
    if (tree, number) not in place:
        raise ValueError(f"tree {tree} has no node {number}")
    return place[tree, number]


def _compared(x: Any, forest: Forest) -> Any:
    """The input in the type of the comparison: its own if that is a float, else that of the nodes' values."""
    return jnp.asarray(x if jnp.issubdtype(x.dtype, jnp.floating) else convert(x, forest.splits.dtype))


@op("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(
    call: Call, x: Any, *, aggregate_function: str = "SUM", n_targets: int = 1, post_transform: str = "NONE", **attributes: Any
) -> Any:
    """What all trees say together about each row: [rows, features] to [rows, targets], as float32."""
    _require_known(call.node, attributes)
    forest = _old_forest(call.node, "target", n_targets)
    base = _numbers(call.node.attributes, "base_values")
    if len(base) not in (0, n_targets):
        raise ValueError(f"it has {len(base)} base_values, and {n_targets} targets")
    scores = forest.scores(_compared(x, forest), aggregate_function)
    return transformed(scores + base if len(base) else scores, post_transform).astype(np.float32)


@op("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(
    call: Call,
    x: Any,
    *,
    class_ids: Sequence[int] = (),
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
    **attributes: Any,
) -> tuple[Any, Any]:
    """The label with the best score, and the scores as float32: [rows, features] to [rows], [rows, classes].

    If all weights are of one of two classes, then the label is the second one where their sum is above 0, or above 0.5 if no weight
    is negative. As weights of class 0 they make both scores.
    """
    _require_known(call.node, attributes)
    labels = labels_of(classlabels_int64s, classlabels_strings)
    forest = _old_forest(call.node, "class", len(labels))
    base, weights = (_numbers(call.node.attributes, name) for name in ("base_values", "class_weights"))
    scores = forest.scores(_compared(x, forest), "SUM")
    only = set(class_ids).pop() if len(labels) == 2 and len(set(class_ids)) == 1 and len(base) < 2 else None
    if len(base) not in (0, len(labels)) and (only != 0 or len(base) != 1):
        raise ValueError(f"it has {len(base)} base_values, and {len(labels)} classes")
    if only is None:
        scores = scores + base if len(base) else scores
        return label_at(labels, scores.argmax(-1)), transformed(scores, post_transform).astype(np.float32)
    score = scores[:, only : only + 1] + (base if len(base) else 0)
    all_positive = bool((weights >= 0).all())
    winner = label_at(labels, (score[:, 0] > (0.5 if all_positive else 0)).astype(np.int32))
    both = transformed(scores, post_transform) if only else both_scores(score, post_transform, opposite=not all_positive)
    return winner, both.astype(np.float32)


@functools.lru_cache(maxsize=64)
def _new_forest(node: Node, num_targets: int) -> Forest:
    """The trees of a TreeEnsemble. Its leaves stand apart; here each branch to one has a node of its own, after all others."""
    attributes = node.attributes
    modes = np.asarray(attributes["nodes_modes"]).reshape(-1).astype(np.int64)
    values, targets = attributes["leaf_weights"].reshape(-1), np.asarray(attributes["leaf_targetids"], np.int64)
    roots, count = np.asarray(attributes["tree_roots"], np.int64), len(modes)
    if not count or modes.max() > _MEMBER or not len(roots) or not 0 <= roots.min() <= roots.max() < count or len(values) != len(targets):
        raise ValueError(f"it has {count} nodes, {len(roots)} roots, {len(values)} weights and {len(targets)} targets of leaves")
    children: list[Array] = []
    reached: list[Array] = []  # leaves, in the order of their nodes
    for side in ("true", "false"):
        ids, leafs = np.asarray(attributes[f"nodes_{side}nodeids"], np.int64), np.asarray(attributes[f"nodes_{side}leafs"], bool)
        limit = np.where(leafs, len(values), count) if len(ids) == len(leafs) == count else 0
        if np.any((ids < 0) | (ids >= limit)):
            raise ValueError(f"its {side} branches lead to nodes or leaves that don't exist")
        first = count + sum(map(len, reached))
        children.append(np.where(leafs, first + np.cumsum(leafs) - 1, ids))
        reached.append(ids[leafs])
    leaves = np.concatenate(reached)
    own = np.arange(count, count + len(leaves))
    padding = np.zeros(len(leaves), np.int64)
    missing = np.asarray(attributes.get("nodes_missing_value_tracks_true", ()), bool)
    return _finished(
        roots,
        [*attributes["nodes_featureids"], *padding],
        np.concatenate([attributes["nodes_splits"].reshape(-1), padding.astype(values.dtype)]),
        np.concatenate([modes, padding]),
        (np.concatenate([children[0], own]), np.concatenate([children[1], own])),
        np.concatenate([missing, padding.astype(bool)]) if len(missing) else missing,
        _leaf_weights(own, targets[leaves], values[leaves], count + len(leaves), num_targets),
        _members(modes, attributes.get("membership_values"), count + len(leaves)),
        np.arange(count + len(leaves)) >= count,
    )


def _members(modes: Array, values: Array | None, num_nodes: int) -> Array | None:
    """The sets of the nodes that ask for membership. Sets stand one after the other with NaN between them."""
    nodes = np.flatnonzero(modes == _MEMBER)
    if not len(nodes):
        return None
    flat = np.zeros(0, np.float32) if values is None else values.reshape(-1)
    parts = np.split(flat, np.flatnonzero(np.isnan(flat)))
    sets = [part[~np.isnan(part)] for part in parts]
    sets = sets[:-1] if len(sets) == len(nodes) + 1 and not len(sets[-1]) else sets
    widest = max(map(len, sets))
    if len(sets) != len(nodes) or not has_room((num_nodes, widest), flat.dtype):
        raise ValueError(f"membership_values have {len(sets)} sets of up to {widest:,} elements for {len(nodes)} nodes")
    padded = np.full((num_nodes, max(1, widest)), np.nan, flat.dtype)
    for node, members in zip(nodes, sets, strict=True):
        padded[node, : len(members)] = members
    return padded


@op("TreeEnsemble", domain=ML, since=5)
def tree_ensemble(
    call: Call, x: Any, *, aggregate_function: int = 1, n_targets: int = 1, post_transform: int = 0, **attributes: Any
) -> Any:
    """What all trees say together about each row: [rows, features] to [rows, targets], in the type of the input."""
    _require_known(call.node, attributes)
    if not 0 <= aggregate_function < len(_AGGREGATES) or not 0 <= post_transform < len(_TRANSFORMS):
        raise ValueError(f"aggregate_function {aggregate_function}, post_transform {post_transform}")
    scores = _new_forest(call.node, n_targets).scores(jnp.asarray(x), _AGGREGATES[aggregate_function])
    return transformed(scores, _TRANSFORMS[post_transform]).astype(jax_dtype(x.dtype))


def _require_known(node: Node, given: Collection[str]) -> None:
    """Raises: ValueError for an attribute that the operator's schema does not have."""
    schema = schema_of(ML, node.op_type, node.version)
    unknown = sorted(set(given) - set(() if schema is None else schema.attributes))
    if unknown:
        raise ValueError(f"it has an attribute '{unknown[0]}', which is not one of its kind")
