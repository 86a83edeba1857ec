"""What one IPU did in one run, without a gap: transfers, each leaf's compute, exchange and sync, and waits between."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tilestep.figures.reader.programs.nodes import ProgramLeaf
from tilestep.figures.reader.runs.events import Event
from tilestep.figures.reader.runs.layout import NO_CUT, Laid
from tilestep.sim.cycles.body import BodyCycles

Lay = Callable[[Callable[[ProgramLeaf], int]], Iterator[Laid]]
WAIT: Final = "waiting"
BODY: Final = ("compute", "exchange", "sync")  # kinds that follow each other at the begin of a run's own work


@dataclass(frozen=True, kw_only=True)
class Span:
    """A part of a run on one IPU.

    Attributes:
        kind: of the event that it is a part of, or 'waiting'.
        cycles_from: first cycle.
        cycles_to: the cycle behind the last.
        leaf: whose work it is; None: of none, such as a transfer of arguments, or the wait for a link.
        times: executions of the leaf that it holds.
        cut: the smallest depth of scopes at which an iteration of a loop has begun since the span before, of a leaf.
    """

    kind: str
    cycles_from: int
    cycles_to: int
    leaf: ProgramLeaf | None = None
    times: int = 1
    cut: int = NO_CUT

    @property
    def cycles(self) -> int:
        """How long it took."""
        return self.cycles_to - self.cycles_from


def own_cycles(leaf: ProgramLeaf) -> int:
    """Cycles of one execution within the IPU."""
    return 0 if leaf.cycles is None else leaf.cycles.supersteps


def spans_of_run(events: Sequence[Event], lay: Lay, expected: BodyCycles) -> Iterator[Span]:
    """The spans of one run on one IPU. They follow each other without a gap, from its first event to its last.

    A simulation adds up the work of a run within its IPU, then its exchanges with other IPUs, then its host calls. The leaves lie within
    these sums, in their order. What else is in a sum (a new layout of an argument, the wait for a link) has no leaf.

    Args:
        events: of the run and the IPU, in order of time.
        lay: lays the run's leaves one after the other, given the cycles of each.
        expected: cycles of all leaves together.
    """
    clock, index = events[0].cycles_from if events else 0, 0
    done = {"body": False, "collective": False, "host-call": False}
    while index < len(events):
        event = events[index]
        if event.cycles_from > clock:
            yield Span(kind=WAIT, cycles_from=clock, cycles_to=event.cycles_from)
        begin, clock = max(event.cycles_from, clock), max(event.cycles_to, clock)
        index += 1
        if event.kind in BODY and not done["body"]:
            done["body"] = True
            behind = _body_end(events, index - 1)
            parts, index, clock = events[index - 1 : behind], behind, events[behind - 1].cycles_to
            yield from _cut(_body(begin, parts, lay, expected), begin, clock)
        elif event.kind == "collective" and done["body"] and not done["collective"]:
            done["collective"] = True
            yield from _cut(_share(begin, clock, event.kind, lay(_collective), expected.collective), begin, clock)
        elif event.kind == "host-call" and not done["host-call"]:
            done["host-call"] = True
            yield from _cut(_share(begin, clock, event.kind, lay(_host_call), expected.host_call), begin, clock)
        elif clock > begin:
            yield Span(kind=event.kind, cycles_from=begin, cycles_to=clock)


def _collective(leaf: ProgramLeaf) -> int:
    return 0 if leaf.cycles is None else leaf.cycles.collective


def _host_call(leaf: ProgramLeaf) -> int:
    return 0 if leaf.cycles is None else leaf.cycles.host_call


def _body(begin: int, parts: Sequence[Event], lay: Lay, expected: BodyCycles) -> Iterator[Span]:
    """Each leaf's sync, exchange and compute; before them what is in the sums beside."""
    spent = {part.kind: part.cycles for part in parts}
    for kind, of_leaves in (("exchange", expected.exchange), ("sync", expected.sync), ("compute", expected.compute)):
        more = spent.get(kind, 0) - of_leaves
        if more > 0:
            yield Span(kind=kind, cycles_from=begin, cycles_to=begin + more)
            begin += more
    for leaf, times, offset, _, cut in lay(own_cycles):
        assert leaf.cycles is not None  # those without never run
        clock = begin + offset
        for kind, cycles in (("sync", leaf.cycles.sync), ("exchange", leaf.cycles.exchange), ("compute", leaf.cycles.compute)):
            if cycles:
                yield Span(kind=kind, cycles_from=clock, cycles_to=clock + times * cycles, leaf=leaf, times=times, cut=cut)
                clock, cut = clock + times * cycles, NO_CUT


def _share(begin: int, end: int, kind: str, laid: Iterator[Laid], expected: int) -> Iterator[Span]:
    """Divides an event among leaves. If they would take longer alone, something hides a part of each; if they take less, one waits."""
    length = end - begin
    if not expected:
        yield Span(kind=kind, cycles_from=begin, cycles_to=end)
        return
    given = min(length, expected)
    for leaf, times, offset, cycles, cut in laid:
        first, last = (begin + place * given // expected for place in (offset, offset + cycles))
        if last > first:
            yield Span(kind=kind, cycles_from=first, cycles_to=last, leaf=leaf, times=times, cut=cut)
    if length > given:
        yield Span(kind=kind, cycles_from=begin + given, cycles_to=end)


def _cut(spans: Iterator[Span], begin: int, end: int) -> Iterator[Span]:
    """The spans up to a cycle, and a span without a leaf for what they leave: a recording of another version may price steps otherwise."""
    clock = begin
    for span in spans:
        if span.cycles_from >= end:
            return
        clock = min(span.cycles_to, end)
        yield span if span.cycles_to <= end else replace(span, cycles_to=end)
    if clock < end:
        yield Span(kind=BODY[0], cycles_from=clock, cycles_to=end)


def _body_end(events: Sequence[Event], first: int) -> int:
    """Behind the last of the events that are compute, exchange and sync in this order, one beginning where the other ends."""
    behind = first + 1
    while (
        behind < len(events)
        and events[behind].kind in BODY
        and BODY.index(events[behind].kind) > BODY.index(events[behind - 1].kind)
        and events[behind].cycles_from == events[behind - 1].cycles_to
    ):
        behind += 1
    return behind
