"""The cost of one run of a program's body: the tree of supersteps as sums.

A tree is walked once. The sums are linear in the counts of its data-dependent parts, so pricing one run takes a few multiplications,
however large the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import machine_of
from tilestep.plan.steps import Branch, Collective, Counts, HostCall, Loop, Node, Program, Series, Superstep
from tilestep.sim.channel import Resource
from tilestep.sim.cycles.collective import CollectiveCost, collective_cost
from tilestep.units import ceil_div, cycles_from_bytes, cycles_from_seconds

Site = tuple[int, int]  # (site, arm) of a data-dependent loop or branch
Leaf = Superstep | Collective | HostCall


class BodyCycles(NamedTuple):
    """Cycles by kind, of one node or of a whole body."""

    compute: int = 0
    exchange: int = 0  # between the tiles of one IPU
    sync: int = 0
    collective: int = 0  # between IPUs
    host_call: int = 0

    @property
    def total(self) -> int:
        """All kinds: they are added, never overlapped."""
        return self.compute + self.exchange + self.sync + self.collective + self.host_call

    @property
    def supersteps(self) -> int:
        """Without exchanges between IPUs and calls of the host."""
        return self.compute + self.exchange + self.sync

    def plus(self, other: BodyCycles, times: int = 1) -> BodyCycles:
        """This and `times` the other."""
        return BodyCycles(
            self.compute + times * other.compute,
            self.exchange + times * other.exchange,
            self.sync + times * other.sync,
            self.collective + times * other.collective,
            self.host_call + times * other.host_call,
        )


class CallCycles(NamedTuple):
    """The needs of a run's host calls, for one IPU that has its link to itself. All fields but the feeds' own include the feeds."""

    waits: int = 0  # cycles of latency
    to_host: int = 0  # cycles of the host link
    from_host: int = 0
    memory: int = 0  # cycles of the streaming memory, either way
    outfed: int = 0  # the part of to_host that is outfeeds
    infed: int = 0  # the part of from_host that is infeeds
    staged: int = 0  # cycles of the streaming memory in which it gives what is infed, if the machine has one; no part of memory
    infeed_waits: int = 0  # their parts of the latency
    outfeed_waits: int = 0
    turns: int = 0  # how often a feed comes by, of several that come by equally often one
    accesses: int = 0  # transfers, for which all IPUs that wait for each other synchronise before and after
    feed_accesses: int = 0  # the part of them that is feeds

    def plus(self, other: CallCycles, times: int = 1) -> CallCycles:
        """This and `times` the other."""
        return CallCycles(*(mine + times * more for mine, more in zip(self, other, strict=True)))

    def exposed(self, body: int) -> int:
        """Cycles of the feeds' transfers that no compute hides, on an IPU that does both at once.

        Each turn's data come while the turn before computes, and leave while the next one does, over the same I/O tiles. Nothing hides the
        first turn's and the last turn's.

        Args: body: cycles that the run computes.
        """
        if not self.turns:
            return 0
        moved = self.infed + self.outfed
        first = ceil_div(moved, self.turns)
        return first + max(0, moved - first - (body - ceil_div(body, self.turns)))


NO_CALLS: Final = CallCycles()


class LeafUse(NamedTuple):
    """A leaf of the tree and how often it runs: `times`, or `times` per count of `site`."""

    leaf: Leaf
    times: int
    site: Site | None
    cycles: BodyCycles  # a single execution


@dataclass(frozen=True, kw_only=True)
class BodyCost:
    """Cost of one run on one IPU, linear in its counts."""

    fixed: BodyCycles
    counted: Mapping[Site, BodyCycles] = field(default_factory=dict[Site, BodyCycles])  # per count
    traffic_fixed: Mapping[Resource, int] = field(default_factory=dict[Resource, int])  # cycles for which links and gateways send
    traffic_counted: Mapping[Site, Mapping[Resource, int]] = field(default_factory=dict[Site, Mapping[Resource, int]])  # per count
    calls_fixed: CallCycles = NO_CALLS
    calls_counted: Mapping[Site, CallCycles] = field(default_factory=dict[Site, CallCycles])  # per count
    collective: bool  # IPUs must run it together
    uses: tuple[LeafUse, ...]

    @property
    def calls_host(self) -> bool:
        """Whether it may stop for the host or for streaming memory."""
        return bool(self.calls_counted) or self.calls_fixed != NO_CALLS

    def cycles(self, counts: Counts) -> BodyCycles:
        """Cycles by kind of a run with `counts`.

        Raises: ValueError if a data-dependent part was not counted.
        """
        total = self.fixed
        for site, cost in self.counted.items():
            total = total.plus(cost, times_counted(counts, site))
        return total

    def traffic(self, counts: Counts) -> Mapping[Resource, int]:
        """Cycles for which each link and gateway sends in a run with `counts`.

        Raises: ValueError if a data-dependent part was not counted.
        """
        if not self.traffic_counted:
            return self.traffic_fixed
        total = Counter(self.traffic_fixed)
        for site, traffic in self.traffic_counted.items():
            _add(total, traffic, times_counted(counts, site))
        return total

    def calls(self, counts: Counts) -> CallCycles:
        """The needs of the host calls in a run with `counts`.

        Raises: ValueError if a data-dependent part was not counted.
        """
        total = self.calls_fixed
        for site, calls in self.calls_counted.items():
            total = total.plus(calls, times_counted(counts, site))
        return total


def _add(total: Counter[Resource], traffic: Mapping[Resource, int], times: int) -> None:
    for resource, cycles in traffic.items():
        total[resource] += times * cycles


def times_counted(counts: Counts, site: Site) -> int:
    """How often (site, arm) was taken in one run.

    Raises: ValueError if it was not counted or is negative.
    """
    times = counts.times.get(site)
    if times is None or times < 0:
        found = "has no count" if times is None else f"was counted {times} times"
        raise ValueError(f"site {site[0]}, arm {site[1]} {found}: every loop and branch in Program.sites needs a count of 0 or more")
    return times


def body_cost(program: Program, machine: MachineSpec, ipus: Sequence[int]) -> BodyCost:
    """The cost of `program` on `ipus` of `machine`.

    Static loops multiply. The count of a data-dependent loop or branch is absolute (all of one run), so nothing around
    it multiplies it again. A branch that is not counted takes its dearest arm; a loop that is neither static nor counted
    runs once.
    """
    pricer = _Pricer(machine, tuple(ipus), program.num_io_tiles)
    uses: list[LeafUse] = []
    pricer.use(program.body, 1, None, uses)
    sums: dict[Site | None, list[int]] = {None: [0] * len(BodyCycles._fields)}
    traffic: dict[Site | None, Counter[Resource]] = {None: Counter()}
    calls: dict[Site | None, Counter[CallCycles]] = {None: Counter()}
    turns: dict[Site | None, int] = {}
    for leaf, times, site, cycles in uses:
        total = sums.get(site)
        if total is None:
            total = sums[site] = [0] * len(cycles)
        for kind, spent in enumerate(cycles):
            if spent:
                total[kind] += times * spent
        match leaf:
            case Superstep():
                pass
            case Collective():
                _add(traffic.setdefault(site, Counter()), pricer.collective(leaf).traffic, times)
            case HostCall():
                calls.setdefault(site, Counter())[pricer.calls(leaf)] += times
                if leaf.is_feed:
                    turns[site] = max(turns.get(site, 0), times)
    needs = {site: _together(made)._replace(turns=turns.get(site, 0)) for site, made in calls.items()}
    return BodyCost(
        fixed=BodyCycles(*sums[None]),
        counted={site: BodyCycles(*total) for site, total in sums.items() if site is not None},
        traffic_fixed=traffic[None],
        traffic_counted={site: sent for site, sent in traffic.items() if site is not None},
        calls_fixed=needs[None],
        calls_counted={site: made for site, made in needs.items() if site is not None},
        collective=any(isinstance(use.leaf, Collective) for use in uses),
        uses=tuple(uses),
    )


def _together(calls: Counter[CallCycles]) -> CallCycles:
    total = NO_CALLS
    for each, times in calls.items():
        total = total.plus(each, times)
    return total


def has_streaming_memory(machine: MachineSpec) -> bool:
    """Whether pinned_host is the IPU-Machine's own streaming memory; else it is the host's memory, behind the host link."""
    return machine.host.streaming_memory_bytes > 0


class _Pricer:
    """Prices the leaves of one program; equal collectives are priced once, and equal host calls."""

    def __init__(self, machine: MachineSpec, ipus: tuple[int, ...], num_io_tiles: int) -> None:
        self._machine = machine
        self._num_io_tiles = num_io_tiles
        self._ipus = ipus
        self._staging_rate = machine.host.streaming_memory_bytes_per_second if has_streaming_memory(machine) else 0
        self._collectives: dict[object, CollectiveCost] = {}
        self._host_calls: dict[object, tuple[BodyCycles, CallCycles]] = {}
        by_machine = [machine_of(machine, ipu) for ipu in ipus]
        self._ipus_per_host_link = max((by_machine.count(index) for index in set(by_machine)), default=1)

    def use(self, node: Node, times: int, site: Site | None, found: list[LeafUse]) -> None:
        """Adds the leaves of a node to those that were found."""
        match node:
            case Superstep() | Collective() | HostCall():
                found.append(LeafUse(node, times, site, self.cycles(node)))
            case Series(nodes=nodes):
                for child in nodes:
                    self.use(child, times, site, found)
            case Loop(body=body, trips=int(trips)):
                self.use(body, times * trips, site, found)
            case Loop(body=body, site=int(loop_site)):
                self.use(body, 1, (loop_site, 0), found)
            case Loop(body=body):
                self.use(body, times, site, found)
            case Branch(arms=arms, site=int(branch_site)):
                for arm, body in enumerate(arms):
                    self.use(body, 1, (branch_site, arm), found)
            case Branch(arms=arms):
                self._use_dearest(arms, times, site, found)

    def _use_dearest(self, arms: Sequence[Series], times: int, site: Site | None, found: list[LeafUse]) -> None:
        """The dearest arm, and the counted parts of the others, whose count is 0 if they did not run."""
        options: list[list[LeafUse]] = [[] for _ in arms]
        for arm, option in zip(arms, options, strict=True):
            self.use(arm, 1, None, option)
        dearest = max(range(len(options)), key=lambda arm: sum(use.times * use.cycles.total for use in options[arm]), default=0)
        for arm, option in enumerate(options):
            for use in option:
                if use.site is not None:
                    found.append(use)
                elif arm == dearest:
                    found.append(use._replace(times=use.times * times, site=site))

    def cycles(self, leaf: Leaf) -> BodyCycles:
        match leaf:
            case Superstep():
                return BodyCycles(leaf.compute_cycles, leaf.exchange_cycles, leaf.sync_cycles)
            case Collective():
                cost = self.collective(leaf)
                return BodyCycles(compute=leaf.compute_cycles, sync=cost.sync_cycles, collective=cost.exchange_cycles)
            case HostCall():
                return self._priced(leaf)[0]

    def calls(self, call: HostCall) -> CallCycles:
        """What it needs of an IPU that has its link to itself, by the link or memory that carries it."""
        return self._priced(call)[1]

    def _priced(self, call: HostCall) -> tuple[BodyCycles, CallCycles]:
        moved = (call.bytes_to_host, call.bytes_from_host, call.in_memory, call.is_feed)
        if moved not in self._host_calls:
            passed = self._passed(call)
            sync = self._machine.ipu.sync_cycles + self._machine.ipu.superstep_overhead_cycles
            cycles = BodyCycles(exchange=passed, sync=sync if passed else 0, host_call=self._host_call_cycles(call))
            self._host_calls[moved] = cycles, self._calls(call)
        return self._host_calls[moved]

    def collective(self, leaf: Collective) -> CollectiveCost:
        shape = (leaf.kind, leaf.size_bytes, leaf.groups, leaf.pairs)
        if shape not in self._collectives:
            self._collectives[shape] = collective_cost(self._machine, leaf, self._ipus)
        return self._collectives[shape]

    def _host_call_cycles(self, call: HostCall) -> int:
        """Bytes each way at this IPU's share of the rate, a latency per transfer; at least one latency."""
        there, back = self._rates(call)
        back = self._staging_rate if call.is_feed and self._staging_rate else back
        return self._waits(call) + sum(self._moved(call, there / self._ipus_per_host_link, back / self._ipus_per_host_link))

    def _calls(self, call: HostCall) -> CallCycles:
        """The same at the full rate, by the link or memory that carries it."""
        out, back = self._moved(call, *self._rates(call))
        waits, accesses = self._waits(call), _transfers(call)
        if call.in_memory and has_streaming_memory(self._machine):
            return CallCycles(waits=waits, memory=out + back, accesses=accesses)
        found = CallCycles(waits=waits, to_host=out, from_host=back, accesses=accesses)
        if not call.is_feed:
            return found
        to_ipu = waits if call.bytes_from_host else 0
        staged = self._moved(call, self._staging_rate, self._staging_rate)[1] if self._staging_rate else 0
        return found._replace(
            outfed=out, infed=back, staged=staged, infeed_waits=to_ipu, outfeed_waits=waits - to_ipu, feed_accesses=accesses
        )

    def _passed(self, call: HostCall) -> int:
        """Cycles for a feed to pass between the I/O tiles, if there are any, and the others: each exchanges its share."""
        if not (call.is_feed and self._num_io_tiles):
            return 0
        share = ceil_div(call.bytes_to_host + call.bytes_from_host, self._num_io_tiles)
        return ceil_div(share, self._machine.ipu.tile.exchange_bytes_per_cycle)

    def _waits(self, call: HostCall) -> int:
        return _transfers(call) * cycles_from_seconds(self._machine.host.link_latency_seconds, self._machine.ipu.clock_hz)

    def _rates(self, call: HostCall) -> tuple[float, float]:
        """Bytes a second from the IPU, and to it."""
        host = self._machine.host
        if call.in_memory and has_streaming_memory(self._machine):
            return host.remote_buffer_bytes_per_second, host.remote_buffer_bytes_per_second
        return host.to_host_bytes_per_second, host.to_ipus_bytes_per_second

    def _moved(self, call: HostCall, there: float, back: float) -> tuple[int, int]:
        """Cycles of its bytes from the IPU, and to it, at rates in bytes a second."""
        clock_hz = self._machine.ipu.clock_hz
        return int(cycles_from_bytes(call.bytes_to_host, there, clock_hz)), int(cycles_from_bytes(call.bytes_from_host, back, clock_hz))


def _transfers(call: HostCall) -> int:
    """One each way that has bytes, and one if there are none."""
    return max(1, (call.bytes_to_host > 0) + (call.bytes_from_host > 0))
