"""Collectives over a toy ladder: a link takes 10 bytes per cycle, a gateway 2, a hop of sync 1 cycle, a sync of tiles 10."""

import dataclasses

import pytest

from tests.unit.sim.toy import collective, machine
from tilestep.machine.fields import Topology
from tilestep.machine.spec import LinkSpec
from tilestep.machine.topology import hops
from tilestep.plan.steps import Collective, CollectiveKind
from tilestep.sim.channel import gateway_of, link_of
from tilestep.sim.cycles.collective import CollectiveCost, Link, collective_cost, links_between, loads_of, ring_order


def cost(what: Collective, num_ipus: int) -> CollectiveCost:
    return collective_cost(machine(num_ipus), what, tuple(range(num_ipus)))


def times(what: Collective, num_ipus: int) -> tuple[int, int]:
    """Cycles of (exchange, sync)."""
    found = cost(what, num_ipus)
    return found.exchange_cycles, found.sync_cycles


@pytest.mark.parametrize(
    ("kind", "num_ipus", "cycles"),
    [
        ("all-reduce", 2, (100, 24)),  # 2 * 1/2 * 1000 bytes / 10 = 100; 2 steps of 10 + 2 * 1 hop there and back
        ("all-reduce", 4, (150, 84)),  # on a ring: 2 * 3/4 * 1000 = 1500 bytes on each of four links; 6 steps of 10 + 2 * 2 hops
        ("all-gather", 4, (75, 42)),  # half of an all-reduce
        ("reduce-scatter", 4, (75, 42)),
        ("collective-broadcast", 4, (100, 42)),  # all bytes are passed on
        # 250 bytes from each to each. Up the left side go 0->2 and 1->2 (which crosses to the left first): 500 bytes / 10.
        ("all-to-all", 4, (50, 42)),
    ],
)
def test_each_kind_by_hand(kind: CollectiveKind, num_ipus: int, cycles: tuple[int, int]) -> None:
    assert times(collective(kind, 1000), num_ipus) == cycles


def test_groups_run_at_the_same_time() -> None:
    pairs = collective("all-reduce", 1000, groups=((0, 1), (2, 3)))
    assert times(pairs, 4) == times(collective("all-reduce", 1000), 2)


def test_groups_that_cross_share_links() -> None:
    # rings {0, 4}, {2, 6} both climb the left side: of 8 IPUs in one rack the link 2->4 carries both.
    rack = dataclasses.replace(machine(8), link=dataclasses.replace(machine(8).link, ipus_per_rack=8))
    apart = collective_cost(rack, collective("all-gather", 1000, groups=((0, 2), (4, 6))), tuple(range(8)))
    crossing = collective_cost(rack, collective("all-gather", 1000, groups=((0, 4), (2, 6))), tuple(range(8)))
    assert (apart.exchange_cycles, crossing.exchange_cycles) == (50, 100)


def test_permute_sends_each_pair_once() -> None:
    shift = Collective(name="p", scope="", kind="collective-permute", size_bytes=1000, groups=(), pairs=((0, 1), (1, 0), (2, 2)))
    assert times(shift, 4) == (100, 12)


def test_permute_to_oneself_costs_nothing() -> None:
    still = Collective(name="p", scope="", kind="collective-permute", size_bytes=1000, groups=(), pairs=((0, 0), (1, 1)))
    assert times(still, 2) == (0, 0)


def test_a_group_of_one_costs_nothing() -> None:
    assert times(collective("all-reduce", 1000, groups=((0,), (1,))), 2) == (0, 0)


def test_across_racks_the_gateways_of_a_rack_share_the_bytes() -> None:
    # 8 IPUs, 2 racks of 4, each of 2 machines. In a rack 2 * 3/4 * 1000 / 10 = 150. Between racks 2 * 1/2 * 1000 bytes
    # over 2 gateways: 500 / 2 = 250. 6 + 2 steps, each a sync of 10 and there and back over 3 hops (a gateway and two links).
    assert times(collective("all-reduce", 1000), 8) == (150 + 250, 8 * (10 + 6))
    traffic = cost(collective("all-reduce", 1000), 8).traffic
    assert {index: traffic[gateway_of(index)] for index in range(4)} == dict.fromkeys(range(4), 250)


