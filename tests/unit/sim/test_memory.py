"""Streaming memory: what lies in pinned_host stays in the IPU-Machine, at 4 bytes a cycle, and only the host goes over the host link."""

from dataclasses import replace

import pytest

from tests.unit.sim.toy import DISPATCH, LATENCY, LOAD, LOADED, MACHINE, Host, program, superstep
from tilestep.machine import MachineSpec
from tilestep.plan.steps import HostCall
from tilestep.profiling.measure import profile_between


def with_memory(num_ipus: int = 1, *, size_bytes: int = 10_000) -> MachineSpec:
    host = replace(
        MACHINE.host, streaming_memory_bytes=size_bytes, streaming_memory_bytes_per_second=4e6, remote_buffer_bytes_per_second=4e6
    )
    return replace(MACHINE, num_ipus=num_ipus, host=host)


OFFLOADED = program(superstep(50), name="step", takes=(1000, 8), gives=(1000, 4), donates={0: 0}, host_arguments=(0,), host_results=(0,))


def test_an_array_put_there_goes_over_the_host_link_without_the_ipu() -> None:
    host = Host(on=with_memory())
    value = host.put(1000, on_host=True)
    host.system.wait(value)
    assert host.system.host_cycle == 1000 + LATENCY
    assert host.events() == []


def test_an_array_put_into_the_host_s_own_memory_is_there_at_once(host: Host) -> None:
    host.system.wait(host.put(1000, on_host=True))
    assert host.system.host_cycle == 0


def test_a_program_waits_for_what_is_not_there_yet() -> None:
    host = Host(on=with_memory())
    host.run(OFFLOADED, host.put(1000, on_host=True), host.put(8))
    loaded = 1000 + LOADED - LOAD  # the code goes over the link behind the array
    assert host.events()[:2] == [(0, "load", DISPATCH, loaded), (0, "stream-in", loaded, loaded + 8 + LATENCY)]
    late = Host(on=with_memory())
    kept = late.put(5000, on_host=True)
    late.run(OFFLOADED, kept, late.put(8))
    assert late.events()[1][2] == max(5000 + LATENCY, late.events()[0][3])
    held = Host(on=with_memory())
    held.run(program(superstep(1), name="step", takes=(1000,), host_arguments=(0,)), held.put(5000, on_host=True))
    assert held.events()[-1][2] >= 5000 + LATENCY


def test_what_is_donated_there_never_moves() -> None:
    host = Host(on=with_memory())
    state = host.put(1000, on_host=True)
    for _ in range(3):
        state, _ = host.run(OFFLOADED, state, host.put(8))
    later = host.events()[-3:]
    assert [(kind, end - start) for _, kind, start, end in later] == [
        ("stream-in", 8 + LATENCY),
        ("compute", 50),
        ("stream-out", 4 + LATENCY),
    ]


def test_a_new_result_is_written_there_by_its_program_and_the_others_go_to_the_host() -> None:
    host = Host(on=with_memory())
    write = HostCall(name="write", scope="", bytes_to_host=4000, bytes_from_host=0, in_memory=True)
    [kept, _] = host.run(program(superstep(50), write, gives=(4000, 30), host_results=(0,)))
    (_, called, *call), (_, sent, start, end) = host.events()[-2:]
    assert (called, call[1] - call[0]) == ("host-call", 1000 + LATENCY)  # 4,000 bytes at 4 a cycle
    assert (sent, end - start) == ("stream-out", 30 + LATENCY)  # 30 at 1 a cycle
    host.system.wait(kept)
    assert host.system.host_cycle == end


def test_the_host_reads_what_lies_there_over_its_link_once() -> None:
    host = Host(on=with_memory())
    [kept] = host.run(program(superstep(50), gives=(400,), host_results=(0,)))
    end = host.system.end_cycle
    events = host.events()
    host.system.read(kept)
    assert host.system.host_cycle == end + 400 + LATENCY
    host.system.read(kept)
    assert host.system.host_cycle == end + 400 + LATENCY
    assert host.events() == events  # no IPU took part
    profile = profile_between(host.system, host.start, host.system.mark())
    assert profile.programs[0].host_bytes_read == 400


def test_a_copy_to_the_chip_goes_by_way_of_the_host() -> None:
    host = Host(2, on=with_memory(2))
    [kept] = host.run(program(superstep(50), gives=(400,), host_results=(0,)))
    end = host.system.end_cycle
    moved = host.copy(kept, ipu=1)
    host.system.wait(moved)
    assert host.system.host_cycle == end + 400 + LATENCY
    there = host.copy(moved, ipu=1, on_host=True)
    host.system.wait(there)
    assert host.system.host_cycle == end + 2 * (400 + LATENCY)


def test_what_a_run_took_over_there_cannot_be_used_again() -> None:
    host = Host(on=with_memory())
    make = program(superstep(50), name="make", gives=(1000,), host_results=(0,))
    [state] = host.run(make)
    host.run(OFFLOADED, state, host.put(8))
    with pytest.raises(ValueError, match=f"value {state} was donated"):
        host.system.read(state)
    with pytest.raises(ValueError, match=f"value {state} was donated"):
        host.run(OFFLOADED, state, host.put(8))


def test_what_a_run_of_the_same_launch_took_over_there_cannot_be_read() -> None:
    host = Host(on=with_memory())
    [first] = host.run(program(superstep(50), name="make", gives=(1000,), host_results=(0,)), group=("g", 1))
    second, _ = host.run(OFFLOADED, first, host.put(8), group=("g", 1))
    with pytest.raises(ValueError, match=f"value {first} was donated"):
        host.system.read(first)
    host.system.read(second)
    assert host.system.host_cycle == host.system.end_cycle


def test_slices_of_what_lies_there_do_not_use_the_host_link() -> None:
    fetch = HostCall(name="slice", scope="", bytes_to_host=0, bytes_from_host=4000, in_memory=True)
    ask = HostCall(name="callback", scope="", bytes_to_host=0, bytes_from_host=1000)

    def ends(first: HostCall, second: HostCall) -> list[int]:
        host = Host(2, on=with_memory(2))
        programs = [program(superstep(1), call, name=f"p{index}") for index, call in enumerate((first, second))]
        for _ in range(2):
            for ipu, called in enumerate(programs):
                host.run(called, ipu=ipu)
        return [end - start for _, kind, start, end in host.events() if kind == "host-call"][2:]

    assert ends(fetch, ask) == [1000 + LATENCY] * 2
    assert max(ends(ask, ask)) > 1000 + LATENCY
    assert max(ends(fetch, fetch)) > 1000 + LATENCY


def test_more_than_a_machine_has_is_a_finding() -> None:
    host = Host(2, on=with_memory(2, size_bytes=1999))
    both = replace(OFFLOADED, num_ipus=2)
    host.run_on((0, 1), both, [[host.put(1000, ipu=ipu, on_host=True), host.put(8, ipu=ipu)] for ipu in (0, 1)])
    profile = profile_between(host.system, host.start, host.system.mark())
    assert profile.programs[0].streaming_memory_bytes == 2000
    said = "step does not fit into streaming memory: its values in pinned_host are 1.95 KiB for the IPUs of one IPU-Machine"
    assert said in " ".join(profile.summary().split())
    enough = Host(2, on=with_memory(2, size_bytes=2000))
    enough.run_on((0, 1), both, [[enough.put(1000, ipu=ipu, on_host=True), enough.put(8, ipu=ipu)] for ipu in (0, 1)])
    assert "streaming memory" not in profile_between(enough.system, enough.start, enough.system.mark()).summary()
