"""Equal work done many times at once is the same to the cycle as done one by one."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.sim.mixture import PATTERNS, rack
from tests.unit.sim.toy import DISPATCH, MACHINE, Host, collective, machine, program, superstep
from tilestep.hints import EffectiveBatch
from tilestep.machine.fields import SyncPattern
from tilestep.plan.steps import Collective, HostCall, Program
from tilestep.sim import Recurrence, System

TURNS = 30
BATCH = EffectiveBatch(loop="loop", microbatch=1, count=2, replicas=1, microbatches=2, samples=2)
GATHER = program(superstep(30), collective("all-gather", 900), takes=(40,), gives=(20,), num_ipus=4, name="gather")
SWAP = program(
    Collective(name="p", scope="", kind="collective-permute", size_bytes=700, groups=(), pairs=((0, 1), (1, 0))), num_ipus=2, name="swap"
)
STAGED = [program(superstep(45 + 20 * at), takes=(30,), gives=(30,), name=f"stage {at}") for at in range(3)]


@pytest.fixture(autouse=True)
def played_again() -> None:
    """In place of the folder's: a system that keeps its calls plays each of them."""


def trained(choose: random.Random) -> Program:
    """A step that takes over its own result, and gives another."""
    size, io_tiles, off_chip = choose.choice((9, 400)), choose.choice((0, 0, 1)), choose.choice(((), (2,)))
    nodes = [superstep(choose.randrange(900), 5, 10)]
    if choose.random() < 0.5:
        nodes.append(HostCall(name="callback", scope="", bytes_to_host=30, bytes_from_host=10))
    return program(
        *nodes, takes=(50, 20, 80), gives=(50, size), donates={0: 0}, num_io_tiles=io_tiles, host_arguments=off_chip, name="trained"
    )


class Work:
    """A piece of work, drawn by a seed, that may be done again and again on a rack of eight IPUs."""

    def __init__(self, seed: int, pattern: SyncPattern) -> None:
        choose = random.Random(seed)
        memory = choose.choice((0, 10**6))
        spec = rack()
        self.host = Host(on=replace(spec, sync_pattern=pattern, host=replace(spec.host, streaming_memory_bytes=memory)), record=False)
        self._programs = [trained(choose) for _ in range(3)]
        self._states = [self.host.put(50, ipu=ipu) for ipu in range(8)]
        self._constants = [self.host.put(80, ipu=ipu, on_host=bool(memory)) for ipu in range(8)]
        self._kinds = [choose.randrange(5) for _ in range(choose.randrange(1, 6))]
        self._seeds = [choose.random() for _ in self._kinds]
        self._waits = choose.random() < 0.8
        self._turn = 0

    def do(self) -> None:
        """Once."""
        self._turn += 1
        for kind, seed in zip(self._kinds, self._seeds, strict=True):
            self._one(kind, random.Random(seed))
        if self._waits:
            for state in self._states:
                self.host.system.wait(state)

    def _one(self, kind: int, choose: random.Random) -> None:
        host, system = self.host, self.host.system
        match kind:
            case 0:
                ipus = tuple(sorted(choose.sample(range(8), 4)))
                given = [[host.put(40, ipu=ipu)] for ipu in ipus]
                found = host.run_on(ipus, GATHER, given)
                self._read([value for row in found for value in row], choose)
                self._forget([value for row in (*given, *found) for value in row])
            case 1:
                host.run_on(tuple(choose.sample(range(8), 2)), SWAP, [[], []])
            case 2:
                passed = host.put(30, ipu=2)
                gone = [passed]
                for at, ipu in enumerate((2, 3, 4)):
                    gone.append(copied := host.copy(passed, ipu=ipu, group=("pipeline", self._turn)))
                    [passed] = host.run(STAGED[at], copied, ipu=ipu, group=("pipeline", self._turn))
                    gone.append(passed)
                self._read([passed], choose)
                self._forget(gone)
            case 3:
                system.accumulated(BATCH, 2)
            case _:
                ipu = choose.randrange(8)
                batch, state = host.put(20, ipu=ipu), self._states[ipu]
                self._states[ipu], loss = host.run(choose.choice(self._programs), state, batch, self._constants[ipu], ipu=ipu)
                self._read([loss], choose)
                self._forget([batch, state, loss])

    def _read(self, values: list[int], choose: random.Random) -> None:
        if choose.random() < 0.5:
            self.host.system.read(values[0])

    def _forget(self, values: list[int]) -> None:
        for value in values:
            self.host.system.forget(value)

    def figures(self) -> tuple[Any, ...]:
        """All that can be seen of the system now, and behind further work."""
        system = self.host.system
        mark = system.mark()
        seen = [mark.cycle, mark.host_cycle, mark.dispatches, mark.programs, mark.accumulated, mark.groups]
        self.do()
        for state in self._states:
            system.read(state)
        return *seen, system.mark()


