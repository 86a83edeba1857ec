"""The three sync patterns of PopART: which IPUs wait for each other. Pure.

Each IPU belongs to two sync groups. One holds all IPUs of a program under each pattern; an exchange between IPUs uses it.
The other is used for access to the host and to streaming memory, and for an exchange between IPUs that are all in it:

| pattern          | IPUs that wait for each other at such an access                   |
|------------------|-------------------------------------------------------------------|
| full             | all of the program                                                |
| singlePipeline   | the one alone                                                     |
| replicaAndLadder | those of the program on the same side of the ladder (A+C and B+D) |

Source: graphcore/popart@d0ce16e0 docs/user_guide/performance.rst, "Sync patterns".
"""

from tilestep.machine.fields import SyncPattern
from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import diameter, side_of
from tilestep.units import cycles_from_seconds


def host_set(machine: MachineSpec, ipu: int, pattern: SyncPattern | None = None) -> int:
    """A number that is the same for IPUs which, in one program, wait for each other when one of them accesses the host.

    Args: pattern: None: that of the machine.
    Raises: ValueError if there is no such IPU.
    """
    side = side_of(machine, ipu)
    match machine.sync_pattern if pattern is None else pattern:
        case "full":
            return 0
        case "singlePipeline":
            return ipu
        case "replicaAndLadder":
            return side


def sync_cycles(machine: MachineSpec, ipus: tuple[int, ...]) -> int:
    """Cycles of one sync of several IPUs: there and back over the distance of the two farthest from each other; 0 for one.

    Source: graphcore/poplibs@7eac0f26 lib/poplibs_test/Util.cpp, setGlobalSyncLatency.
    """
    if len(ipus) < 2:
        return 0
    return cycles_from_seconds(2 * diameter(machine, ipus) * machine.link.sync_seconds_per_hop, machine.ipu.clock_hz)
