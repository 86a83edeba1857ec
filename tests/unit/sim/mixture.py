"""A host program that does a bit of everything on a rack of eight IPUs."""

import random
from dataclasses import replace

from tests.unit.sim.toy import MACHINE, Host, collective, machine, program, superstep
from tilestep.machine import MachineSpec, SyncPattern
from tilestep.plan.steps import Collective, HostCall

PATTERNS: tuple[SyncPattern, ...] = ("full", "singlePipeline", "replicaAndLadder")
RACK = replace(MACHINE.link, ipus_per_rack=8)


def rack(num_ipus: int = 8) -> MachineSpec:
    """Up to eight IPUs on one ladder, two to a host link."""
    return replace(machine(num_ipus), link=RACK)


def trace_at_random(seed: int, pattern: SyncPattern) -> Host:
    """Programs with exchanges on parts of a rack, on one IPU each, and in a group; asked for as a seed decides."""
    choose = random.Random(seed)
    host = Host(on=replace(rack(), sync_pattern=pattern))
    gather = program(superstep(30), collective("all-gather", 900), takes=(40,), gives=(20,), num_ipus=4, name="gather")
    swap = program(
        Collective(name="p", scope="", kind="collective-permute", size_bytes=700, groups=(), pairs=((0, 1), (1, 0))),
        num_ipus=2,
        name="swap",
    )
    alone = program(
        superstep(60, 5, 10),
        HostCall(name="callback", scope="", bytes_to_host=30, bytes_from_host=10),
        takes=(50, 20),
        gives=(50, 9),
        donates={0: 0},
        num_io_tiles=1,
        name="alone",
    )
    staged = program(superstep(45), takes=(30,), gives=(30,), name="staged")
    states = [host.put(50, ipu=ipu) for ipu in range(8)]
    passed = host.put(30)
    for turn in range(80):
        match choose.randrange(4):
            case 0:
                ipus = tuple(sorted(choose.sample(range(8), 4)))
                host.run_on(ipus, gather, [[host.put(40, ipu=ipu)] for ipu in ipus])
            case 1:
                host.run_on(tuple(choose.sample(range(8), 2)), swap, [[], []])
            case 2:
                ipu = choose.randrange(8)
                states[ipu], loss = host.run(alone, states[ipu], host.put(20, ipu=ipu), ipu=ipu)
                if choose.random() < 0.2:
                    host.system.read(choose.choice((loss, states[ipu])))
            case _:
                for ipu in (2, 3, 4):
                    [passed] = host.run(staged, host.copy(passed, ipu=ipu), ipu=ipu, group=("pipeline", turn))
    return host
