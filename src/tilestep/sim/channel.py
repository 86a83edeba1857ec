"""One direction of a link as a clock of its bookings."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple, final

from tilestep.machine.spec import MachineSpec

MAX_BUSY_SPANS: Final = 4096  # beyond that the oldest gap is closed, so that memory stays bounded


@final
class Channel:
    """Capacity of one direction of a link over virtual time.

    Transfers are booked in dispatch order. Each takes all the capacity that earlier bookings leave from the cycle at
    which it is ready: a transfer that is booked early but ready late does not hold up others until then, and one that
    meets a booked span goes on behind it. After a booking the channel is busy without a gap from its readiness to its
    end, so busy spans merge and stay few.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self, spans: Sequence[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []  # ascending, disjoint, never touching
        self._ends: list[int] = []
        self.restore(spans)

    def book(self, ready: int, duration: int) -> int:
        """Book `duration` cycles of the channel from cycle `ready` on.

        Returns: the cycle at which the transfer has had its `duration` cycles; `ready` if there is nothing to send.
        """
        if duration <= 0:
            return ready
        starts, ends = self._starts, self._ends
        if not ends or ready > ends[-1]:
            starts.append(ready)
            ends.append(ready + duration)
            self._bound()
            return ready + duration
        first = bisect_left(ends, ready)
        busy_from = min(ready, starts[first])
        cursor, left, after = ready, duration, first
        while after < len(starts):
            gap = max(starts[after] - cursor, 0)
            if left <= gap:
                break
            left -= gap
            cursor = ends[after]
            after += 1
        end = busy_until = cursor + left
        if after < len(starts) and starts[after] == end:  # touches the span behind: they become one
            busy_until = ends[after]
            after += 1
        starts[first:after] = [busy_from]
        ends[first:after] = [busy_until]
        self._bound()
        return end

    def pieces(self, ready: int, duration: int) -> tuple[tuple[int, int], ...]:
        """The spans (start, end) that `book` would take. Books nothing."""
        found: list[tuple[int, int]] = []
        cursor, left = ready, duration
        for start, end in zip(self._starts, self._ends, strict=True):
            if end <= cursor or left <= 0:
                continue
            if start > cursor:
                found.append((cursor, min(start, cursor + left)))
                left -= found[-1][1] - cursor
            cursor = max(cursor, end)
        if left > 0:
            found.append((cursor, cursor + left))
        return tuple(found)

    def drop_before(self, cycle: int) -> None:
        """Forgets bookings that ended by `cycle`. Exact only if no later booking is ready before `cycle`."""
        done = bisect_left(self._ends, cycle)
        del self._starts[:done], self._ends[:done]

    def restore(self, spans: Sequence[tuple[int, int]]) -> None:
        """Takes the bookings of another channel, as its `busy_spans` gives them, in place of its own.

        Raises: ValueError if they are no such spans.
        """
        flat = [cycle for span in spans for cycle in span]
        if any(later <= earlier for earlier, later in pairwise(flat)):
            raise ValueError("the busy spans of a channel must be ascending and never touch")
        self._starts, self._ends = flat[::2], flat[1::2]

    def snapshot(self) -> tuple[list[int], list[int]]:
        """Its bookings, for `rewind`."""
        return self._starts.copy(), self._ends.copy()

    def rewind(self, snapshot: tuple[list[int], list[int]]) -> None:
        """Takes the bookings back that came after a snapshot."""
        self._starts, self._ends = (cycles.copy() for cycles in snapshot)

    def busy_spans(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of each span that is taken, ascending."""
        return tuple(zip(self._starts, self._ends, strict=True))

    def _bound(self) -> None:
        if len(self._starts) > MAX_BUSY_SPANS:
            del self._starts[1], self._ends[0]


class Resource(NamedTuple):
    """One carrier of an exchange between IPUs: one direction of a gateway, or of the IPU-Links between two neighbours."""

    kind: Literal["gateway", "link"]
    source: int  # an IPU-Machine, or the IPU that sends
    target: int = -1  # the neighbour that receives


def gateway_of(machine_index: int) -> Resource:
    """The gateway of an IPU-Machine, outwards."""
    return Resource("gateway", machine_index)


def link_of(source: int, target: int) -> Resource:
    """The IPU-Links from an IPU to its neighbour."""
    return Resource("link", source, target)


Load = tuple[Channel, int, Resource]
"""A channel, cycles of its use, and what it is of."""


@final
class Resources:
    """The channels of one machine."""

    def __init__(self, machine: MachineSpec) -> None:
        machines = range(machine.num_machines)
        self.to_ipus = tuple(Channel() for _ in machines)  # the host link of each IPU-Machine, towards its IPUs
        self.to_host = tuple(Channel() for _ in machines)  # the same link, the other way
        self.memories = tuple(Channel() for _ in machines)  # the streaming memory of each IPU-Machine, both ways together
        self.between_ipus: dict[Resource, Channel] = {}

    def loads(self, traffic: Mapping[Resource, int]) -> tuple[Load, ...]:
        """Traffic in cycles of each gateway and link, as loads of channels; those that are new are made."""
        return tuple(
            (self.between_ipus.setdefault(resource, Channel()), cycles, resource) for resource, cycles in traffic.items() if cycles
        )

    def all(self) -> Iterable[Channel]:
        """Every channel in use."""
        yield from self.to_ipus
        yield from self.to_host
        yield from self.memories
        yield from self.between_ipus.values()
