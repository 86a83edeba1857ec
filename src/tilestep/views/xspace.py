"""The emulated timeline as an XSpace, the message that profilers of JAX exchange (tsl/profiler/protobuf/xplane.proto).

A plane is a box of lines in a trace viewer, and a line is a row of events. Times are whole picoseconds of emulated time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tilestep.figures.lane_names import lane_name
from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import machine_of
from tilestep.protobuf import Columns, bytes_field, int_field, int_fields, message_fields, stacked
from tilestep.recording.schema import EVENT_KINDS
from tilestep.sim.trace import Lane, LaneKind, Rows

MAX_SESSION_EVENTS: Final = 500_000  # the trace viewer's own bound is a million, the host's events included
MAX_PLANES: Final = 200  # XProf numbers these planes 501 and their ids on, and the host's threads 701
_PS_PER_S: Final = 10**12
_LARGEST: Final = 2**63 - 1

# Numbers of fields
_SPACE_PLANES = 1
_PLANE_ID, _PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STAT_NAMES, _PLANE_STATS = 1, 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_BEGIN_NS, _LINE_EVENTS = 1, 2, 3, 4
_EVENT_NAME, _EVENT_OFFSET_PS, _EVENT_DURATION_PS, _EVENT_STATS = 1, 2, 3, 4
_MAP_KEY, _MAP_VALUE = 1, 2
_METADATA_ID, _METADATA_NAME, _METADATA_STATS = 1, 2, 5
_STAT_NAME, _STAT_NUMBER, _STAT_TEXT = 1, 3, 5

_STATS: Final = {
    name: number for number, name in enumerate(("run", "cycles", "kind", "program", "program key", "time", "clock", "events left out"), 1)
}
_TIME: Final = "emulated: it begins with the session, and says nothing about the time that this host took"
_LEFT_OUT: Final = 1  # the name of the event that says how many there are not; others follow

_GROUPS: Final[tuple[tuple[LaneKind, ...], ...]] = (("host",), ("ipu", "io", "link"), ("to-ipus", "to-host", "memory", "gateway"))


@dataclass(frozen=True, kw_only=True)
class SessionTimeline:
    """What the emulated machine has done in a profiler's session.

    Attributes:
        rows: its events, in the order in which they were worked out.
        num_events: how many there were; the trace may not have kept all.
        lanes: what `rows` numbers as lanes.
        names: of the programs, by key.
        machine: the emulated machine.
        begin_cycle: the host's clock when the session began.
        begin_wall_ns: the same moment on the wall clock, since 1970.
    """

    rows: Rows
    num_events: int
    lanes: Sequence[Lane]
    names: Mapping[int, str]
    machine: MachineSpec
    begin_cycle: int
    begin_wall_ns: int


@dataclass(frozen=True, kw_only=True)
class _Events:
    """The events that a space has: columns of equal length, and what `name` numbers as (kind, key of the program)."""

    lane: NDArray[np.int64]
    name: NDArray[np.int64]
    run: NDArray[np.int64]
    cycles: NDArray[np.int64]
    offset_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    names: Mapping[int, tuple[int, int]]


def xspace(timeline: SessionTimeline, *, max_events: int = MAX_SESSION_EVENTS) -> bytes:
    """A serialised XSpace with a plane for the host, each IPU and each IPU-Machine that did something; b"" if nothing happened.

    It has the first `max_events` events that the trace has kept. If there were more, the first plane has a line that says so.
    """
    events = _events(timeline, max_events)
    if not len(events.lane):
        return b""
    used: list[int] = np.unique(events.lane).tolist()
    planes = _lanes_by_plane([(number, timeline.lanes[number]) for number in used], timeline.machine)
    parts = [_plane(number, name, lanes, events, timeline) for number, (name, lanes) in enumerate(planes.items())]
    if len(events.lane) < timeline.num_events:
        parts[0] += _left_out(len(planes), events, timeline)
    return b"".join(bytes_field(_SPACE_PLANES, part) for part in parts)


def _plane(number: int, name: str, lanes: Sequence[tuple[int, Lane]], events: _Events, timeline: SessionTimeline) -> bytes:
    parts = [int_field(_PLANE_ID, number), bytes_field(_PLANE_NAME, f"/device:CUSTOM:{name} (emulated)".encode())]
    names: set[int] = set()
    for line, (index, lane) in enumerate(lanes, 1):
        here = np.flatnonzero(events.lane == index)
        names |= set(np.unique(events.name[here]).tolist())
        parts.append(_line(line, lane_name(*lane), timeline.begin_wall_ns, _encoded(events, here)))
    parts += [_entry(_PLANE_EVENTS, name, _event_name(name, *events.names[name], timeline.names)) for name in sorted(names)]
    parts += [_entry(_PLANE_STAT_NAMES, stat, _named(stat, name)) for name, stat in _STATS.items()]
    clock = f"{timeline.machine.ipu.clock_hz:,.10g} Hz"
    parts += [bytes_field(_PLANE_STATS, _text("time", _TIME)), bytes_field(_PLANE_STATS, _text("clock", clock))]
    return b"".join(parts)


def _left_out(line: int, events: _Events, timeline: SessionTimeline) -> bytes:
    """Parts of a plane that say how many events are missing: a stat, and a line with one event, which viewers show."""
    left_out = timeline.num_events - len(events.lane)
    end_ps = int((events.offset_ps + events.duration_ps).max())
    span = int_field(_EVENT_NAME, _LEFT_OUT) + int_field(_EVENT_OFFSET_PS, 0) + int_field(_EVENT_DURATION_PS, end_ps)
    told = f"{left_out:,} of {timeline.num_events:,} events are left out"
    return (
        _line(line, "left out", timeline.begin_wall_ns, bytes_field(_LINE_EVENTS, span))
        + _entry(_PLANE_EVENTS, _LEFT_OUT, _named(_LEFT_OUT, told))
        + bytes_field(_PLANE_STATS, _number("events left out", left_out))
    )


def _events(timeline: SessionTimeline, max_events: int) -> _Events:
    rows = Rows(*(column[:max_events] for column in timeline.rows))
    clock = Fraction(timeline.machine.ipu.clock_hz)
    begin = int(rows.start.min(initial=timeline.begin_cycle))  # an array that another thread uploads may have been there before

    def picoseconds(cycles: NDArray[np.int64]) -> NDArray[np.object_]:
        """Rounded down, so that events that touch still do."""
        return (cycles - begin).astype(object) * (_PS_PER_S * clock.denominator) // clock.numerator

    start, end = picoseconds(rows.start), picoseconds(rows.end)
    fits = end <= _LARGEST  # some hundred days
    start, end = start[fits].astype(np.int64), end[fits].astype(np.int64)
    rows = Rows(*(column[fits] for column in rows))
    kinds = len(EVENT_KINDS)
    pairs, name = np.unique(rows.key * kinds + rows.kind, return_inverse=True)
    return _Events(
        lane=rows.lane,
        name=name + _LEFT_OUT + 1,
        run=rows.run,
        cycles=rows.end - rows.start,
        offset_ps=start,
        duration_ps=end - start,
        names={number: (pair % kinds, pair // kinds) for number, pair in enumerate(pairs.tolist(), _LEFT_OUT + 1)},
    )


def _lanes_by_plane(lanes: Sequence[tuple[int, Lane]], machine: MachineSpec) -> dict[str, list[tuple[int, Lane]]]:
    """The lanes, with their numbers, by the name of their plane.

    A plane for each IPU would be too many on a large machine: there the lanes of an IPU are in the plane of its IPU-Machine.
    """
    in_order = sorted(lanes, key=lambda item: _order(item[1]))
    for by_ipu in (True, False):
        planes: dict[str, list[tuple[int, Lane]]] = {}
        for number, lane in in_order:
            planes.setdefault(_plane_name(lane, machine, by_ipu=by_ipu), []).append((number, lane))
        if len(planes) <= MAX_PLANES:
            break
    return planes


def _plane_name(lane: Lane, machine: MachineSpec, *, by_ipu: bool) -> str:
    match lane.kind:
        case "host":
            return "host"
        case "ipu" | "io" | "link":
            return f"IPU {lane.number}" if by_ipu else f"IPU-Machine {machine_of(machine, lane.number)}"
        case _:
            return f"IPU-Machine {lane.number}"


def _order(lane: Lane) -> tuple[int, int, int, int]:
    """The host first, then each IPU with what is its own, then each IPU-Machine."""
    group, kinds = next((group, kinds) for group, kinds in enumerate(_GROUPS) if lane.kind in kinds)
    return group, lane.number, kinds.index(lane.kind), lane.target


def _line(number: int, title: str, begin_wall_ns: int, events: bytes) -> bytes:
    head = int_field(_LINE_ID, number) + bytes_field(_LINE_NAME, f"{title} (emulated time)".encode())
    return bytes_field(_PLANE_LINES, head + int_field(_LINE_BEGIN_NS, begin_wall_ns) + events)


def _encoded(events: _Events, here: NDArray[np.intp]) -> bytes:
    """The events with the indices `here`, as fields of their line."""
    run = events.run[here]
    numbered = stacked(
        int_fields(_EVENT_NAME, events.name[here]),
        int_fields(_EVENT_OFFSET_PS, events.offset_ps[here]),
        int_fields(_EVENT_DURATION_PS, events.duration_ps[here]),
        _numbers("cycles", events.cycles[here]),
        _numbers("run", np.maximum(run, 0)).only(run >= 0),
    )
    return message_fields(_LINE_EVENTS, numbered).join()


def _numbers(stat: str, values: NDArray[np.int64]) -> Columns:
    name = int_fields(_STAT_NAME, np.full(len(values), _STATS[stat]))
    return message_fields(_EVENT_STATS, stacked(name, int_fields(_STAT_NUMBER, values)))


def _event_name(number: int, kind: int, key: int, programs: Mapping[int, str]) -> bytes:
    """The name of events of one kind and program; key -1 is no program's."""
    program, what = programs.get(key, ""), EVENT_KINDS[kind]
    named = _named(number, f"{what} ({program})" if program else what) + bytes_field(_METADATA_STATS, _text("kind", what))
    if program:
        named += bytes_field(_METADATA_STATS, _text("program", program)) + bytes_field(_METADATA_STATS, _number("program key", key))
    return named


def _named(number: int, name: str) -> bytes:
    return int_field(_METADATA_ID, number) + bytes_field(_METADATA_NAME, name.encode("utf-8", "replace"))


def _entry(field: int, key: int, value: bytes) -> bytes:
    return bytes_field(field, int_field(_MAP_KEY, key) + bytes_field(_MAP_VALUE, value))


def _text(stat: str, value: str) -> bytes:
    return int_field(_STAT_NAME, _STATS[stat]) + bytes_field(_STAT_TEXT, value.encode("utf-8", "replace"))


def _number(stat: str, value: int) -> bytes:
    return int_field(_STAT_NAME, _STATS[stat]) + int_field(_STAT_NUMBER, value)
