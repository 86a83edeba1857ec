"""`tensorflow.python.ipu`'s `config` and `utils`: which IPUs a program has, in shards and replicas, and how it is compiled for them."""

from __future__ import annotations

import copy
import enum
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from tilestep.errors import UnsupportedError
from tilestep.messages import nearest, shown
from tilestep.train import Replicas, select_devices
from tilestep.train.untyped import Device, Pytree, jax

# Values of options that have no effect: emulated IPUs are always there and have their places, `tilestep run --report` writes profiles, and
# XLA orders a program's operations and rounds to the nearest.
SelectionOrder = enum.Enum("SelectionOrder", "AUTO ZIGZAG SNAKE HOOF", start=0)
DeviceConnectionType = enum.Enum("DeviceConnectionType", "ALWAYS ON_DEMAND PRE_COMPILE NEVER", start=0)
ExecutionProfileType = enum.Enum("ExecutionProfileType", "NO_PROFILE DEVICE_PROFILE IPU_PROFILE TILE_PROFILE", start=0)
MergeRemoteBuffersBehaviour = enum.Enum("MergeRemoteBuffersBehaviour", "NO_MERGING MERGE IF_BENEFICIAL", start=0)
SchedulingAlgorithm = enum.Enum("SchedulingAlgorithm", "CHOOSE_BEST POST_ORDER CLUSTERING SHORTEST_PATH", start=0)


class StochasticRoundingBehaviour(enum.Enum):
    OFF, ON, REPLICA_IDENTICAL_ONLY = range(3)

    @classmethod
    def from_bool(cls, value: bool) -> StochasticRoundingBehaviour:
        return cls(int(value))


# Option -> its default, as `IPUConfig` of SDK 2.4 to 3.3 has them. Source: the documentation of `tensorflow.python.ipu.config`, and which
# options the public programs set.
_BY_DEFAULT: Final[tuple[tuple[Any, str], ...]] = (
    ([], "auto_select_ipus select_ipus"),
    (SelectionOrder.AUTO, "selection_order"),
    ("", "serialization_output_folder device_connection.version"),
    (
        False,
        """allow_recompute matmuls.clear_pass_type device_connection.enable_remote_buffers floating_point_behaviour.inv
        floating_point_behaviour.div0 floating_point_behaviour.oflo floating_point_behaviour.nanoo floating_point_behaviour.set_all
        io_tiles.place_ops_on_io_tiles norms.use_stable_statistics experimental.always_rearrange_copies_on_the_host
        experimental.enable_remote_buffer_embedding experimental.enable_prng_stability optimizations.math.fast
        optimizations.combine_embedding_lookups optimizations.combine_matmuls optimizations.enable_gather_simplifier
        optimizations.enable_fast_math""",
    ),
    (
        {},
        """compilation_poplar_options gcl_poplar_options convolutions.poplar_options matmuls.poplar_options pooling.poplar_options
        slices.poplar_options""",
    ),
    (DeviceConnectionType.ALWAYS, "device_connection.type"),
    (
        True,
        """ipu_model.compile_ipu_code optimizations.math.dot_strength optimizations.prefetch_data_streams
        optimizations.enable_graph_outlining optimizations.merge_infeed_io_copies optimizations.enable_dynamic_slice_replacement""",
    ),
    (
        0,
        """ipu_model.tiles_per_ipu io_tiles.num_io_tiles experimental.multi_replica_distribution.process_count
        experimental.multi_replica_distribution.process_index optimizations.maximum_cross_replica_sum_buffer_size
        optimizations.maximum_reduce_scatter_buffer_size optimizations.maximum_all_gather_buffer_size
        optimizations.maximum_inter_ipu_copies_buffer_size optimizations.maximum_send_recv_cluster_size
        optimizations.maximum_reduce_many_buffer_size optimizations.triangular_solve_expander_block_size
        optimizations.cholesky_block_size""",
    ),
    ("ipu2", "ipu_model.version"),
    (StochasticRoundingBehaviour.OFF, "floating_point_behaviour.esr"),
    (0.9, "io_tiles.available_memory_proportion"),
    (1, "norms.experimental.distributed_batch_norm_replica_group_size"),
    (SchedulingAlgorithm.CHOOSE_BEST, "scheduling.algorithm"),
    (5, "scheduling.maximum_scheduler_lookahead_depth"),
    (64, "scheduling.maximum_scheduler_search_space_size"),
    (128, "optimizations.minimum_remote_tensor_size"),
    (MergeRemoteBuffersBehaviour.IF_BENEFICIAL, "optimizations.merge_remote_buffers"),
)
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({name: default for default, names in _BY_DEFAULT for name in names.split()})
# What has an equal here, and what is of a machine that is not there. Other options that a program changes are named in a warning.
_DONE: Final = {"auto_select_ipus", "select_ipus", "allow_recompute", "io_tiles.num_io_tiles", "floating_point_behaviour.inv"}
_PLANNED: Final = {"matmuls.poplar_options", "convolutions.poplar_options"}
_SILENT: Final = ("device_connection.", "ipu_model.", "selection_order", "serialization_output_folder")
_PLAN: Final = (("availableMemoryProportion", "available_memory_proportion", float), ("partialsType", "partials_type", str))


