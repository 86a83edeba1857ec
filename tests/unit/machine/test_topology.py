"""Where IPUs are, and how far from each other."""

import dataclasses

import pytest

from tilestep.machine import MachineSpec, load_machine
from tilestep.machine.fields import Topology
from tilestep.machine.topology import climb, hops, is_torus, machine_of, rack_of, side_of

POD16 = load_machine("bow-pod16")
POD256 = load_machine("bow-pod256")


def small(*, num_ipus: int, ipus_per_rack: int, topology: Topology = "ladder") -> MachineSpec:
    machine = load_machine("bow-2000", num_ipus=num_ipus)
    link = dataclasses.replace(machine.link, ipus_per_rack=ipus_per_rack, topology=topology)
    return dataclasses.replace(machine, link=link)


def shortest(machine: MachineSpec, a: int, b: int) -> int:
    """Hops by a search over every link, one by one: rungs, sides, and gateways between the same positions of racks."""
    per_rack = machine.link.ipus_per_rack

    def linked(x: int, y: int) -> bool:
        if rack_of(machine, x) == rack_of(machine, y):
            closed = is_torus(machine, rack_of(machine, x)) and abs(x - y) == per_rack - 2
            return abs(x - y) == 2 or x // 2 == y // 2 or closed
        return x % per_rack == y % per_rack

    reached, distance = {a}, 0
    while b not in reached:
        reached |= {y for y in range(machine.num_ipus) if any(linked(x, y) for x in reached)}
        distance += 1
    return distance


def test_machines_and_racks_hold_consecutive_ipus() -> None:
    assert [machine_of(POD16, ipu) for ipu in range(16)] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert [rack_of(POD256, ipu) for ipu in (0, 63, 64, 127, 255)] == [0, 0, 1, 1, 3]
    assert [machine_of(load_machine("c600", num_ipus=3), ipu) for ipu in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(("a", "b", "expected"), [(0, 64, 1), (0, 67, 3), (5, 69, 1), (0, 255, 3), (191, 0, 3), (0, 97, 18)])
def test_another_rack_is_one_gateway_away_and_the_way_within_a_rack(a: int, b: int, expected: int) -> None:
    assert hops(POD256, a, b) == expected


@pytest.mark.parametrize(
    "machine",
    [
        POD16,
        small(num_ipus=24, ipus_per_rack=8),
        small(num_ipus=10, ipus_per_rack=8),
        small(num_ipus=24, ipus_per_rack=12, topology="torus"),
        small(num_ipus=22, ipus_per_rack=12, topology="torus"),
        small(num_ipus=8, ipus_per_rack=4, topology="torus"),
    ],
    ids=["16", "24/8", "10/8", "24/12 torus", "22/12 torus", "8/4 torus"],
)
def test_no_way_is_shorter(machine: MachineSpec) -> None:
    for a in range(machine.num_ipus):
        for b in range(machine.num_ipus):
            assert hops(machine, a, b) == shortest(machine, a, b), (a, b)


def test_the_sides_of_a_rack_of_64_are_closed_and_those_of_less_are_not() -> None:
    full = load_machine("bow-pod64")
    assert is_torus(full, 0)
    assert (hops(full, 0, 62), hops(full, 0, 32), hops(full, 0, 34)) == (1, 16, 15)
    part = load_machine("bow-pod64", num_ipus=62)
    assert not is_torus(part, 0)
    assert hops(part, 0, 60) == 30
    assert [is_torus(load_machine("bow-2000", num_ipus=96), rack) for rack in (0, 1)] == [True, False]


def test_two_ways_of_equal_length_are_both_upwards() -> None:
    ring = small(num_ipus=8, ipus_per_rack=8, topology="torus")
    assert [climb(ring, 0, 0, rung) for rung in range(4)] == [0, 1, 2, -1]
    assert [climb(ring, 0, 3, rung) for rung in range(4)] == [1, 2, -1, 0]


def test_sides_of_a_ladder_alternate_from_the_first_ipu_of_each_rack() -> None:
    cards = load_machine("c600", num_ipus=12)
    fives = dataclasses.replace(cards, link=dataclasses.replace(cards.link, ipus_per_rack=5))
    assert [side_of(fives, ipu) for ipu in (0, 1, 4, 5, 6, 9)] == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("ipu", [-1, 4])
def test_an_ipu_that_is_not_there_is_refused(ipu: int) -> None:
    machine = load_machine("bow-2000")
    for ask in (
        lambda: machine_of(machine, ipu),
        lambda: rack_of(machine, ipu),
        lambda: hops(machine, 0, ipu),
        lambda: hops(machine, ipu, 0),
    ):
        with pytest.raises(ValueError, match=rf"IPU {ipu} is not in bow-2000, which has 4 \(0 to 3\)"):
            ask()
