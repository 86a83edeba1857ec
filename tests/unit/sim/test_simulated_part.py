"""Where IPUs do the same, one part of them is simulated: as if all were."""

import random
from dataclasses import replace

import pytest

from tests.unit.sim.mixture import PATTERNS
from tests.unit.sim.toy import MACHINE, Host, collective, machine, program, superstep
from tilestep.machine import MachineSpec, SyncPattern
from tilestep.plan.steps import HostCall
from tilestep.sim.mark import Mark

NUM_IPUS = 16  # on two ladders, two to a host link

GATHER = program(superstep(30), collective("all-gather", 900), takes=(40,), gives=(20,), donates={0: 0}, num_ipus=8, name="gather")
SPMD = program(
    superstep(25, 5, 10),
    HostCall(name="callback", scope="", bytes_to_host=30, bytes_from_host=10),
    takes=(50, 20),
    gives=(50, 9),
    donates={0: 0},
    num_ipus=8,
    num_io_tiles=1,
    name="spmd",
)
WITHIN = program(
    superstep(10),
    collective("all-reduce", 70, tuple((2 * pair, 2 * pair + 1) for pair in range(8))),
    takes=(30,),
    gives=(30,),
    num_ipus=NUM_IPUS,
    name="within",
)
STAGED = program(superstep(45), takes=(30,), gives=(30,), num_ipus=8, name="staged")


def work(seed: int, on: MachineSpec, *, reads: bool = False) -> Mark:
    """What a seed decides, done by replicas of two IPUs each. Args: reads: whether the host reads what the first replica has made."""
    choose, host = random.Random(seed), Host(on=on)
    simulated = range(on.num_simulated)

    def of_all(place: int) -> tuple[int, ...]:
        return tuple(range(place, NUM_IPUS, 2))

    def rows(place: int, *sizes: int) -> list[list[int]]:
        return [[host.put(size, ipu=ipu) for size in sizes] for ipu in of_all(place) if ipu in simulated]

    states = [rows(place, 50) for place in range(2)]
    passed = [row[0] for row in rows(0, 30)]
    for turn in range(60):
        place = choose.randrange(2)
        match choose.randrange(4):
            case 0:
                found = host.run_on(of_all(place), GATHER, rows(place, 40))
                if reads and choose.random() < 0.3:
                    host.system.read(found[0][0])
            case 1:
                given = [[*state, *row] for state, row in zip(states[place], rows(place, 20), strict=True)]
                states[place] = [[new] for new, _ in host.run_on(of_all(place), SPMD, given)]
            case 2:
                host.run_on(tuple(range(NUM_IPUS)), WITHIN, [[host.put(30, ipu=ipu)] for ipu in simulated])
            case _:
                for stage in range(2):
                    group = ("pipeline", turn)
                    here = [host.copy(value, ipu=ipu, group=group) for value, ipu in zip(passed, of_all(stage), strict=False)]
                    passed = [row[0] for row in host.run_on(of_all(stage), STAGED, [[value] for value in here], group=group)]
    return host.system.mark()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_part_takes_what_the_whole_takes(seed: int, pattern: SyncPattern) -> None:
    whole = replace(machine(NUM_IPUS, pattern), link=replace(MACHINE.link, ipus_per_rack=8))
    expected, read = work(seed, whole), work(seed, whole, reads=True)
    for simulated in (2, 4, 8):
        part = replace(whole, simulated_ipus=simulated)
        mark, also_read = work(seed, part), work(seed, part, reads=True)
        assert (mark.cycle, mark.host_cycle, mark.programs) == (expected.cycle, expected.host_cycle, expected.programs), simulated
        assert (also_read.cycle, also_read.host_cycle) == (read.cycle, read.host_cycle), simulated
        assert [of.host for of in also_read.programs.values()] == [of.host for of in read.programs.values()], simulated
