"""Cycles of one collective over IPU-Links and gateways. Pure: (machine, collective, IPUs) -> cycles.

S is `size_bytes` (the larger of operand and result on one IPU), k the members of a group in one rack, R the racks that
it spans, n all its members:

| kind                 | each IPU sends over its link      | each rack sends over its gateways | exchange steps    |
|----------------------|-----------------------------------|-----------------------------------|-------------------|
| all-reduce           | 2 (k-1) / k x S                   | 2 (R-1) / R x S                   | 2 (k-1) + 2 (R-1) |
| all-gather           | (k-1) / k x S                     | (R-1) / R x S                     | (k-1) + (R-1)     |
| reduce-scatter       | (k-1) / k x S                     | (R-1) / R x S                     | (k-1) + (R-1)     |
| collective-broadcast | S                                 | S                                 | (k-1) + (R-1)     |
| all-to-all           | S / n to each other IPU of the rack | S / n to each IPU elsewhere     | n - 1             |
| collective-permute   | S per pair                        | S per pair                        | 1                 |

The first four run on a ring through the members in a rack and a ring of racks, in which the gateways of all machines
that have members take equal parts. Bytes are routed over the ladder's links; the busiest link and the busiest gateway
count, one after the other. Each step ends with a sync of tiles and one of the group's IPUs, there and back over the
distance of the two that are farthest apart.
Sources: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (ring volumes);
graphcore/poplibs@7eac0f26 lib/poplibs_test/Util.cpp (sync per hop, there and back). Calibrated: no.

The rack is the ladder or torus of `machine.topology`: a message first crosses its rung, then runs along one side.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import climb, diameter, hops, machine_of, rack_of, rack_of_way, side_of
from tilestep.plan.steps import Collective
from tilestep.sim.channel import Resource, gateway_of, link_of
from tilestep.units import ceil_div, cycles_from_bytes, cycles_from_seconds


class Link(NamedTuple):
    """One direction of one IPU-Link, from an IPU to its neighbour."""

    source: int
    target: int


class Loads(NamedTuple):
    """Bytes of messages on links, and on the gateways through which they leave their rack."""

    links: Mapping[Link, int]
    gateways: Mapping[int, int]  # machine -> sent through its gateway


def links_between(machine: MachineSpec, a: int, b: int) -> tuple[Link, ...]:
    """The links from IPU `a` to IPU `b` of the same rack, in order."""
    links: list[Link] = []
    per_rack, rack = machine.link.ipus_per_rack, rack_of(machine, a)
    base, here = rack * per_rack, a
    side = side_of(machine, a)
    if side != side_of(machine, b):
        here = a - 1 if side else a + 1
        links.append(Link(a, here))
    rungs = climb(machine, rack, (here - base) // 2, (b - base) // 2)
    step = 2 if rungs > 0 else -2
    for _ in range(abs(rungs)):
        there = base + (here - base + step) % (per_rack + per_rack % 2)  # over the top only where the rack is a torus
        links.append(Link(here, there))
        here = there
    return tuple(links)


def loads_of(machine: MachineSpec, messages: Iterable[tuple[int, int, int]]) -> Loads:
    """Bytes on each link and gateway for messages of (from, to, bytes), all at once.

    A message to another rack leaves through its machine's gateway, arrives at the same index of the other rack, and goes on over links
    from there. If that rack is not full, the message first goes to its target's index in its own rack.
    """
    links: Counter[Link] = Counter()
    gateways: Counter[int] = Counter()
    per_rack = machine.link.ipus_per_rack
    for source, target, size in messages:
        start, end = source, target
        if rack_of(machine, source) != rack_of(machine, target):
            base = rack_of_way(machine, source, target) * per_rack
            start, end = base + source % per_rack, base + target % per_rack
            gateways[machine_of(machine, source if rack_of(machine, target) == base // per_rack else end)] += size
        for link in links_between(machine, start, end):
            links[link] += size
    return Loads(links, gateways)


@lru_cache(maxsize=64)
def pairwise_loads(machine: MachineSpec, group: tuple[int, ...]) -> Loads:
    """Messages on each link and gateway if every IPU of `group` sends one to every other."""
    return loads_of(machine, ((a, b, 1) for a in group for b in group if a != b))


def ring_order(machine: MachineSpec, ipus: Sequence[int]) -> tuple[int, ...]:
    """IPUs of one rack in an order in which neighbours are close: up one side of the ladder, down the other."""
    left = sorted(ipu for ipu in ipus if side_of(machine, ipu) == 0)
    right = sorted((ipu for ipu in ipus if side_of(machine, ipu) == 1), reverse=True)
    return (*left, *right)


_ROUNDS: Final = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "collective-broadcast": 1}  # times around the ring


@dataclass(frozen=True, kw_only=True)
class CollectiveCost:
    """Cycles of one collective, the same on every IPU of the program."""

    exchange_cycles: int  # over links and gateways, undisturbed by other programs
    sync_cycles: int
    traffic: Mapping[Resource, int] = field(default_factory=dict[Resource, int])  # cycles for which each link and gateway sends


def collective_cost(machine: MachineSpec, collective: Collective, ipus: Sequence[int]) -> CollectiveCost:
    """Cycles of `collective` in a program that runs on `ipus` (device position -> IPU).

    Groups run at the same time and share links and gateways; the program goes on when the slowest has finished. No
    groups at all means one of all devices. Excludes the arithmetic (`Collective.compute_cycles`).

    Raises: ValueError if a group or pair names a device position that the program has not.
    """
    if collective.kind == "collective-permute":
        pairs = [(_ipu(collective, ipus, a), _ipu(collective, ipus, b)) for a, b in collective.pairs if a != b]
        loads = loads_of(machine, [(a, b, collective.size_bytes) for a, b in pairs])
        farthest = max((hops(machine, a, b) for a, b in pairs), default=0)
        return _cost(machine, [loads], steps=1 if pairs else 0, farthest=farthest)
    positions = collective.groups or (tuple(range(len(ipus))),)
    groups = [tuple(sorted(_ipu(collective, ipus, position) for position in group)) for group in positions]
    farthest = max((diameter(machine, group) for group in groups), default=0)
    if collective.kind == "all-to-all":
        loads = _all_to_all(machine, groups, collective.size_bytes)
        return _cost(machine, [loads], steps=max((len(group) - 1 for group in groups), default=0), farthest=farthest)
    rings = [_by_rack(machine, group) for group in groups]
    loads = [loads_of(machine, _ring_messages(collective, machine, racks)) for racks in rings]
    gateways = [_ring_gateways(collective, machine, racks) for racks in rings]
    turns = max((len(racks) - 1 + max(len(members) for members in racks) - 1 for racks in rings), default=0)
    return _cost(machine, [*loads, *gateways], steps=_ROUNDS[collective.kind] * turns, farthest=farthest)


def pass_cost(machine: MachineSpec, messages: Sequence[tuple[int, int, int]]) -> CollectiveCost:
    """Cycles to pass messages (from, to, bytes) between IPUs: one exchange step, as of a collective-permute of such pairs."""
    farthest = max(hops(machine, source, target) for source, target, _ in messages)
    return _cost(machine, [loads_of(machine, messages)], steps=1, farthest=farthest)


def _by_rack(machine: MachineSpec, group: Sequence[int]) -> list[tuple[int, ...]]:
    members: dict[int, list[int]] = {}
    for ipu in group:
        members.setdefault(rack_of(machine, ipu), []).append(ipu)
    return [tuple(ipus) for ipus in members.values()]


def _ring_messages(collective: Collective, machine: MachineSpec, racks: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, int, int]]:
    """(from, to, bytes) over the whole collective, between neighbours on the ring of each rack."""
    for members in racks:
        ring = ring_order(machine, members)
        sent = _ring_bytes(collective, len(ring))
        if sent:
            yield from ((ipu, ring[(i + 1) % len(ring)], sent) for i, ipu in enumerate(ring))


def _ring_gateways(collective: Collective, machine: MachineSpec, racks: Sequence[tuple[int, ...]]) -> Loads:
    """Bytes that each machine with members sends to other racks."""
    sent = _ring_bytes(collective, len(racks))
    gateways: Counter[int] = Counter()
    for members in racks if sent else ():
        machines = {machine_of(machine, ipu) for ipu in members}
        gateways.update({index: ceil_div(sent, len(machines)) for index in machines})
    return Loads({}, gateways)


def _ring_bytes(collective: Collective, members: int) -> int:
    """Bytes that each member of a ring sends on."""
    if members < 2:
        return 0
    if collective.kind == "collective-broadcast":
        return collective.size_bytes
    return ceil_div(_ROUNDS[collective.kind] * (members - 1) * collective.size_bytes, members)


def _all_to_all(machine: MachineSpec, groups: Sequence[tuple[int, ...]], size_bytes: int) -> Loads:
    links: Counter[Link] = Counter()
    gateways: Counter[int] = Counter()
    for group in groups:
        part, loads = ceil_div(size_bytes, len(group)), pairwise_loads(machine, group)
        links.update({link: messages * part for link, messages in loads.links.items()})
        gateways.update({index: messages * part for index, messages in loads.gateways.items()})
    return Loads(links, gateways)


def _cost(machine: MachineSpec, loads: Sequence[Loads], *, steps: int, farthest: int) -> CollectiveCost:
    link, clock_hz = machine.link, machine.ipu.clock_hz
    on_links: Counter[Link] = Counter()
    on_gateways: Counter[int] = Counter()
    for load in loads:
        on_links.update(load.links)
        on_gateways.update(load.gateways)
    gateways = {
        gateway_of(index): int(cycles_from_bytes(size, link.gateway_bytes_per_second, clock_hz))
        for index, size in sorted(on_gateways.items())
        if size
    }
    links = {
        link_of(*ends): int(cycles_from_bytes(size, link.bytes_per_second, clock_hz)) for ends, size in sorted(on_links.items()) if size
    }
    step_sync = machine.ipu.sync_cycles + machine.ipu.superstep_overhead_cycles
    step_sync += cycles_from_seconds(2 * farthest * link.sync_seconds_per_hop, clock_hz)
    return CollectiveCost(
        exchange_cycles=max(links.values(), default=0) + max(gateways.values(), default=0),
        sync_cycles=steps * step_sync,
        traffic={**links, **gateways},
    )


def _ipu(collective: Collective, ipus: Sequence[int], position: int) -> int:
    if not 0 <= position < len(ipus):
        bound = f"its program runs on {len(ipus)} (0 to {len(ipus) - 1})"
        raise ValueError(f"{collective.kind} '{collective.name}' names device {position}, but {bound}")
    return ipus[position]
