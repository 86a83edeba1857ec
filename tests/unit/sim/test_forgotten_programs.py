"""Programs that nothing dispatches any more are forgotten, as soon as nobody can ask for them."""

import gc
import random
import tracemalloc

import pytest

from tests.unit.sim.toy import Host, program, superstep
from tilestep.sim import System
from tilestep.sim.calls import Dispatch

STATE = 60


@pytest.fixture(autouse=True)
def played_again() -> None:
    """Nothing: the folder's own fixture keeps all calls, and so all programs."""


def drop(host: Host, *names: str) -> None:
    """Says that the programs with these names are gone, or the group."""
    keys = {key: known.name for key, known in host.system.programs.items()}
    host.system.forget_programs([key for key, name in keys.items() if name in names])


def names(host: Host) -> list[str]:
    return [known.name for known in host.system.programs.values()]


def programs_in_turn(host: Host, count: int, *, forgets: bool) -> None:
    """Each program runs once, and is then gone."""
    for key in range(count):
        called = program(superstep(7), takes=(8,), gives=(8,))
        taken, made = 2 * key, 2 * key + 1
        host.system.put(taken, ipu=0, size_bytes=8, on_host=False)
        host.system.dispatch(called, Dispatch(key=key + 1, ipus=(0,), arguments=[[taken]], results=[[made]], counts=()))
        host.system.read(made)
        host.system.forget(taken)
        host.system.forget(made)
        if forgets:
            host.system.forget_programs([key + 1])


def test_what_a_system_keeps_does_not_grow_with_the_programs_that_are_gone() -> None:
    host = Host(record=False)
    programs_in_turn(host, 256, forgets=True)  # so often a channel's spans that have passed are removed
    assert len(host.system.programs) == 1  # which is loaded

    def kept() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        programs_in_turn(host, 256, forgets=True)
        before = kept()
        programs_in_turn(host, 256, forgets=True)
        assert kept() - before < 256 * 8  # not even a pointer for each
    finally:
        tracemalloc.stop()
    assert len(host.system.snapshot().ledgers) == 1


@pytest.mark.parametrize("record", [True, False])
def test_programs_that_are_gone_change_no_time(record: bool) -> None:
    without, with_all = Host(record=record), Host(record=record)
    programs_in_turn(without, 20, forgets=True)
    programs_in_turn(with_all, 20, forgets=False)
    assert without.system.end_cycle == with_all.system.end_cycle
    assert without.system.trace == with_all.system.trace


@pytest.mark.parametrize("seed", range(5))
def test_a_value_outlives_its_program(seed: int) -> None:
    """The host reads it, or another program takes it, at the cycle at which it would if its program were there, in a replay too."""

    def run(*, forgets: bool) -> tuple[System, int, int]:
        choose = random.Random(seed)
        host = Host(record=False)
        make = program(superstep(5), name="make", takes=(STATE,), gives=(STATE,), donates={0: 0})
        first = host.put(STATE)
        [state] = host.run(make, first)  # in SRAM alone
        if choose.random() < 0.5:
            host.run(program(superstep(3), name="take", takes=(STATE,), gives=()), state)
        host.run(program(superstep(3), name="other"))
        if forgets:
            drop(host, "make", "take", "other")
            assert "make" in names(host)
        snapshot, programs = host.system.snapshot(), dict(host.system.programs)
        again = System.restored(snapshot, host.system.machine, programs)
        for system in (host.system, again):
            system.read(state)
        assert again.end_cycle == host.system.end_cycle
        host.system.forget(first)
        host.system.forget(state)
        host.run(program(superstep(1), name="last"))
        if forgets:
            drop(host)
            assert names(host) == ["last"]
        return host.system, host.system.host_cycle, host.system.end_cycle

    assert run(forgets=True)[1:] == run(forgets=False)[1:]


def test_all_stay_while_events_or_calls_are_kept(host: Host) -> None:
    for name in ("f", "g"):
        host.run(program(superstep(1), name=name))
    drop(host, "f", "g")
    assert names(host) == ["f", "g"]
    host.system.record = False
    drop(host)
    assert names(host) == ["f", "g"]  # whose events are still there
    host.system.clear_trace()
    host.system.keep_calls(True)
    drop(host)
    assert names(host) == ["f", "g"]
    host.system.keep_calls(False)
    drop(host)
    assert names(host) == ["g"]  # which is loaded


def test_an_event_has_the_name_of_a_program_that_ran_before_events_were_kept() -> None:
    host = Host(record=False)
    [state] = host.run(program(superstep(5), name="make", takes=(STATE,), gives=(STATE,), donates={0: 0}), host.put(STATE))
    host.system.record = True
    host.system.read(state)
    assert [(event.kind, event.program) for event in host.system.trace.events] == [("read", "make")]


def test_a_group_keeps_its_members_until_nothing_enters_it_any_more() -> None:
    """If it is entered again, it has to load the code of all of them, whatever became of the programs."""
    host = Host(record=False)
    host.run(program(superstep(1), name="f"), group=("two", 1))
    host.run(program(superstep(1), name="g"), group=("two", 1))
    host.run(program(superstep(1), name="other"))
    drop(host, "f", "g")
    assert names(host) == ["f", "g", "other"]
    assert [state.name for state in host.system.snapshot().groups] == ["two"]
    host.system.forget_programs(["two"])
    assert names(host) == ["other"]
    assert not host.system.snapshot().groups


def test_a_group_that_is_loaded_stays_until_another_program_is() -> None:
    host = Host(record=False)
    host.run(program(superstep(1), name="f"), group=("loop", 1))
    drop(host, "f")
    host.system.forget_programs(["loop"])
    assert [(state.name, state.members) for state in host.system.snapshot().groups] == [("loop", ((1, "f"),))]
    host.run(program(superstep(1), name="other"))
    drop(host)
    assert names(host) == ["other"]
    assert not host.system.snapshot().groups


def test_a_program_stays_that_took_what_a_group_has_left_in_the_tiles() -> None:
    """The host may have forgotten that value long ago, but the group's state names who took it."""
    host = Host(record=False)
    state = program(superstep(1), name="state", takes=(STATE,), gives=(STATE,), donates={0: 0}, resident_bytes=1)
    [left] = host.run(state, host.put(STATE), group=("two", 1))
    host.run(program(superstep(1), name="g"), group=("two", 1))
    host.system.read(left)
    host.run(program(superstep(1), name="other", takes=(STATE,)), left)
    host.system.forget(left)
    host.run(program(superstep(1), name="last"))
    drop(host, "state", "g", "other")
    snapshot = host.system.snapshot()
    assert [len(group.stays) for group in snapshot.groups] == [1]
    again = System.restored(snapshot, host.system.machine, host.system.programs)
    assert again.snapshot().groups == snapshot.groups
