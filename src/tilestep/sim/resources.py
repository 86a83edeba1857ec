"""The carriers of bytes outside of IPUs, each one message at a time: links, gateways, streaming memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, final

from tilestep.machine.spec import MachineSpec
from tilestep.sim.channel import Channel


class Resource(NamedTuple):
    """One carrier of an exchange between IPUs: one direction of a gateway, or of the IPU-Links between two neighbours."""

    kind: Literal["gateway", "link"]
    source: int  # an IPU-Machine, or the IPU that sends
    target: int = -1  # the neighbour that receives


def gateway_of(machine_index: int) -> Resource:
    """The gateway of an IPU-Machine, outwards."""
    return Resource("gateway", machine_index)


def link_of(source: int, target: int) -> Resource:
    """The IPU-Links from an IPU to its neighbour."""
    return Resource("link", source, target)


Load = tuple[Channel, int, Resource]
"""A channel, cycles of its use, and what it is of."""


@final
class Resources:
    """The channels of one machine."""

    def __init__(self, machine: MachineSpec) -> None:
        machines = range(machine.num_machines)
        self.to_ipus = tuple(Channel() for _ in machines)  # the host link of each IPU-Machine, towards its IPUs
        self.to_host = tuple(Channel() for _ in machines)  # the same link, the other way
        self.memories = tuple(Channel() for _ in machines)  # the streaming memory of each IPU-Machine, both ways together
        self.between_ipus: dict[Resource, Channel] = {}

    def loads(self, traffic: Mapping[Resource, int]) -> tuple[Load, ...]:
        """Traffic in cycles of each gateway and link, as loads of channels; those that are new are made."""
        return tuple(
            (self.between_ipus.setdefault(resource, Channel()), cycles, resource) for resource, cycles in traffic.items() if cycles
        )

    def all(self) -> Iterable[Channel]:
        """Every channel in use."""
        yield from self.to_ipus
        yield from self.to_host
        yield from self.memories
        yield from self.between_ipus.values()
