"""What streams over the host link, and what stays: donation is residency."""

import pytest

from tests.unit.sim.toy import DISPATCH, LATENCY, LOADED, Host, program, superstep
from tilestep.plan import HostCall

# step(state, batch) -> state', loss: state is donated
STEP = program(superstep(50, 20, 10), name="step", takes=(200, 30), gives=(200, 4), donates={0: 0})


def test_the_first_call_brings_state_and_batch_and_leaves_the_state(host: Host) -> None:
    host.run(STEP, host.put(200), host.put(30))
    start = DISPATCH + LOADED
    arrived = start + 230 + LATENCY
    assert host.events() == [
        (0, "load", DISPATCH, start),
        (0, "stream-in", start, arrived),
        (0, "compute", arrived, arrived + 50),
        (0, "exchange", arrived + 50, arrived + 70),
        (0, "sync", arrived + 70, arrived + 80),
        (0, "stream-out", arrived + 80, arrived + 80 + 4 + LATENCY),  # the loss
    ]
    assert host.system.end_cycle == arrived + 89
    assert host.system.host_cycle == DISPATCH  # dispatch does not wait


def test_later_calls_bring_the_batch_only(host: Host) -> None:
    state, _ = host.run(STEP, host.put(200), host.put(30))
    first = host.system.end_cycle
    host.run(STEP, state, host.put(30))
    assert host.kinds()[6:] == ["stream-in", "compute", "exchange", "sync", "stream-out"]
    assert host.system.end_cycle == first + 30 + LATENCY + 80 + 4 + LATENCY


def test_what_is_not_donated_streams_at_every_call(host: Host) -> None:
    evaluate = program(superstep(50), takes=(200,), gives=(4,))
    value = host.put(200)
    for _ in range(3):
        host.run(evaluate, value)
    assert host.kinds().count("stream-in") == 3
    assert host.kinds().count("load") == 1


def test_a_result_goes_back_and_comes_again(host: Host) -> None:
    step = program(superstep(50), takes=(200,), gives=(200,))
    [value] = host.run(step, host.put(200))
    end = host.system.end_cycle
    host.run(step, value)
    assert host.system.end_cycle == end + 2 * (200 + LATENCY) + 50


def test_reading_a_state_downloads_it_once_and_leaves_it_there(host: Host) -> None:
    state, _ = host.run(STEP, host.put(200), host.put(30))
    end = host.system.end_cycle
    host.system.read(state)
    assert host.system.host_cycle == end + 200 + LATENCY
    assert host.events()[-1] == (0, "read", end, end + 200 + LATENCY)
    host.system.read(state)
    assert host.system.host_cycle == end + 200 + LATENCY
    before = len(host.events())
    host.run(STEP, state, host.put(30))
    later = host.events()[before:]
    assert [kind for _, kind, _, _ in later] == ["stream-in", "compute", "exchange", "sync", "stream-out"]
    assert later[0][3] - later[0][2] == 30 + LATENCY  # the batch alone


def test_a_state_that_was_read_can_be_used_after_its_donation(host: Host) -> None:
    state, _ = host.run(STEP, host.put(200), host.put(30))
    host.system.read(state)
    host.run(STEP, state, host.put(30))
    before = len(host.events())
    host.run(STEP, state, host.put(30))  # from the host's copy
    start, end = host.events()[before][2:]
    assert end - start == 230 + LATENCY


def test_a_state_that_was_not_read_is_gone_after_its_donation(host: Host) -> None:
    state, _ = host.run(STEP, host.put(200), host.put(30))
    host.run(STEP, state, host.put(30))
    events = host.events()
    with pytest.raises(ValueError, match=f"program 'step': value {state} was donated and the host has no copy of it"):
        host.run(STEP, state, host.put(30))
    with pytest.raises(ValueError, match=f"value {state} was donated"):
        host.system.read(state)
    assert host.events() == events  # refused calls change nothing


def test_the_host_s_own_array_survives_its_donation(host: Host) -> None:
    state, batch = host.put(200), host.put(30)
    host.run(STEP, state, batch)
    host.run(STEP, state, batch)
    host.system.read(state)


@pytest.mark.parametrize("donates", [{0: 0}, {2: 2}, {0: 0, 2: 2}, {0: 2, 2: 0}, {0: 0, 1: 1, 2: 2}, {0: 1, 1: 0}])
def test_donation_works_interleaved_and_reordered(host: Host, donates: dict[int, int]) -> None:
    step = program(superstep(1), takes=(100, 100, 100), gives=(100, 100, 100), donates=donates)
    arguments = [host.put(100) for _ in range(3)]
    results = host.run(step, *arguments)
    again = [results[donates[index]] if index in donates else value for index, value in enumerate(arguments)]
    before = len(host.events())
    host.run(step, *again)
    streamed = sum(end - start - LATENCY for _, kind, start, end in host.events()[before:] if kind == "stream-in")
    returned = sum(end - start - LATENCY for _, kind, start, end in host.events()[before:] if kind == "stream-out")
    assert (streamed, returned) == (100 * (3 - len(donates)), 100 * (3 - len(donates)))