@dataclass(frozen=True, kw_only=True)
class System:
    """The devices, options of all programs' plans, and whether pipelines compute activations again."""

    devices: tuple[Device, ...]
    plan_options: Mapping[str, Any] = field(default_factory=dict)
    recompute: bool = False


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a program runs. Attributes: devices: shards of each replica. replicas: on the first of each; None if there is one."""

    devices: tuple[Device, ...]
    replicas: Replicas | None

    @property
    def count(self) -> int:
        return 1 if self.replicas is None else self.replicas.count

    def placed(self, tree: Pytree) -> Pytree:
        """A pytree of arrays on the devices. Those that are there stay, also in the host's memory of the device."""

        def moved(leaf: Any) -> Any:
            is_there = isinstance(leaf, jax.Array) and leaf.devices() == {self.devices[0]}
            return leaf if is_there else jax.device_put(leaf, self.devices[0])

        return jax.tree.map(moved, tree) if self.replicas is None else self.replicas.place(tree)


systems: Final[list[System]] = []  # programs that are made from now on have these; none: one device


def system() -> System:
    """What is configured; one device if nothing is."""
    return systems[0] if systems else System(devices=select_devices(1))


def offloads(given: bool | None) -> bool:
    """Whether optimisers' slots are in the host's memory between updates. Args: given: None: where devices have a memory of their own."""
    return system().devices[0].platform != "cpu" if given is None else given


def placement(shards: int) -> Placement:
    """Where a program runs that has so many shards.

    A replica has as many IPUs as the next power of two. Source: TensorFlow for the IPU, `scopes.ipu_shard` and its tests of pipelines.
    Raises: UnsupportedError for IPUs that are no multiple of the shards.
    """
    devices, each = system().devices, 1 << (shards - 1).bit_length()
    if len(devices) % each:
        raise UnsupportedError(
            f"the program has {shards} shards, for which a replica has {each} IPUs, but {len(devices)} are configured: set "
            f"auto_select_ipus to a multiple of {each}"
        )
    own = tuple(device for index, device in enumerate(devices) if index % each < shards)
    count = len(devices) // each
    return Placement(devices=own, replicas=None if count == 1 else Replicas(count, devices=devices[::each]))


