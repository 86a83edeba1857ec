"""Layers that are divided over the IPUs of a stage: which axis of which parameter, and on how many IPUs."""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, use_abstract_mesh

from tilestep.messages import shown
from tilestep.planner.space import Candidate
from tilestep.train.other_arguments import items_of
from tilestep.train.replicas.replicas import AXIS, SHARD_AXIS
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

Specs = tuple[PartitionSpec, ...]  # one for each leaf of a layer

_HOW: Final = f'PartitionSpecs of the axis "{SHARD_AXIS}", such as PartitionSpec(None, "{SHARD_AXIS}"), or None for what stays whole'


def specs_of(sharding: Any, params: Sequence[Pytree]) -> tuple[Specs, ...]:
    """Of each layer's leaves how they are divided. Args: sharding: as `plan_training` takes it.

    Raises: TypeError, ValueError for what is no such list, with the number of the layer.
    """
    if sharding is None:
        return tuple((PartitionSpec(),) * len(_jax.tree.leaves(own)) for own in params)
    if isinstance(sharding, PartitionSpec):  # which is a sequence
        raise TypeError(f"sharding is {shown(sharding)}: it must be a list with an entry for each layer: a pytree of {_HOW}")
    entries = items_of("sharding", sharding, f"a list with an entry for each layer: a pytree of {_HOW}")
    if len(entries) != len(params):
        raise ValueError(f"sharding has {len(entries)} entries, and there are {len(params)} layers: give one for each, or None")
    return tuple(_of_layer(number, entry, own) for number, (entry, own) in enumerate(zip(entries, params, strict=True)))


def _of_layer(number: int, entry: Any, params: Pytree) -> Specs:
    name = f"sharding[{number}]"
    found: list[PartitionSpec] = []

    def note(spec: Any, own: Pytree) -> None:
        if spec is not None and not isinstance(spec, PartitionSpec):
            raise TypeError(f"{name} has {shown(spec)}: it must be a pytree of {_HOW}")
        spec = PartitionSpec() if spec is None else spec
        for leaf in _jax.tree.leaves(own):
            if [axis for axis in spec if axis is not None] not in ([], [SHARD_AXIS]):
                raise ValueError(f"{name} has {spec}: it must be a pytree of {_HOW}")
            if len(spec) > len(leaf.shape):
                raise ValueError(f"{name} has {spec} for an array of shape {leaf.shape}: it must not have more entries than the array axes")
            found.append(spec)

    try:
        _jax.tree.map(note, entry, params, is_leaf=_is_spec)
    except ValueError as error:
        if found or str(error).startswith(name):
            raise
        raise ValueError(f"{name} has another structure than the layer's params: {error}") from None
    return tuple(found)


def _is_spec(leaf: object) -> bool:
    return leaf is None or isinstance(leaf, PartitionSpec)


def divides(specs: Sequence[Specs], params: Sequence[Pytree], shards: int) -> bool:
    """Whether each axis that is divided has a multiple of so many elements."""
    pairs = zip(specs, params, strict=True)
    return all(
        size % shards == 0
        for own, tree in pairs
        for spec, leaf in zip(own, _jax.tree.leaves(tree), strict=True)
        for axis, size in zip(spec, leaf.shape, strict=False)
        if axis is not None
    )


def share(spec: PartitionSpec, shards: int) -> int:
    """Into how many parts an array is divided."""
    return shards if SHARD_AXIS in spec else 1


def within(shards: int) -> AbstractContextManager[Any]:
    """What is traced inside may divide values by `with_sharding_constraint` over so many IPUs."""
    return use_abstract_mesh(_mesh(shards))


def divided(layers: Sequence[Callable[..., Any]], candidate: Candidate, devices: Sequence[Any]) -> list[Callable[..., Any]]:
    """The layers, which may divide values by `with_sharding_constraint` wherever a pipeline traces them."""
    mesh = meshes_of(candidate, devices)[0].abstract_mesh  # all stages have the same
    if candidate.replicas > 1:
        mesh = mesh.update_axis_types({AXIS: AxisType.Manual})  # as a pipeline has it

    def of(layer: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(layer)
        def inside(*args: Any) -> Any:
            with use_abstract_mesh(mesh):
                return layer(*args)

        return inside

    return [of(layer) for layer in layers]


def on_mesh(leaves: Sequence[Any], specs: Specs, shards: int) -> list[Spec]:
    """The leaves' shapes with their shardings; those without a spec are whole."""
    if shards == 1:
        return [_jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    every = (*specs, *[PartitionSpec()] * (len(leaves) - len(specs)))
    return [
        _jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(_mesh(shards), spec))
        for leaf, spec in zip(leaves, every, strict=True)
    ]


def meshes_of(candidate: Candidate, devices: Sequence[Any]) -> list[Mesh]:
    """Of each stage the mesh of its IPUs, one replica's after the other's."""
    grid = np.array(devices[: candidate.num_ipus], dtype=object).reshape(candidate.replicas, -1, candidate.shards)
    if candidate.replicas == 1:
        return [Mesh(grid[0, home], (SHARD_AXIS,)) for home in candidate.homes]
    return [Mesh(grid[:, home], (AXIS, SHARD_AXIS)) for home in candidate.homes]


def _mesh(shards: int) -> AbstractMesh:
    return AbstractMesh((shards,), (SHARD_AXIS,), axis_types=(AxisType.Auto,))  # explicit since JAX 0.12
