"""Which devices programs have: what `IPUConfig.configure_ipu_system()` has chosen, divided into shards and replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tilestep.errors import UnsupportedError
from tilestep.train import Replicas, select_devices
from tilestep.train.untyped import Device, Pytree, jax


@dataclass(frozen=True, kw_only=True)
class System:
    """The devices, options of all programs' plans, and whether pipelines compute activations again."""

    devices: tuple[Device, ...]
    plan_options: Mapping[str, Any]
    recompute: bool = False


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a program runs. Attributes: device: of the first replica. replicas: None if there is one."""

    device: Device
    replicas: Replicas | None

    @property
    def count(self) -> int:
        return 1 if self.replicas is None else self.replicas.count

    def placed(self, tree: Pytree) -> Pytree:
        """A pytree of arrays on the devices. Those that are there stay."""
        return jax.tree.map(self._moved, tree) if self.replicas is None else self.replicas.place(tree)

    def _moved(self, leaf: Any) -> Any:
        """What is in the host's memory of the device stays there."""
        there = isinstance(leaf, jax.Array) and leaf.devices() == {self.device}
        return leaf if there else jax.device_put(leaf, self.device)


_configured: Final[list[System]] = []


def configure(devices: tuple[Device, ...], plan_options: Mapping[str, Any], *, recompute: bool = False) -> None:
    """All programs that are made from now on have these devices."""
    _configured[:] = [System(devices=devices, plan_options=dict(plan_options), recompute=recompute)]


def reset() -> None:
    """As it is before anything is configured."""
    _configured.clear()


def is_configured() -> bool:
    """Whether anything is configured."""
    return bool(_configured)


def system() -> System:
    """What is configured; one device if nothing is."""
    return _configured[0] if _configured else System(devices=select_devices(1), plan_options={})


def shares(shards: int) -> tuple[tuple[Device, ...], int]:
    """(devices of a pipeline of so many, one replica's after the other; the number of replicas). Raises: as `placement`."""
    where, devices = placement(shards), system().devices
    each = len(devices) // where.count
    return tuple(device for replica in range(where.count) for device in devices[replica * each :][:shards]), where.count


def offloads(given: bool | None) -> bool:
    """Whether optimisers' slots are in the host's memory between updates. Args: given: None: where devices have a memory of their own."""
    return system().devices[0].platform != "cpu" if given is None else given


def placement(shards: int) -> Placement:
    """Where a program runs that has so many shards.

    A replica has as many IPUs as the next power of two. Source: TensorFlow for the IPU, `scopes.ipu_shard` and its tests of pipelines.
    Raises: UnsupportedError for IPUs that are no multiple of the shards.
    """
    devices = system().devices
    each = 1 << (shards - 1).bit_length()
    if len(devices) % each:
        raise UnsupportedError(
            f"the program has {shards} shards, for which a replica has {each} IPUs, but {len(devices)} are configured: set "
            f"auto_select_ipus to a multiple of {each}"
        )
    count = len(devices) // each
    return Placement(device=devices[0], replicas=None if count == 1 else Replicas(count, devices=devices[::each]))
