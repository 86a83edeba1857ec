"""Places a pipeline's stages on devices: each on one device, on a mesh of several, or on one of these for each replica."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from tilestep.train.optimizers.sharded import replica_specs
from tilestep.train.planned import PLATFORM, CompilerOptions, GivenOptions, plan_options_of_devices, planned, require_tiles_left
from tilestep.train.processes.remote import RemoteProgram
from tilestep.train.replicas.replicas import AXIS, SHARD_AXIS, Replicas
from tilestep.train.simulated import is_simulated_in_part
from tilestep.train.untyped import Device, Spec
from tilestep.train.untyped import jax as _jax

# How an argument or result of a program is spread over replicas: the axis that counts them; None: all have the same; STATE: a tree in
# which what is a Shard is divided, and all else is the same; a list has an entry for each item of a list.
STATE: Final = "state"
Axes = int | str | None | Sequence[int | None]


@final
@dataclass(frozen=True)
class StagePlacement:
    """The devices of a stage's arrays."""

    devices: tuple[Device, ...]  # all of them
    whole: Sharding  # the sharding of arrays that are the same for all replicas, such as parameters
    replicas: Replicas | None = None  # replicas of the pipeline, on these devices; None: there is one
    is_local: bool = True  # whether they are devices of this process, which then runs the stage
    plan_options: CompilerOptions = ()  # plan options of the programs there; none on other platforms than emulated machines

    @property
    def is_mesh(self) -> bool:
        """Whether a replica has several devices, over which JAX divides its arrays."""
        return (len(self.devices) if self.replicas is None else self.replicas.shards) > 1

    @property
    def compiler_options(self) -> dict[str, Any] | None:
        """The options with which a program is compiled there that has arguments or results."""
        return dict(self.plan_options) or None

    def along(self, axis: int | None) -> Sharding:
        """The sharding of an array. Args: axis: the one that counts replicas; None: all replicas have the same array."""
        if self.replicas is None or axis is None:
            return self.whole
        return NamedSharding(self.replicas.mesh, _spec(axis, self.replicas.axis))

    def spec(self, spec: Spec, axis: int | None) -> Any:
        """The spec of all replicas' array, with its sharding, from that of one replica's."""
        shape = spec.shape
        if self.replicas is not None and axis is not None:
            shape = (*shape[:axis], self.replicas.count, *shape[axis:])
        return _jax.ShapeDtypeStruct(shape, spec.dtype, sharding=self.along(axis))

    def accumulator_sharding(self, of_parameter: Sharding) -> Sharding:
        """The sharding of the replicas' accumulators for a parameter with this sharding."""
        if self.replicas is None or not isinstance(of_parameter, NamedSharding):
            return of_parameter
        return NamedSharding(self.replicas.mesh, PartitionSpec(self.replicas.axis, *of_parameter.spec))

    def traced(self, function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        """(the equations of a function of one replica's arrays, closed; shapes and dtypes of its result)."""
        if self.replicas is None:
            return _jax.make_jaxpr(function, return_shape=True)(*args)
        axes = [(self.replicas.axis, self.replicas.count)]
        with self.replicas.inside():
            return _jax.make_jaxpr(function, axis_env=axes, return_shape=True)(*args)

    def spread(self, function: Callable[..., Any], axes_in: Sequence[Axes], axes_out: Sequence[Axes]) -> Callable[..., Any]:
        """A function of one replica's arrays as one of all replicas'. Its result is a tuple with an item for each of `axes_out`."""
        replicas = self.replicas
        if replicas is None:
            return function

        def of_replica(*args: Any) -> tuple[Any, ...]:
            mine = [_each(_jax.lax.squeeze, arg, axes) for arg, axes in zip(args, axes_in, strict=True)]
            results = function(*mine)
            return tuple(_each(_jax.lax.expand_dims, result, axes) for result, axes in zip(results, axes_out, strict=True))

        def of_all(*args: Any) -> tuple[Any, ...]:
            specs = tuple(_specs(arg, axes, replicas.axis) for arg, axes in zip(args, axes_in, strict=True))
            state = next((specs[index] for index, axes in enumerate(axes_in) if axes == STATE), None)
            out = tuple(state if axes == STATE else _specs(None, axes, replicas.axis) for axes in axes_out)
            return replicas.shard_map(of_replica, in_specs=specs, out_specs=out)(*args)

        return of_all

    def jit(
        self,
        function: Callable[..., Any],
        name: str,
        axes_in: Sequence[Axes],
        axes_out: Sequence[Axes],
        *,
        donate: tuple[int, ...] = (),
        out_shardings: Any = None,
    ) -> Any:
        """A compiled function of all replicas' arrays. Args: out_shardings: of its results, for a mesh.

        Where the placement is in another process, a function that is always called with arguments of the same shapes, and computes nothing.
        """
        spread = self.spread(function, axes_in, axes_out)
        if not self.is_local:
            return RemoteProgram(spread, self.whole)

        def program(*args: Any) -> Any:
            return spread(*args)

        program.__name__ = program.__qualname__ = name
        given = {} if out_shardings is None else {"out_shardings": out_shardings}
        return planned(lambda options: _jax.jit(program, donate_argnums=donate, compiler_options=options, **given), self.plan_options)


def placements_of(
    entries: Sequence[Any],
    devices: Sequence[Device],
    replicas: int,
    plan_options: GivenOptions | Sequence[GivenOptions | None] | None = None,
    *,
    mapped: bool,
) -> tuple[StagePlacement, ...]:
    """Each stage's placement.

    Args: entries: of each stage an index among the devices of a replica, several such, or a mesh. devices: those of all replicas, one
        replica's after the other's. plan_options: of all programs, or for each device of a replica those of its programs. mapped: whether
        the user has given the entries; else stage k is on device k.
    Raises:
        ValueError: for an index beyond the devices, a mesh that does not have the replicas, devices that stages share in part, or plan
            options that are wrong.
        TypeError: for plan options of another type.
    """
    indices = [index for entry in entries if not isinstance(entry, Mesh) for index in _listed(entry)]
    each = max(indices, default=-1) + 1
    if indices and each * replicas > len(devices):
        needs = (
            f"device_mapping names device {each - 1}, counted from 0" if mapped else f"the number of stages is {each}, a device for each"
        )
        if replicas > 1:
            needs += f", and with {replicas} replicas of {each} devices each there must be {each * replicas}"
        raise ValueError(
            f"{needs}, but {f'there are {len(devices)} devices' if devices[1:] else 'there is 1 device'}: give more devices, or a "
            "device_mapping in which stages share one"
        )
    plans = plan_options_of_devices(plan_options, None if any(isinstance(entry, Mesh) for entry in entries) else each)
    made: dict[Any, StagePlacement] = {}
    placements: list[StagePlacement] = []
    own = devices[0].client.process_index() if devices else 0
    for entry in entries:
        key = entry if isinstance(entry, Mesh) else tuple(_listed(entry))
        if key not in made:
            placement = _of_mesh(entry, replicas) if isinstance(entry, Mesh) else _of_indices(_listed(entry), devices, each, replicas)
            owners = sorted({device.process_index for device in placement.devices})
            in_part = is_simulated_in_part(placement.whole)
            is_planned = placement.devices[0].platform == PLATFORM
            if is_planned and own not in owners:
                raise ValueError(
                    f"stage {len(placements)} is on device {placement.devices[0]}, which is not simulated: a replica has {each} IPUs, so "
                    "that TILESTEP_SIMULATED_IPUS must be a multiple of that, or left out"
                )
            if len(owners) > 1 and not in_part:
                raise ValueError(_several_processes(len(placements), owners, devices, each, replicas))
            options = _plan_options(entry, plans)
            if is_planned:
                require_tiles_left(options, placement.devices[0])
            made[key] = replace(placement, is_local=in_part or owners == [own], plan_options=options if is_planned else ())
        placements.append(made[key])
    _require_disjoint(placements)
    return tuple(placements)


def _listed(entry: Any) -> list[int]:
    return list(entry) if isinstance(entry, list | tuple) else [entry]


def _plan_options(entry: Any, plans: Sequence[CompilerOptions]) -> CompilerOptions:
    """Args: plans: for all devices, or for each. Raises: ValueError if a stage's devices have different ones."""
    if len(plans) == 1:
        return plans[0]
    first, *others = _listed(entry)
    for other in others:
        if plans[other] != plans[first]:
            raise ValueError(
                f"plan_options[{first}] and plan_options[{other}] differ, but a stage is on both devices, and its programs have one plan: "
                "give both the same options"
            )
    return plans[first]


def _of_indices(indices: Sequence[int], devices: Sequence[Device], each: int, replicas: int) -> StagePlacement:
    chosen = tuple(devices[replica * each + index] for replica in range(replicas) for index in indices)
    if len(chosen) == 1:
        return StagePlacement(devices=chosen, whole=SingleDeviceSharding(chosen[0]))
    if replicas == 1:
        return StagePlacement(devices=chosen, whole=NamedSharding(Mesh(np.array(chosen, dtype=object), (SHARD_AXIS,)), PartitionSpec()))
    grid = np.array(chosen, dtype=object)
    over = Replicas.of_stage(Mesh(grid, (AXIS,)) if len(indices) == 1 else Mesh(grid.reshape(replicas, len(indices)), (AXIS, SHARD_AXIS)))
    return StagePlacement(devices=chosen, whole=over.replicated, replicas=over)


def _of_mesh(mesh: Mesh, replicas: int) -> StagePlacement:
    devices = tuple(mesh.devices.flat)
    if replicas == 1 and AXIS not in mesh.shape:
        return StagePlacement(devices=devices, whole=NamedSharding(mesh, PartitionSpec()))
    if mesh.shape.get(AXIS) != replicas:
        raise ValueError(
            f"device_mapping has a mesh {dict(mesh.shape)}, but the pipeline has {replicas} replicas: the mesh needs an axis "
            f"{AXIS!r} of so many"
        )
    over = Replicas.of_stage(mesh)
    return StagePlacement(devices=devices, whole=over.replicated, replicas=over if replicas > 1 else None)


def _several_processes(stage: int, owners: Sequence[int], devices: Sequence[Device], each: int, replicas: int) -> str:
    what = "a stage" if replicas == 1 else "all replicas of a stage"
    text = f"stage {stage} is on devices of the processes {', '.join(map(str, owners))}: {what} must be on devices of one process; "
    if replicas == 1:
        return text + "name devices of one process in device_mapping"
    by_process: dict[int, list[Any]] = {}
    for device in devices:
        by_process.setdefault(device.process_index, []).append(device)
    able = [own for own in by_process.values() if len(own) >= replicas][:each]
    if len(able) < each:
        return (
            text + f"replica r has {each} devices from number r * {each} on: order them so, give more, or put the replicas into one process"
        )
    ids = [own[replica].id for replica in range(replicas) for own in able]
    return text + f"with devices in the order of the ids {ids} they are"


def _require_disjoint(placements: Sequence[StagePlacement]) -> None:
    for stage, placement in enumerate(placements):
        for before in range(stage):
            other = placements[before]
            if placement != other and not set(placement.devices).isdisjoint(other.devices):
                shared = next(device for device in placement.devices if device in other.devices)
                if replace(placement, plan_options=()) == replace(other, plan_options=()):
                    raise ValueError(
                        f"stages {before} and {stage} share device {shared}, which devices has twice, and plan_options has other options "
                        "for each time: give both the same, or devices that are apart"
                    )
                raise ValueError(
                    f"stages {before} and {stage} share device {shared}, but not all of their devices: give both the same entry of "
                    "device_mapping, or devices that are apart"
                )


def _spec(axis: int, name: str) -> PartitionSpec:
    return PartitionSpec(*[None] * axis, name)


def _specs(arg: Any, axes: Axes, name: str) -> Any:
    if axes == STATE:
        return replica_specs(arg, name)
    if isinstance(axes, int):
        return _spec(axes, name)
    if axes is None:
        return PartitionSpec()
    return [PartitionSpec() if isinstance(axis, str) or axis is None else _spec(axis, name) for axis in axes]


def _each(change: Callable[[Any, tuple[int]], Any], arg: Any, axes: Axes) -> Any:
    """`arg` with the axis of replicas taken away, or given."""
    if axes is None or isinstance(axes, str):
        return arg
    if isinstance(axes, int):
        return _jax.tree.map(lambda leaf: change(leaf, (axes,)), arg)
    return [leaf if axis is None else change(leaf, (axis,)) for leaf, axis in zip(arg, axes, strict=True)]
