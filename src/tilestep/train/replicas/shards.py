"""Computes functions of whole arrays on parts of them: each of R replicas, or of a group's, has 1/R of an array's elements.

`on_parts` traces a function of whole arrays. An elementwise operation on a divided array is computed on this replica's part. A sum over
replicas of which only the part is needed is a reduce-scatter, followed by a sum over the groups. For any other operation (norms, factored
moments, random numbers) the array is gathered first, so that its result is the same as without division.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jax.sharding import NamedSharding, PartitionSpec

from tilestep.train.jaxprs import CALLS, ELEMENTWISE, INLINE_CALLS, spec_of
from tilestep.train.replicas.groups import Division, groups_of, part_elements
from tilestep.train.untyped import Pytree, Structure
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp


@functools.partial(_jax.tree_util.register_dataclass, data_fields=("values",), meta_fields=("shape", "group_size"))
@dataclass(frozen=True, kw_only=True)
class Shard:
    """An array of which each replica has a part; a pytree.

    Attributes:
        values: [k] on a replica, k = ceil(n / G) of the n elements in row-major order, the last part padded, where G replicas are a group;
            [R * k] where all R replicas' parts are one array, in which groups repeat; [n] before they are divided.
        shape: of the whole array, with n elements.
        group_size: G successive replicas, among which the array is divided. Each group has all of it. None: R.
    """

    values: jax.Array
    shape: tuple[int, ...]
    group_size: int | None = None

    @property
    def size(self) -> int:
        """Elements of the whole array."""
        return math.prod(self.shape)


def is_shard(node: object) -> bool:
    """Whether a node of a tree is a Shard."""
    return isinstance(node, Shard)


def part_of(array: jax.Array, by: Division) -> jax.Array:
    """This replica's part, [k], of an array that all replicas have."""
    each = part_elements(array.size, by.members)
    index = _jax.lax.axis_index(by.axis)
    return _jax.lax.dynamic_slice_in_dim(_padded(array, by.members), (index if by.groups is None else index % by.members) * each, each)


def whole_of(part: jax.Array, shape: tuple[int, ...], by: Division) -> jax.Array:
    """The array of `shape`, equal on all replicas, of which each has a part, [k]."""
    if by.groups is None:
        flat = _jax.lax.all_gather(part, by.axis, tiled=True, to="invarying")
    else:
        flat = part if by.members == 1 else _jax.lax.all_gather(part, by.axis, axis_index_groups=by.groups, tiled=True)
    return flat[: math.prod(shape)].reshape(shape)


def all_parts(flat: Any, replicas: int, group_size: int | None) -> Any:
    """All replicas' parts, [R * k], of an array [n] of NumPy or JAX. Raises: ValueError if groups do not make up the replicas."""
    groups, members = groups_of(replicas, group_size)
    padded = _padded(flat, members)
    return padded if groups is None else (np if isinstance(flat, np.ndarray) else _jnp).tile(padded, len(groups))


def readable(values: Pytree) -> jax.Array:
    """The array with all replicas' parts in this process. Of several processes all must call it."""
    known = isinstance(values, jax.Array) and not isinstance(values, _jax.core.Tracer)
    if known and not (values.is_fully_addressable or values.is_fully_replicated):
        sharding: Any = values.sharding
        whole = NamedSharding(sharding.mesh, PartitionSpec())
        return _jax.jit(_as_it_is, out_shardings=whole)(_jax.device_put(values, sharding.with_memory_kind("device")))
    return values


def _as_it_is(array: jax.Array) -> jax.Array:
    return array


def on_parts(function: Callable[..., Pytree], args: Sequence[Pytree], by: Division) -> tuple[list[Result], Structure]:
    """`function(*args)` where some arrays of `args` are divided.

    Args:
        function: of pytrees of whole arrays.
        args: pytrees of arrays and Shards; `function` gets a whole array for each Shard.
        by: how the Shards are divided.
    Returns: ([a Result for each leaf], the tree's structure).
    """
    nodes, structure = _jax.tree.flatten(list(args), is_leaf=is_shard)
    whole = [_jax.ShapeDtypeStruct(n.shape, n.values.dtype) if is_shard(n) else n for n in nodes]
    closed, specs = _jax.make_jaxpr(lambda leaves: function(*_jax.tree.unflatten(structure, leaves)), return_shape=True)(whole)
    operands = [
        Result(node.shape, by, part=functools.partial(getattr, node, "values"), is_divided=True)
        if is_shard(node)
        else _known(_jnp.asarray(node), by)
        for node in nodes
    ]
    return _evaluated(closed.jaxpr, closed.consts, operands, by), _jax.tree.structure(specs)


