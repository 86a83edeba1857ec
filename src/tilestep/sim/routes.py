"""Routes of messages over IPU-Links within a rack, and the bytes of several messages on each link. Pure.

The rack is the ladder or torus of `machine.topology`: a message first crosses its rung, then runs along one side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import climb, machine_of, rack_of, rack_of_way, side_of


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