def test_permute_across_racks_goes_through_the_sender_s_gateway() -> None:
    pair = Collective(name="p", scope="", kind="collective-permute", size_bytes=1000, groups=(), pairs=((0, 4),))
    found = cost(pair, 8)
    assert found.traffic == {gateway_of(0): 500}
    assert found.exchange_cycles == 500


def test_every_link_of_a_ring_is_busy_for_its_bytes() -> None:
    # 0 -> 2 -> 3 -> 1 -> 0, 1500 bytes each
    around = [(0, 2), (2, 3), (3, 1), (1, 0)]
    assert cost(collective("all-reduce", 1000), 4).traffic == {link_of(*ends): 150 for ends in around}


def test_messages_that_share_a_link_add_up_on_it() -> None:
    # 0 -> 2 and 1 -> 2, which crosses to the left side first: link 0 -> 2 carries both
    pairs = Collective(name="p", scope="", kind="collective-permute", size_bytes=1000, groups=(), pairs=((0, 2), (1, 2)))
    assert cost(pairs, 4).traffic == {link_of(0, 2): 200, link_of(1, 0): 100}
    assert cost(pairs, 4).exchange_cycles == 200


def test_a_ring_along_one_side_of_a_full_torus_needs_no_way_back() -> None:
    one_side = collective("all-gather", 1000, groups=((0, 2, 4, 6),))
    ladder = dataclasses.replace(machine(8).link, ipus_per_rack=8)
    torus = dataclasses.replace(ladder, topology="torus")

    def on(link: LinkSpec) -> CollectiveCost:
        return collective_cost(dataclasses.replace(machine(8), link=link), one_side, tuple(range(8)))

    assert set(on(torus).traffic) == {link_of(0, 2), link_of(2, 4), link_of(4, 6), link_of(6, 0)}
    assert set(on(ladder).traffic) == {link_of(a, b) for a, b in ((0, 2), (2, 4), (4, 6), (6, 4), (4, 2), (2, 0))}
    assert on(torus).exchange_cycles == on(ladder).exchange_cycles == 75
    assert (on(torus).sync_cycles, on(ladder).sync_cycles) == (3 * (10 + 2 * 2), 3 * (10 + 2 * 3))  # to the farthest: 2 hops, 3 hops


def test_a_device_that_the_program_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"all-reduce 'all-reduce' names device 2, but its program runs on 2 \(0 to 1\)"):
        cost(collective("all-reduce", 8, groups=((0, 2),)), 2)


@pytest.mark.parametrize("topology", ["ladder", "torus"])
def test_routes_are_as_long_as_the_topology_says(topology: Topology) -> None:
    rack = dataclasses.replace(machine(16), link=dataclasses.replace(machine(16).link, ipus_per_rack=16, topology=topology))
    for a in range(16):
        for b in range(16):
            route = links_between(rack, a, b)
            assert len(route) == hops(rack, a, b)
            assert [a, *(link.target for link in route)] == [*(link.source for link in route), b]


def test_a_message_to_a_rack_that_is_not_full_goes_to_its_place_first() -> None:
    found = loads_of(machine(6), [(3, 4, 1)])  # racks of 4: IPUs 4 and 5 are all there is of the second
    assert set(found.links) == {Link(3, 2), Link(2, 0)}
    assert found.gateways == {0: 1}


def test_a_ring_goes_up_one_side_and_down_the_other() -> None:
    assert ring_order(machine(4), (0, 1, 2, 3)) == (0, 2, 3, 1)


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter", "collective-broadcast", "all-to-all"])
def test_more_bytes_never_take_less_time(kind: str) -> None:
    times = [cost(collective(kind, size), 8).exchange_cycles for size in range(0, 4000, 37)]  # type: ignore[arg-type]  # all are kinds
    assert times == sorted(times)
    assert times[-1] > times[0]