def test_donation_across_functions_moves_the_value_by_way_of_the_host(host: Host) -> None:
    f = program(superstep(1), name="f", takes=(100,), gives=(100,), donates={0: 0})
    g = program(superstep(1), name="g", takes=(100,), gives=(100,), donates={0: 0})
    [y] = host.run(f, host.put(100))
    end = host.system.end_cycle
    [z] = host.run(g, y)
    assert host.events()[3:] == [
        (0, "save", end, end + 105),
        (0, "load", end + 105, end + 105 + LOADED),
        (0, "stream-in", end + 105 + LOADED, end + 105 + LOADED + 105),
        (0, "compute", end + 210 + LOADED, end + 211 + LOADED),
    ]
    host.run(g, z)
    assert host.kinds()[7:] == ["compute"]  # resident in g


def test_a_value_that_was_read_needs_no_saving(host: Host) -> None:
    f = program(superstep(1), name="f", takes=(100,), gives=(100,), donates={0: 0})
    g = program(superstep(1), name="g", takes=(100,), gives=(100,), donates={0: 0})
    [y] = host.run(f, host.put(100))
    host.system.read(y)
    host.run(g, y)
    assert host.kinds()[4:] == ["load", "stream-in", "compute"]


def test_switching_programs_and_back_evicts_what_was_resident(host: Host) -> None:
    f = program(superstep(1), name="f", takes=(100,), gives=(100,), donates={0: 0})
    other = program(superstep(1), name="other", takes=(8,), gives=(8,))
    [state] = host.run(f, host.put(100))
    host.run(other, host.put(8))
    before = len(host.events())
    host.run(f, state)
    assert host.kinds()[before:] == ["save", "load", "stream-in", "compute"]


def test_alternating_programs_load_each_time(host: Host) -> None:
    f, g = program(superstep(1), name="f"), program(superstep(1), name="g")
    for _ in range(3):
        host.run(f)
        host.run(g)
    assert host.kinds().count("load") == 6


def test_a_resident_value_is_there_for_an_argument_that_is_not_donated(host: Host) -> None:
    step = program(superstep(1), takes=(100, 100), gives=(100,), donates={0: 0})
    [state] = host.run(step, host.put(100), host.put(100))
    before = len(host.events())
    host.run(step, host.put(100), state)  # the state as second argument; the first streams in
    start, end = host.events()[before][2:]
    assert end - start == 100 + LATENCY


def test_arguments_on_the_host_are_not_streamed_as_a_whole(host: Host) -> None:
    offload = program(superstep(1), takes=(1000, 8), gives=(1000, 4), donates={0: 0}, host_arguments=(0,), host_results=(0,))
    kept, _ = host.run(offload, host.put(1000, on_host=True), host.put(8))
    before = len(host.events())
    host.run(offload, kept, host.put(8))
    assert [(kind, end - start) for _, kind, start, end in host.events()[before:]] == [
        ("stream-in", 8 + LATENCY),
        ("compute", 1),
        ("stream-out", 4 + LATENCY),
    ]


def test_results_for_the_host_s_memory_are_there_when_their_program_has_written_them(host: Host) -> None:
    write = HostCall(name="write", scope="", bytes_to_host=100, bytes_from_host=0, in_memory=True)
    [result] = host.run(program(superstep(1), write, takes=(), gives=(100,), host_results=(0,)))
    end = host.system.end_cycle
    assert host.events()[-1][1:] == ("host-call", end - 105, end)
    host.system.read(result)
    assert host.system.host_cycle == end


def test_copying_a_value_that_the_host_has_takes_no_time() -> None:
    host = Host(2)
    [result] = host.run(program(superstep(1), gives=(8,)))
    end = host.system.end_cycle
    moved = host.copy(result, ipu=1)
    assert host.system.host_cycle == DISPATCH
    host.run(program(superstep(1), name="g", takes=(8,)), moved, ipu=1)
    load = next(event for event in host.events() if event[0] == 1)
    assert load == (1, "load", 2 * DISPATCH, DISPATCH + LOADED + 40)  # beside IPU 0, whose code goes over the link first
    stream = next(event for event in host.events() if event[:2] == (1, "stream-in"))
    assert stream[2] == max(end, load[3])  # not before the value is there


def test_copying_a_value_out_of_sram_downloads_it_while_the_host_goes_on() -> None:
    host = Host(2)
    state, _ = host.run(STEP, host.put(200), host.put(30))
    end = host.system.end_cycle
    moved = host.copy(state, ipu=1)
    assert host.events()[-1] == (0, "read", end, end + 205)
    assert host.system.host_cycle == DISPATCH
    host.system.wait(moved)
    assert host.system.host_cycle == end + 205
    again = len(host.events())
    host.copy(state, on_host=True)
    assert len(host.events()) == again  # the host has it now
