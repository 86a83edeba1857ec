"""One direction of a link as a clock of its bookings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, final

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
