"""Replicas: a loop's body runs once on each of several devices, or groups of devices, with its own data and the same carry."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, final, overload

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tilestep.hints import dry_platforms
from tilestep.messages import shown
from tilestep.train.datasets import Dataset, iterator_maker
from tilestep.train.numbers import whole_number
from tilestep.train.offload import is_on_host
from tilestep.train.other_arguments import belongs_to, devices_of
from tilestep.train.replicas.devices import Device, more_devices, select_devices
from tilestep.train.replicas.groups import groups_of
from tilestep.train.replicas.shards import Shard, all_parts, is_shard, part_elements, readable
from tilestep.train.replicas.share import ProcessShare
from tilestep.train.simulated import is_of_a_part, is_simulated_in_part, put_shards
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.within import within

AXIS: Final = "replica"  # the mesh axis of replicas, unless the caller has a mesh with another name for it
SHARD_AXIS: Final = "shard"

_axis: ContextVar[str | None] = ContextVar("tilestep_replica_axis", default=None)


@final
class Replicas:
    """Data parallelism: `count` replicas of `shards` devices each.

    Given to `repeat` or `while_loop`, the body runs once per replica in one program: each has the whole carry, and its own elements of the
    infeed. Inside of it `cross_replica_mean` and its like combine what the replicas have. An immutable value: equal replicas are equal.

    Args:
        count: how many. None: as many as the devices make up.
        devices: in order; `shards` successive ones are a replica. None: the first `count * shards` of `jax.devices()`, or all.
        shards: devices of one replica. The body's arrays are divided over them as the carry's shardings say (axis "shard").
        mesh: in place of devices and shards: its axis `axis` counts the replicas, the others are within a replica.
        axis: name of the mesh axis of replicas.

    Attributes:
        mesh: of the devices.
        axis: name of the mesh axis of replicas.
        count: of replicas.
        shards: devices of one replica.
        local: the numbers of the replicas of this process.
        replicated: sharding of an array that each replica has.
        divided: sharding of an array whose leading axis counts the replicas.

    Raises:
        TypeError: when devices, a mesh or an axis are of another kind.
        ValueError: when count x shards is not the number of devices, a device comes twice, the mesh has no such axis, a replica's devices
            are of several processes, or a process has none.
    """

    __slots__ = ("axis", "count", "divided", "local", "mesh", "replicated", "shards")

    axis: str
    count: int
    divided: NamedSharding
    local: tuple[int, ...]
    mesh: Mesh
    replicated: NamedSharding
    shards: int

    def __init__(
        self,
        count: int | None = None,
        *,
        devices: Iterable[Device] | None = None,
        shards: int | None = None,
        mesh: Mesh | None = None,
        axis: str = AXIS,
    ) -> None:
        if not isinstance(axis, str) or not axis:
            raise TypeError(f"axis is {shown(axis)}: it must be the name of a mesh axis, a string that is not empty")
        if mesh is None:
            mesh = _mesh_of(count, devices, 1 if shards is None else whole_number("shards", shards, least=1), axis)
        else:
            _require_mesh(mesh, axis, count, shards, devices)
        self._fill(mesh, axis, _local(mesh, axis))

    @classmethod
    def of_stage(cls, mesh: Mesh, axis: str = AXIS) -> Replicas:
        """All replicas of a pipeline's stage, which one process has: this one, or another."""
        found = object.__new__(cls)
        is_here = bool(NamedSharding(mesh, PartitionSpec()).addressable_devices)
        found._fill(mesh, axis, tuple(range(mesh.shape[axis])) if is_here else ())
        return found

    def _fill(self, mesh: Mesh, axis: str, local: tuple[int, ...]) -> None:
        self._set("mesh", mesh)
        self._set("axis", axis)
        self._set("count", mesh.shape[axis])
        self._set("shards", mesh.size // mesh.shape[axis])
        self._set("local", local)
        self._set("replicated", NamedSharding(mesh, PartitionSpec()))
        self._set("divided", NamedSharding(mesh, PartitionSpec(axis)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Replicas are immutable: make new ones with another {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replicas) and (self.mesh, self.axis) == (other.mesh, other.axis)

    def __hash__(self) -> int:
        return hash((self.mesh, self.axis))

    def __repr__(self) -> str:
        devices = f"{self.shards} device{'s' * (self.shards > 1)}"
        return f"<Replicas: {self.count}, each {devices} of platform {self.mesh.devices.flat[0].platform}>"

    def shard_map(self, function: Callable[..., Any], *, in_specs: Any, out_specs: Any) -> Callable[..., Any]:
        """`function` once per replica, as `jax.shard_map` over the replicas' axis, in which `cross_replica_sum` and its like work.

        What `out_specs` calls replicated must be equal on all replicas; nothing checks it (`replica_differences` does).
        """

        def inside(*args: Any) -> Any:
            with self.inside():
                return function(*args)

        inside.__name__ = inside.__qualname__ = str(getattr(function, "__name__", "replicated"))
        axes = frozenset({self.axis})  # a body may divide values over the others, even where there is one device of each
        return _jax.shard_map(inside, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, axis_names=axes, check_vma=False)

    def inside(self) -> AbstractContextManager[None]:
        """What is traced inside runs on these replicas."""
        return within(_axis, self.axis)

    def place(self, carry: Pytree) -> Pytree:
        """A pytree of arrays and numbers on all replicas.

        Args:
            carry: a pytree of arrays and numbers. Of several processes all must give equal values, which a loop checks. Within a replica a
                NamedSharding of this mesh may divide an array.

        Returns:
            The pytree on all replicas, equal on each, with each Shard divided over them, or over each group of them. Leaves that are there
            already stay, the others are copied. A copy may share memory with the original.

        Raises:
            ValueError: when another array is divided over the replicas, or over devices of another mesh; and when a Shard's group size does
                not divide the number of replicas.
        """
        nodes, structure = _jax.tree.flatten(carry, is_leaf=is_shard)
        others = [index for index, node in enumerate(nodes) if not (isinstance(node, jax.Array) and node.sharding == self.replicated)]
        elsewhere = [index for index in others if not self._is_here(carry, index, nodes[index])]
        if not elsewhere:
            return carry
        arrays = [self._divisible(nodes[index]) for index in elsewhere]
        places = [self._place_of(nodes[index]) for index in elsewhere]
        for index, copy in zip(elsewhere, self._copied(arrays, places), strict=True):
            node = nodes[index]
            nodes[index] = dataclasses.replace(node, values=copy) if is_shard(node) else copy
        return _jax.tree.unflatten(structure, nodes)

    @overload
    def share(self, dataset: Iterator[Pytree]) -> Iterator[Pytree]: ...
    @overload
    def share(self, dataset: Dataset) -> Iterable[Pytree]: ...
    def share(self, dataset: Dataset) -> Iterable[Pytree]:
        """This process's elements of a dataset that all processes have: element `step * count + r` where replica r is of this process.

        With one process that is every element.

        Args:
            dataset: as an InfeedQueue takes it: an iterable, or a callable without arguments that returns one.
        Returns:
            an iterator of an iterator; of any other dataset an iterable, each pass over which begins the dataset anew. Its iterators have
            `get_state` and `set_state` if those of the dataset know their place.
        Raises:
            TypeError: for what is no dataset.
        """
        shared = ProcessShare(begin=iterator_maker(dataset), count=self.count, mine=frozenset(self.local))
        return iter(shared) if isinstance(dataset, Iterator) else shared

    def _place_of(self, node: Pytree) -> NamedSharding:
        """Where a node of a carry goes. What is in the host's memory stays in the host's memory."""
        array, sharding = (node.values, self.divided) if is_shard(node) else (node, self.replicated)
        return sharding.with_memory_kind(array.sharding.memory_kind) if is_on_host(array) else sharding

    def _divisible(self, node: Pytree) -> Any:
        """The array of a node of a carry; of a Shard all replicas' parts."""
        if not is_shard(node):
            return node
        if isinstance(node.values, jax.Array) and any(device.platform in dry_platforms for device in node.values.devices()):
            return np.broadcast_to(np.zeros((), node.values.dtype), self._elements(node))  # a dry run has no values: these take no memory
        return all_parts(np.asarray(readable(node.values))[: node.size], self.count, node.group_size)

    def _elements(self, shard: Shard) -> int:
        """Elements of all replicas' parts. Raises: ValueError if its groups do not make up the replicas."""
        _, members = groups_of(self.count, shard.group_size)
        return part_elements(shard.size, members) * self.count

    def _copied(self, arrays: list[Any], places: list[NamedSharding]) -> list[Any]:
        """The arrays on the replicas; with several processes each fills its own devices."""
        if self.replicated.is_fully_addressable or is_simulated_in_part(self.replicated):
            return put_shards(arrays, places)
        return [_filled(array, place) for array, place in zip(arrays, places, strict=True)]

    def _is_here(self, carry: Pytree, index: int, leaf: Any) -> bool:
        """Whether leaf number `index` is on the replicas. Raises: ValueError if it is divided, over them or elsewhere, and no Shard."""
        if is_shard(leaf):
            values = leaf.values
            return isinstance(values, jax.Array) and values.size == self._elements(leaf) and values.sharding == self._place_of(leaf)
        if not isinstance(leaf, jax.Array):
            return False
        sharding: Any = leaf.sharding
        here = isinstance(sharding, NamedSharding) and sharding.mesh == self.mesh
        if here and self.axis not in _names(sharding.spec):
            return True
        if here or not sharding.is_fully_replicated:
            where = _jax.tree_util.keystr(_jax.tree_util.tree_flatten_with_path(carry)[0][index][0])
            raise ValueError(
                f"carry{where} is divided over devices ({sharding}), but each replica needs all of it: give it whole, on one device or as "
                f"replicas.replicated; within a replica a NamedSharding of replicas.mesh may divide it, by another axis than {self.axis!r}"
            )
        return False


def _filled(array: Any, place: NamedSharding) -> Any:
    if isinstance(array, jax.Array) and _jax.dtypes.issubdtype(array.dtype, _jax.dtypes.prng_key):
        return _jax.random.wrap_key_data(_filled(_jax.random.key_data(array), place), impl=_jax.random.key_impl(array))
    whole = np.asarray(array, dtype=_jax.dtypes.canonicalize_dtype(_jax.numpy.result_type(array)))
    return _jax.make_array_from_callback(whole.shape, place, lambda index: whole[index])


def current_axis() -> str:
    """The axis name of the replicas for which this is traced; AXIS if nobody has said so."""
    return _axis.get() or AXIS


def _meant(count: object) -> str:
    return (
        f"; devices=jax.devices({shown(count)}) are those of a platform" if isinstance(count, str) else belongs_to(count, "devices", "mesh")
    )


def _mesh_of(count: int | None, devices: Iterable[Device] | None, shards: int, axis: str) -> Mesh:
    if axis == SHARD_AXIS:
        raise ValueError(f"axis is {shown(axis)}: that is the name of the axis within a replica; choose another one")
    wanted = None if count is None else whole_number("count", count, least=1, hint=_meant(count)) * shards
    chosen = _first(count, wanted, shards) if devices is None else devices_of(devices)
    if count is None:
        if not chosen or len(chosen) % shards:
            raise ValueError(
                f"{len(chosen)} devices / {shown(shards)} shards = {len(chosen) / shards:.4g} replicas, no whole number above 0: give "
                f"{_next(len(chosen), shards)} devices, or other shards"
            )
    elif len(chosen) != wanted:
        raise ValueError(
            f"count: {shown(count)} replicas x {shown(shards)} shards = {shown(wanted)} devices, but {len(chosen)} were given: leave "
            f"count away, or give {shown(wanted)} devices"
        )
    twice = next(((device, times) for device, times in Counter(chosen).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"devices has {twice[0]} {twice[1]} times: each device is of one replica")
    if len({device.platform for device in chosen}) > 1:
        raise ValueError(f"devices are of several platforms ({', '.join(sorted({d.platform for d in chosen}))}): replicas are of one")
    grid = np.array(chosen, dtype=object).reshape(-1, shards)
    return Mesh(grid, (axis, SHARD_AXIS)) if shards > 1 else Mesh(grid[:, 0], (axis,))


def _first(count: int | None, wanted: int | None, shards: int) -> tuple[Device, ...]:
    there = select_devices()
    if wanted is not None and wanted > len(there):
        raise ValueError(
            f"count: {shown(count)} replicas x {shown(shards)} shards = {shown(wanted)} devices, but there are {len(there)} on "
            f"platform {there[0].platform}{more_devices(there)}"
        )
    return there[:wanted]


def _next(devices: int, shards: int) -> str:
    below, above = devices // shards * shards, (devices // shards + 1) * shards
    return f"{below} or {above}" if below else shown(above)


def _require_mesh(mesh: Mesh, axis: str, count: int | None, shards: int | None, devices: object) -> None:
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh is {shown(mesh)}: it must be a jax.sharding.Mesh{belongs_to(mesh, 'devices')}")
    if devices is not None:
        raise ValueError("mesh and devices are given: the mesh has its devices, leave the others away")
    if axis not in mesh.shape:
        raise ValueError(f"axis is {shown(axis)}, but the mesh has {', '.join(map(repr, mesh.axis_names))}: name its axis of replicas")
    found = mesh.shape[axis], mesh.size // mesh.shape[axis]
    for name, value, there in (("count", count, found[0]), ("shards", shards, found[1])):
        if value is not None and whole_number(name, value, least=1) != there:
            raise ValueError(
                f"{name} is {shown(value)}, but the mesh {dict(mesh.shape)} has {found[0]} replicas (axis {shown(axis)}) x {found[1]} "
                f"shards "
                f"= {mesh.size} devices: leave {name} away, or give another mesh"
            )


def _local(mesh: Mesh, axis: str) -> tuple[int, ...]:
    """Numbers of the replicas of this process. Raises: ValueError if replicas and processes do not go together."""
    place = NamedSharding(mesh, PartitionSpec())
    if is_of_a_part(place):
        if not place.addressable_devices:
            raise ValueError(
                f"the replicas are on {mesh.devices.flat[0]} and others, of which none is simulated (TILESTEP_SIMULATED_IPUS): take all "
                "IPUs, or those that are simulated, jax.local_devices()"
            )
        return tuple(range(mesh.shape[axis]))
    rows = np.moveaxis(mesh.devices, mesh.axis_names.index(axis), 0).reshape(mesh.shape[axis], -1)
    owners = [{device.process_index for device in row} for row in rows]
    for replica, owner in enumerate(owners):
        if len(owner) > 1:
            raise ValueError(
                f"replica {replica} has devices of processes {_listed(owner)}: a replica's devices must be of one process; choose shards "
                f"that divide each process's {len(jax.local_devices())} devices"
            )
    having = set().union(*owners)
    lacking = set(range(jax.process_count())) - having
    if lacking:
        raise ValueError(
            f"process {min(lacking)} of {jax.process_count()} has no replica: {mesh.shape[axis]} replicas are on processes "
            f"{_listed(having)}; every process runs the same program, so give each some of them"
        )
    return tuple(replica for replica, owner in enumerate(owners) if jax.process_index() in owner)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _names(spec: PartitionSpec) -> set[str]:
    """Mesh axes over which a spec divides."""
    found: set[str] = set()
    for part in spec:
        found |= {part} if isinstance(part, str) else set(part) if isinstance(part, tuple) else set()
    return found