class _Options:
    """A part of the tree of options. Raises: AttributeError for one that there is not; TypeError for a value of another type."""

    def __init__(self, values: dict[str, Any], path: str = "") -> None:
        vars(self).update(_values=values, _path=path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = f"{self._path}{name}"
        if path in self._values:
            return self._values[path]
        if any(known.startswith(f"{path}.") for known in self._values):
            return _Options(self._values, f"{path}.")
        raise self._unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        path = f"{self._path}{name}"
        if path not in self._values:
            raise self._unknown(name)
        if path == "floating_point_behaviour.esr" and isinstance(value, bool):
            value = StochasticRoundingBehaviour(int(value))
        kinds = (int, list, tuple) if path in ("auto_select_ipus", "select_ipus") else (type(_DEFAULTS[path]),)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError(f"IPUConfig.{path} is {shown(value)}: it must be {' or '.join(kind.__name__ for kind in kinds)}")
        self._values[path] = value

    def _unknown(self, name: str) -> AttributeError:
        ways = {known.removeprefix(self._path).partition(".")[0] for known in self._values if known.startswith(self._path)}
        closest = nearest(name, ways)
        return AttributeError(f"IPUConfig has no option {self._path}{name}" + (f": did you mean {self._path}{closest}?" if closest else ""))


class IPUConfig(_Options):
    """The options, each with its default. `configure_ipu_system()` makes them those of the programs that are compiled after it."""

    def __init__(self) -> None:
        super().__init__({name: copy.copy(default) for name, default in _DEFAULTS.items()})  # programs set keys of dicts

    def configure_ipu_system(self, device: str = "cpu", reset_configuration: bool = True) -> None:
        """Chooses the devices. Options that are changed and have no equal here are named in a warning. The arguments have no effect.

        Raises: UnsupportedError for more IPUs than there are; ValueError for both ways of selection, or one that is wrong.
        """
        devices = _devices(self.auto_select_ipus, self.select_ipus)
        planned = {**self.matmuls.poplar_options, **self.convolutions.poplar_options}
        plan_options = {name: make(planned[key]) for key, name, make in _PLAN if key in planned}
        if self.io_tiles.num_io_tiles:
            plan_options["num_io_tiles"] = self.io_tiles.num_io_tiles
        systems[:] = [System(devices=devices, plan_options=plan_options, recompute=self.allow_recompute)]
        changed = {name for name, value in self._values.items() if value != _DEFAULTS[name]}
        ignored = sorted(name for name in changed - _DONE - _PLANNED if not name.startswith(_SILENT))
        if ignored:
            warnings.warn(f"options of IPUConfig that have no effect here: {', '.join(ignored)}", UserWarning, stacklevel=2)


def _devices(auto: Any, ids: Any) -> tuple[Any, ...]:
    if auto != [] and ids != []:
        raise ValueError(f"IPUConfig has auto_select_ipus={shown(auto)} and select_ipus={shown(ids)}: set one of them")
    given = auto if ids == [] else ids
    if isinstance(given, list | tuple) and len(given) > 1:
        raise UnsupportedError(
            f"auto_select_ipus or select_ipus is {shown(given)}, which makes several devices of TensorFlow: tilestep has /device:IPU:0 "
            "alone; give one number of IPUs, which its replicas and pipeline stages share"
        )
    one = given[0] if isinstance(given, list | tuple) and given else given
    try:
        return select_devices(1 if one == [] else one) if ids == [] else select_devices(ids=one)
    except ValueError as error:
        raise UnsupportedError(f"IPUConfig asks for IPUs that are not there: {error}; `tilestep run --ipus N` emulates N") from error


configure_ipu_system = IPUConfig.configure_ipu_system
reset_ipu_configuration = systems.clear  # one IPU, as before anything was configured


def get_ipu_config(session: Any = None) -> list[str]:
    """How many IPUs are configured, as text."""
    return [str(len(system().devices))]


def move_variable_initialization_to_cpu(graph: Any = None) -> None:
    """Nothing to do: variables of a session are always initialised by it."""


def create_ipu_config(**options: Any) -> IPUConfig:
    """Before SDK 2.1. Args: options: no effect: of profiles, which `tilestep run --report` writes."""
    return IPUConfig()


def auto_select_ipus(config: IPUConfig, num_ipus: int | Iterable[int]) -> IPUConfig:
    """Sets how many IPUs a program has. Returns: the same options."""
    config.auto_select_ipus = num_ipus if isinstance(num_ipus, int) else list(num_ipus)
    return config


def select_ipus(config: IPUConfig, indices: Iterable[int]) -> IPUConfig:
    """Sets which IPUs a program has. Returns: the same options."""
    config.select_ipus = list(indices)
    return config


def reset_ipu_seed(seed: int, device: Any = None, cpu_device: str = "cpu", experimental_identical_replicas: bool = False) -> None:
    """Warns that it has no effect: XLA makes other random numbers in each step and call."""
    warnings.warn(
        "reset_ipu_seed has no effect: random numbers are others in each run; tf.random.stateless_* and rand_ops.dropout(seed=...) "
        "give the same ones",
        UserWarning,
        stacklevel=2,
    )