def both_ways(seed: int, pattern: SyncPattern) -> int:
    """Does work one by one, and with recurrence. Returns: how many pieces were done at once."""
    one_by_one, at_once = Work(seed, pattern), Work(seed, pattern)
    for _ in range(TURNS):
        one_by_one.do()
    done, skipped, recurrence = 0, 0, Recurrence(at_once.host.system)
    while done < TURNS:
        at_once.do()
        done += 1
        more = recurrence.skipped(TURNS - done)
        at_once._turn += more
        done, skipped = done + more, skipped + more
    assert at_once.figures() == one_by_one.figures()
    return skipped


@pytest.mark.few(2)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_random_work_takes_the_same_one_by_one_and_at_once(pattern: SyncPattern) -> None:
    skipped = [both_ways(seed, pattern) for seed in range(20)]
    assert sum(map(bool, skipped)) > 10  # a host that never waits is ever further ahead of its IPUs, so that nothing recurs


def step_of(host: Host, called: Program, state: int) -> int:
    """A step that takes over its own result."""
    [new] = host.run(called, state)
    host.system.wait(new)
    host.system.forget(state)
    return new


def test_a_thousand_steps_are_three_that_are_played() -> None:
    host, called = Host(record=False), program(superstep(70), takes=(8,), gives=(8,), donates={0: 0})
    state, played, done, recurrence = host.put(8), 0, 0, Recurrence(host.system)
    while done < 1000:
        state = step_of(host, called, state)
        played += 1
        done += 1
        if done == 1:
            first = host.system.host_cycle
        done += recurrence.skipped(1000 - done)
    assert played == 3  # the first loads the program; the others are alike
    assert host.system.host_cycle == first + 999 * (DISPATCH + 70)
    assert host.system.mark().programs[1].runs == 1000


@pytest.mark.parametrize("reason", ["events are kept", "calls are kept", "it grows", "nothing is left"])
def test_all_work_is_played_where_a_reason_says_so(reason: str) -> None:
    host, called = Host(record=reason == "events are kept"), program(superstep(70), takes=(8,), gives=(8,), donates={0: 0})
    host.system.keep_calls(reason == "calls are kept")
    state, recurrence = host.put(8), Recurrence(host.system)
    for _ in range(20):
        state = step_of(host, called, state)
        if reason == "it grows":
            host.put(8)
        assert recurrence.skipped(0 if reason == "nothing is left" else 100) == 0


def test_a_host_that_runs_ahead_is_never_where_it_was() -> None:
    system, called = System(machine(1), record=False), program(superstep(70), takes=(8,), gives=(8,), donates={0: 0})
    host = Host(record=False)
    host.system = system
    state, recurrence = host.put(8), Recurrence(system)
    for _ in range(100):
        new = host.run(called, state)[0]
        system.forget(state)
        state = new
        assert recurrence.skipped(100) == 0
    assert MACHINE.ipu.clock_hz == 1e6
