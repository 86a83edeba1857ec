"""Does equal work many times at once: from when it leaves the system as it found it, but later.

Work depends on clocks only by their differences. A clock that has passed the host's counts as the host's, because all that is asked for
later begins at the host's clock or behind it. So if equal work has moved all clocks that count by the same number of cycles, it does so
the next time, too, and adds the same to all sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, final

from tilestep.sim.channel import Channel, Resource
from tilestep.sim.snapshot import Parts
from tilestep.sim.state.ledger import HostBytes, ProgramLedger
from tilestep.sim.state.residency import IpuState, Value

_ALIKE: Final = 3  # moments that must be alike: a sum that depended on a clock's age would tell itself at the third
_MOST_TRIED: Final = 64  # pieces of work, of which none was like the one before: then nobody looks any more

Sums = dict[tuple[Any, ...], int]


class Standing(NamedTuple):
    """A system between two pieces of work, when nothing waits to be played."""

    host: int  # its clock
    fixed: tuple[Any, ...]  # work that recurs does not change it
    clocks: tuple[int, ...]  # clocks of IPUs and values, each as `_clocks` has them
    spans: tuple[Any, ...]  # bookings of channels that may still matter, relative to `host`
    sums: Sums  # all that only grows

    def recurs(self, earlier: Standing) -> bool:
        """Whether the system is as it was, but later."""
        if self.fixed != earlier.fixed or self.spans != earlier.spans:
            return False
        moved, passed = self.host - earlier.host, earlier.host
        return all(now - before == moved or now == before <= passed for before, now in zip(earlier.clocks, self.clocks, strict=True))

    def grown(self, earlier: Standing) -> Sums:
        """What has been added to the sums."""
        return {key: value - earlier.sums.get(key, 0) for key, value in self.sums.items() if value != earlier.sums.get(key, 0)}


def standing(parts: Parts, host: int, counters: Sums) -> Standing:
    """The state of a system. Args: counters: further sums."""
    sums = dict(counters)
    for key, ledger in parts.programs.ledgers().items():
        sums.update(((key, *name), value) for name, value in _sums(ledger))
    fixed = (
        tuple(map(_fixed_of_ipu, parts.ipus)),
        tuple(_fixed_of_value(value, parts.ipus) for value in parts.values.values()),
        tuple((name, tuple(group.members), group.use) for name, group in parts.builder.known_groups.items()),
        tuple((name, tuple(partition.members)) for name, partition in parts.partitions.items()),
        tuple((key, tuple(partition.members)) for key, partition in parts.programs.partitions().items()),
        tuple((key, len(ledger.first_runs)) for key, ledger in parts.programs.ledgers().items()),
    )
    clocks = tuple(clock for thing, names in _clocks(parts) for clock in (getattr(thing, name) for name in names))
    spans = tuple((name, found) for name, channel in _channels(parts) if (found := _relative(channel, host)))
    return Standing(host, fixed, clocks, spans, sums)


def advance(parts: Parts, earlier: Standing, now: Standing, times: int) -> Sums:
    """Moves all clocks but the host's, and adds to the sums of programs, as if the work between two moments were done so many times more.

    Args: now: the system's state, which recurs. Returns: what is to be added to the further sums.
    """
    moved = now.host - earlier.host
    places = [(thing, name) for thing, names in _clocks(parts) for name in names]
    for (thing, name), before, clock in zip(places, earlier.clocks, now.clocks, strict=True):
        if clock - before == moved:
            setattr(thing, name, clock + times * moved)
    for _, channel in _channels(parts):
        channel.drop_before(now.host)
        channel.restore([(start + times * moved, end + times * moved) for start, end in channel.busy_spans()])
    grown = {key: times * value for key, value in now.grown(earlier).items()}
    for key, ledger in parts.programs.ledgers().items():
        _add(ledger, {name[1:]: value for name, value in grown.items() if name[0] == key})
    return {name: value for name, value in grown.items() if isinstance(name[0], str)}


class _System(Protocol):
    """A system, as it is seen from here."""

    def standing(self) -> Standing | None: ...

    def advance(self, earlier: Standing, now: Standing, times: int) -> None: ...


@final
class Recurrence:
    """Looks at a system after each piece of equal work.

    Args: system: whose work it is.
    """

    def __init__(self, system: _System) -> None:
        self._system = system
        self._seen: list[Standing] = []  # at the ends of the latest pieces
        self._tried = 0

    def skipped(self, left: int) -> int:
        """One more piece of the work is done. Does those that are left at once, if that is the same to the cycle.

        Args: left: pieces of the same work that follow. Returns: how many of them are done: all or none.
        """
        if left < 1 or self._tried >= _MOST_TRIED:
            return 0
        self._tried += 1
        now = self._system.standing()
        if now is None:
            self._seen = []
            return 0
        self._seen = [*self._seen[-2:], now]
        if len(self._seen) < _ALIKE:
            return 0
        first, middle, _ = self._seen
        if not (now.recurs(middle) and middle.recurs(first) and now.grown(middle) == middle.grown(first)):
            return 0
        self._system.advance(middle, now, left)
        self._seen = []
        return left


# ------------------------------------------------------------------------------------------------------ the parts of a state


def _clocks(parts: Parts) -> Iterator[tuple[Any, Sequence[str]]]:
    """What has clocks, and their names. A clock that says that there is none is left out."""
    yield parts.execution, ("horizon",)
    for state in parts.ipus:
        yield state, ("free", "inputs_from", "io_end")
    for value in parts.values.values():
        yield value, ("ready", *(name for name in ("host_ready", "memory_ready") if getattr(value, name) >= 0))


def _fixed_of_ipu(state: IpuState) -> tuple[Any, ...]:
    return state.loaded, state.group is None, state.use, state.epoch > 0


def _fixed_of_value(value: Value, ipus: Sequence[IpuState]) -> tuple[Any, ...]:
    """All but its clocks and its number. Of a load it only matters whether the program that it loaded is still there."""

    def load(epoch: int) -> int:
        return epoch and (2 if epoch == ipus[value.ipu].epoch else 1)

    programs = [0 if ledger is None else ledger.key for ledger in (value.made_by, value.streamed_to)]
    loads = load(value.epoch), load(value.made_in), load(value.streamed_in)
    there = value.host_ready >= 0, value.memory_ready >= 0, value.pending
    return value.ipu, value.size_bytes, value.layout, *programs, *loads, *there, value.noted, value.written


def _channels(parts: Parts) -> Iterator[tuple[Any, Channel]]:
    resources = parts.execution.resources
    for kind, channels in (("to-ipus", resources.to_ipus), ("to-host", resources.to_host), ("memory", resources.memories)):
        for index, channel in enumerate(channels):
            yield (kind, index), channel
    for resource, channel in resources.between_ipus.items():
        named: Resource = resource
        yield named, channel
    for state in parts.ipus:
        yield ("io", state.index), state.io


def _relative(channel: Channel, host: int) -> tuple[tuple[int, int], ...]:
    """Its bookings from a cycle on. Nothing is booked before that any more, so that a booking's begin before it does not matter."""
    return tuple((max(start - host, 0), end - host) for start, end in channel.busy_spans() if end >= host)


