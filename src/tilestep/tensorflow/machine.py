"""Which devices programs have: what `IPUConfig.configure_ipu_system()` has chosen, divided into shards and replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tilestep.errors import UnsupportedError
from tilestep.train import Replicas, select_devices
from tilestep.train.untyped import Device, Pytree, jax


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


_configured: Final[list[System]] = []


def configure(*systems: System) -> None:
    """All programs that are made from now on have this one. None: one device."""
    _configured[:] = systems


def is_configured() -> bool:
    """Whether anything is configured."""
    return bool(_configured)


def system() -> System:
    """What is configured; one device if nothing is."""
    return _configured[0] if _configured else System(devices=select_devices(1))


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
