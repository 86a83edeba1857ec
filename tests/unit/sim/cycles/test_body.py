"""The cost of a tree of supersteps."""

from dataclasses import replace

import pytest

from tests.unit.sim.toy import collective, machine, program, superstep
from tilestep.plan.steps import Branch, Counts, HostCall, Loop, Node, Series
from tilestep.sim.channel import gateway_of, link_of
from tilestep.sim.cycles.body import BodyCost, BodyCycles, CallCycles, body_cost


def cost(*nodes: Node, num_ipus: int = 1) -> BodyCost:
    return body_cost(program(*nodes, num_ipus=num_ipus), machine(num_ipus), tuple(range(num_ipus)))


def loop(*nodes: Node, trips: int | None = None, site: int | None = None) -> Loop:
    return Loop(name="while", scope="", body=Series(nodes=nodes), trips=trips, site=site)


def branch(*arms: Node, site: int | None = None) -> Branch:
    return Branch(name="cond", scope="", arms=tuple(Series(nodes=(arm,)) for arm in arms), site=site)


NOTHING = Counts()
CYCLES: dict[str, tuple[tuple[Node, ...], dict[tuple[int, int], int], BodyCycles]] = {
    "kinds of supersteps are added": ((superstep(1, 2, 3), superstep(10, 20, 30)), {}, BodyCycles(compute=11, exchange=22, sync=33)),
    "static loops multiply": ((loop(superstep(1), loop(superstep(5), trips=4), trips=3),), {}, BodyCycles(compute=3 * (1 + 4 * 5))),
    "a loop of no trips costs nothing": ((loop(superstep(1), trips=0),), {}, BodyCycles()),
    "a counted loop costs its count which nothing multiplies": (
        (loop(loop(superstep(5), site=0), superstep(1), trips=3),),
        {(0, 0): 7},
        BodyCycles(compute=7 * 5 + 3),
    ),
    "a static loop inside a counted one multiplies the count": (
        (loop(loop(superstep(5), trips=2), site=0),),
        {(0, 0): 7},
        BodyCycles(compute=7 * 2 * 5),
    ),
    "a counted branch costs each arm as often as it was taken": (
        (loop(branch(superstep(5), superstep(50), site=1), trips=10),),
        {(1, 0): 8, (1, 1): 2},
        BodyCycles(compute=8 * 5 + 2 * 50),
    ),
    "a branch that is not counted takes its dearest arm": (
        (loop(branch(superstep(5), superstep(30, 20), superstep(49)), trips=2),),
        {},
        BodyCycles(compute=60, exchange=40),
    ),
    "what is counted inside an arm counts whichever arm is dearest": (
        (branch(superstep(100), loop(superstep(7), site=3)),),
        {(3, 0): 2},
        BodyCycles(compute=100 + 14),
    ),
    "a loop neither static nor counted runs once": ((loop(superstep(9)),), {}, BodyCycles(compute=9)),
    "a branch without arms costs nothing": ((branch(),), {}, BodyCycles()),
}


@pytest.mark.parametrize(("nodes", "times", "wanted"), CYCLES.values(), ids=CYCLES)
def test_cycles_of_a_tree(nodes: tuple[Node, ...], times: dict[tuple[int, int], int], wanted: BodyCycles) -> None:
    assert cost(*nodes).cycles(Counts(times=times)) == wanted


@pytest.mark.parametrize(("to_host", "from_host", "cycles"), [(30, 8, 30 + 5 + 8 + 5), (30, 0, 30 + 5), (1, 1, 1 + 5 + 1 + 5), (0, 0, 5)])
def test_a_host_call_is_a_transfer_each_way_and_at_least_a_latency(to_host: int, from_host: int, cycles: int) -> None:
    assert cost(HostCall(name="call", scope="", bytes_to_host=to_host, bytes_from_host=from_host)).fixed.host_call == cycles


def test_ipus_of_one_machine_share_its_host_link_in_a_host_call() -> None:
    call = HostCall(name="callback", scope="", bytes_to_host=30, bytes_from_host=0)
    assert cost(call, num_ipus=4).fixed.host_call == 2 * 30 + 5  # two IPUs to a host link


def test_a_collective_is_link_time_and_sync() -> None:
    tree = cost(loop(collective("all-reduce", 1000), trips=3), num_ipus=2)
    assert tree.fixed == BodyCycles(collective=300, sync=72)
    assert tree.collective
    assert tree.traffic(NOTHING) == {link_of(0, 1): 300, link_of(1, 0): 300}


def test_gateways_are_busy_as_often_as_the_collective_runs() -> None:
    tree = cost(loop(collective("all-reduce", 1000), trips=2), loop(collective("all-reduce", 1000), site=0), num_ipus=8)
    traffic = tree.traffic(Counts(times={(0, 0): 3}))
    assert [traffic[gateway_of(index)] for index in range(4)] == [5 * 250] * 4


def test_host_calls_say_what_they_need_of_whom() -> None:
    callback = HostCall(name="callback", scope="", bytes_to_host=30, bytes_from_host=8)
    offload = HostCall(name="slice", scope="", bytes_to_host=0, bytes_from_host=40, in_memory=True)
    body = program(loop(callback, trips=2), loop(offload, site=0))
    with_memory = replace(machine(1), host=replace(machine(1).host, streaming_memory_bytes=1000, remote_buffer_bytes_per_second=4e6))
    found = body_cost(body, with_memory, (0,)).calls(Counts(times={(0, 0): 3}))
    assert found == CallCycles(waits=2 * 10 + 3 * 5, to_host=60, from_host=16, memory=3 * 10, accesses=2 * 2 + 3)
    without = body_cost(body, machine(1), (0,)).calls(Counts(times={(0, 0): 3}))
    assert without == CallCycles(
        waits=2 * 10 + 3 * 5, to_host=60, from_host=16 + 3 * 40, accesses=2 * 2 + 3
    )  # pinned_host is the host's memory


def test_streaming_memory_is_shared_by_the_ipus_of_a_machine() -> None:
    offload = HostCall(name="slice", scope="", bytes_to_host=0, bytes_from_host=40, in_memory=True)
    with_memory = replace(machine(2), host=replace(machine(2).host, streaming_memory_bytes=1000, remote_buffer_bytes_per_second=4e6))
    assert body_cost(program(offload, num_ipus=2), with_memory, (0, 1)).fixed.host_call == 5 + 2 * 10


@pytest.mark.parametrize(("times", "message"), [({}, "site 4, arm 0 has no count"), ({(4, 0): -1}, "site 4, arm 0 was counted -1 times")])
def test_a_missing_or_negative_count_is_refused(times: dict[tuple[int, int], int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cost(loop(superstep(1), site=4)).cycles(Counts(times=times))


def test_every_leaf_is_listed_with_how_often_it_runs() -> None:
    tree = cost(loop(superstep(1, name="inner"), trips=3), loop(superstep(1, name="counted"), site=2))
    assert [(use.leaf.name, use.times, use.site) for use in tree.uses] == [("inner", 3, None), ("counted", 1, (2, 0))]