def _sums(ledger: ProgramLedger) -> Iterator[tuple[tuple[Any, ...], int]]:
    yield ("runs",), ledger.runs
    yield ("loads",), ledger.loads
    for ipu, row in ledger.cycles.items():
        yield from ((("cycles", ipu, kind), cycles) for kind, cycles in enumerate(row))
    for ipu, counts in ledger.counted.items():
        yield from ((("counted", ipu, site), count) for site, count in counts.items())
    yield from ((("host", name), getattr(ledger.host, name)) for name in HostBytes.__slots__)
    for name, sizes in _sizes(ledger):
        yield from (((name, size), runs) for size, runs in sizes.items())
    yield from ((("group", name), runs) for name, runs in ledger.runs_by_group.items())
    for name, row in (("refed", ledger.refed), ("repeated", ledger.repeated)):
        yield from (((name, index), runs) for index, runs in enumerate(row))


def _sizes(ledger: ProgramLedger) -> tuple[tuple[str, Counter[int]], ...]:
    return ("bytes in", ledger.runs_by_bytes_in), ("bytes out", ledger.runs_by_bytes_out)


def _add(ledger: ProgramLedger, grown: Sums) -> None:
    sizes, rows = dict(_sizes(ledger)), {"refed": ledger.refed, "repeated": ledger.repeated}
    for (name, *place), value in grown.items():
        match name:
            case "runs" | "loads":
                setattr(ledger, name, getattr(ledger, name) + value)
            case "cycles":
                ledger.cycles[place[0]][place[1]] += value
            case "counted":
                ledger.counted[place[0]][place[1]] += value
            case "host":
                setattr(ledger.host, place[0], getattr(ledger.host, place[0]) + value)
            case "group":
                ledger.runs_by_group[place[0]] += value
            case "bytes in" | "bytes out":
                sizes[name][place[0]] += value
            case _:
                rows[name][place[0]] += value