@final
class Result:
    """A value of which a replica may need its part, or all. Each is computed once, at its first use."""

    def __init__(
        self,
        shape: tuple[int, ...],
        by: Division,
        *,
        whole: Callable[[], jax.Array] | None = None,
        part: Callable[[], jax.Array] | None = None,
        is_divided: bool = False,
        sources: Sequence[Result] = (),
    ) -> None:
        """Args: is_divided: whether only a gather makes the whole. sources: the operands from which `whole` computes it."""
        self.shape = shape
        self.is_divided = is_divided
        self._by, self._sources = by, sources
        self._compute_whole, self._compute_part = whole, part
        self._whole: jax.Array | None = None
        self._part: jax.Array | None = None

    @property
    def is_near(self) -> bool:
        """Whether `whole` needs no gather."""
        waiting: list[Result] = [self]
        seen: set[int] = set()
        while waiting:
            result = waiting.pop()
            if result.is_divided and result._whole is None and id(result) not in seen:
                if not result._sources:
                    return False
                seen.add(id(result))
                waiting += result._sources
        return True

    def whole(self, *, early: bool = False) -> jax.Array:
        """The whole array, on each replica.

        Args: early: whether to gather the first of a chain of operations on one divided value, not the last, because others may need it.
        """
        if self._whole is None:
            far = {id(source): source for source in self._sources if not source.is_near}
            if early and len(far) == 1:
                next(iter(far.values())).whole(early=True)
                far = {}
            near = not self.is_divided or (bool(self._sources) and not far)
            self._whole = self._compute_whole() if near and self._compute_whole else whole_of(self.part(), self.shape, self._by)
        return self._whole

    def part(self) -> jax.Array:
        """This replica's part, [k]; of a scalar, the scalar."""
        if not self.shape:
            return self.whole()
        if self._part is None:
            compute = self._compute_part
            if compute is None or (self._whole is not None and not self.is_divided):
                self._part = part_of(self.whole(), self._by)
            else:
                self._part = compute()
        return self._part


def _known(array: jax.Array, by: Division) -> Result:
    return Result(array.shape, by, whole=lambda: array)


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Result], by: Division) -> list[Result]:
    values: dict[Var, Result] = {}

    def read(atom: Var | Literal) -> Result:
        return _known(_jnp.asarray(atom.val), by) if isinstance(atom, Literal) else values[atom]

    values.update(zip(jaxpr.constvars, (_known(_jnp.asarray(const), by) for const in consts), strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        values.update(zip(equation.outvars, _results(equation, operands, by), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _results(equation: JaxprEqn, operands: Sequence[Result], by: Division) -> Sequence[Result]:
    name = equation.primitive.name
    if name in INLINE_CALLS and (inner := equation.params.get(CALLS[name])) is not None:
        return _evaluated(inner.jaxpr, inner.consts, operands, by)
    shape = spec_of(equation.outvars[0]).shape if equation.outvars else ()
    if name in ELEMENTWISE and shape and all(operand.shape in (shape, ()) for operand in operands):
        return [_elementwise(equation, operands, shape, by)]
    if name == "broadcast_in_dim" and len(operands) == 1 and not operands[0].shape and shape:
        return [_broadcast(equation, operands[0], shape, by)]
    if _is_sum(equation, by):
        return [_sum(equation, index, operand, by) for index, operand in enumerate(operands)]
    arrays = _bound(equation, [operand.whole(early=True) for operand in operands])
    return [_known(array, by) for array in arrays]


def _elementwise(equation: JaxprEqn, operands: Sequence[Result], shape: tuple[int, ...], by: Division) -> Result:
    return Result(
        shape,
        by,
        whole=lambda: _bound(equation, [operand.whole() for operand in operands])[0],
        part=lambda: _bound(equation, _alike([operand.part() for operand in operands], by))[0],
        is_divided=any(operand.is_divided for operand in operands),
        sources=operands,
    )


def _broadcast(equation: JaxprEqn, operand: Result, shape: tuple[int, ...], by: Division) -> Result:
    each = part_elements(math.prod(shape), by.members)
    return Result(
        shape,
        by,
        whole=lambda: _bound(equation, [operand.whole()])[0],
        part=lambda: _jnp.broadcast_to(operand.whole(), (each,)),
    )


def _sum(equation: JaxprEqn, index: int, operand: Result, by: Division) -> Result:
    """One operand's sum over all replicas. Only a part of it is a reduce-scatter within groups, and a sum over the groups."""

    def part() -> jax.Array:
        flat = _padded(operand.whole(), by.members)
        if by.members > 1:
            flat = _jax.lax.psum_scatter(flat, by.axis, axis_index_groups=by.groups, tiled=True)
        return flat if by.groups is None else _jax.lax.psum(flat, by.axis, axis_index_groups=by.alike)

    return Result(
        spec_of(equation.outvars[index]).shape,
        by,
        whole=lambda: _jax.lax.psum(operand.whole(), by.axis),
        part=part if operand.shape else None,
    )


def _is_sum(equation: JaxprEqn, by: Division) -> bool:
    name, params = equation.primitive.name, equation.params
    return name in ("psum", "psum_invariant") and params.get("axes") == (by.axis,) and params.get("axis_index_groups") is None


def _bound(equation: JaxprEqn, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
    primitive: Any = equation.primitive
    results = primitive.bind(*arrays, **primitive.get_bind_params(equation.params))
    return results if primitive.multiple_results else [results]


def _alike(arrays: Sequence[jax.Array], by: Division) -> list[jax.Array]:
    """The operands, marked as varying over the replicas if JAX marks one of them so."""
    varying = [by.axis in _jax.typeof(array).manual_axis_type.varying for array in arrays]
    if not any(varying):
        return list(arrays)
    return [array if varies else _jax.lax.pcast(array, by.axis, to="varying") for array, varies in zip(arrays, varying, strict=True)]


def _padded(array: Any, members: int) -> Any:
    """[G * k]: the elements in order, and zeros after them."""
    flat = array.reshape(-1)
    rest = part_elements(flat.size, members) * members - flat.size
    zeros = np.zeros(rest, flat.dtype)
    return (np if isinstance(flat, np.ndarray) else _jnp).concatenate([flat, zeros]) if rest else flat
