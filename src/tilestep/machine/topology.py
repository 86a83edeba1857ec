"""Which IPU-Machine and rack an IPU is in, and how far two IPUs are from each other. Pure.

Within a rack the IPUs form a ladder of IPU-Links: two IPUs to a rung, numbered upwards, 0 and 1 on the lowest. Traffic
first crosses its rung, then runs along one side. A torus has one link more on each side, from the highest rung to the
lowest, if all IPUs of the rack are there; traffic then takes the shorter way, upwards if both are as long.
Racks are joined by gateways, which lead to the same position in every other rack: traffic leaves at once and goes on in the
rack that it is for, unless that one is not full.
Sources: graphcore/poplibs@7eac0f26 lib/poplibs_test/Util.cpp (ladder); datasheets of IPU-POD64 (torus) and IPU-POD128 (racks).
"""

from functools import lru_cache

from tilestep.machine.spec import MachineSpec


def machine_of(machine: MachineSpec, ipu: int) -> int:
    """Index of the IPU-Machine (or card) that holds `ipu`.

    Raises: ValueError if there is no such IPU.
    """
    return _checked(machine, ipu) // machine.ipus_per_machine


def rack_of(machine: MachineSpec, ipu: int) -> int:
    """Index of the rack that holds `ipu`; IPU-Links join all IPUs of a rack, gateways join racks.

    Raises: ValueError if there is no such IPU.
    """
    return _checked(machine, ipu) // machine.link.ipus_per_rack


def side_of(machine: MachineSpec, ipu: int) -> int:
    """Which side of its rack's ladder `ipu` is on, 0 or 1.

    Raises: ValueError if there is no such IPU.
    """
    return _checked(machine, ipu) % machine.link.ipus_per_rack % 2


def rack_of_way(machine: MachineSpec, a: int, b: int) -> int:
    """The rack over whose IPU-Links a message from IPU `a` to IPU `b` goes: that of `b` if it is full, else that of `a`."""
    rack = rack_of(machine, b)
    return rack if _is_full(machine, rack) else rack_of(machine, a)


def is_torus(machine: MachineSpec, rack: int) -> bool:
    """Whether the sides of a rack are closed to rings: it is cabled so, and all its IPUs are in the machine."""
    return machine.link.topology == "torus" and _is_full(machine, rack)


def climb(machine: MachineSpec, rack: int, start: int, end: int) -> int:
    """Rungs to go from rung `start` of a rack to rung `end`: more than 0 upwards, less than 0 downwards."""
    upwards = end - start
    if not is_torus(machine, rack):
        return upwards
    rungs = machine.link.ipus_per_rack // 2
    upwards %= rungs
    return upwards if 2 * upwards <= rungs else upwards - rungs


def hops(machine: MachineSpec, a: int, b: int) -> int:
    """Links that a message from IPU `a` to IPU `b` passes, one of them a gateway if they are in different racks; 0 if a is b.

    Raises: ValueError if there is no such IPU.
    """
    per_rack = machine.link.ipus_per_rack
    start, end = _checked(machine, a) % per_rack, _checked(machine, b) % per_rack
    gateways = int(rack_of(machine, a) != rack_of(machine, b))
    return gateways + abs(climb(machine, rack_of_way(machine, a, b), start // 2, end // 2)) + (start % 2 != end % 2)


@lru_cache(maxsize=256)
def diameter(machine: MachineSpec, ipus: tuple[int, ...]) -> int:
    """Hops between the two of `ipus` that are farthest from each other; 0 for one or none."""
    return max((hops(machine, a, b) for a in ipus for b in ipus if a < b), default=0)


def _is_full(machine: MachineSpec, rack: int) -> bool:
    return (rack + 1) * machine.link.ipus_per_rack <= machine.num_ipus


def _checked(machine: MachineSpec, ipu: int) -> int:
    if not 0 <= ipu < machine.num_ipus:
        raise ValueError(f"IPU {ipu} is not in {machine.name}, which has {machine.num_ipus} (0 to {machine.num_ipus - 1})")
    return ipu
