"""A timeline as TrackEvents of Perfetto (protos/perfetto/trace/track_event), written by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, final

from tilestep.figures.reader import SourceLine
from tilestep.protobuf import bytes_field, int_field, varint
from tilestep.views.export.timeline import Counter, Slice, Timeline, TrackGroup

# Numbers of fields
_TRACE_PACKET = 1
_TIMESTAMP, _TRACK_EVENT, _INTERNED, _SEQUENCE, _FLAGS, _DESCRIPTOR = 8, 11, 12, 10, 13, 60
_UUID, _NAME, _PROCESS, _PARENT, _COUNTER, _ORDERING, _RANK = 1, 2, 3, 5, 8, 11, 12  # of a TrackDescriptor
_PID, _PROCESS_NAME = 1, 6
_UNIT, _UNIT_NAME = 3, 6  # of a CounterDescriptor
_TYPE, _NAME_IID, _CATEGORY_IIDS, _EVENT_TRACK, _ANNOTATION, _SOURCE_IID = 9, 10, 3, 11, 4, 34  # of a TrackEvent
_DOUBLE_VALUE, _COUNTER_VALUE, _FLOW, _FLOW_END = 44, 30, 47, 48
_KEY_IID, _INT_VALUE, _TEXT_VALUE = 1, 4, 6  # of a DebugAnnotation
_CATEGORIES, _EVENT_NAMES, _KEYS, _SOURCES = 1, 2, 3, 4  # of InternedData
_IID, _TEXT = 1, 2  # of an interned text
_FILE, _FUNCTION, _LINE = 2, 3, 4  # of a SourceLocation

_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4  # types of events
_CLEARED, _NEEDS_STATE = 1, 2  # flags of a packet
_BYTES: Final = 3  # unit of a counter
_EXPLICIT: Final = 3  # order of the tracks below one
_ONLY_SEQUENCE: Final = 1
_NEXT_GROUP: Final = 2**32  # numbers of tracks of one group
_MOST_TEXT: Final = 4_000  # characters of one text


def perfetto_trace(timeline: Timeline) -> bytes:
    """The bytes of a .pftrace file."""
    writer = _Writer()
    for position, group in enumerate(timeline.groups):
        writer.group(group, (position + 1) * _NEXT_GROUP)
    return bytes(writer.out)


@final
class _Writer:
    """Writes packets; each text is written once, and numbered from then on."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._numbers: dict[tuple[int, object], int] = {}
        self._new = b""  # interned texts that the next packet has to bring
        self._first = True

    def group(self, group: TrackGroup, uuid: int) -> None:
        process = _int(_PID, max(1, group.number)) + _text(_PROCESS_NAME, group.name)
        self._describe(int_field(_UUID, uuid) + bytes_field(_PROCESS, process) + int_field(_ORDERING, _EXPLICIT))
        for rank, track in enumerate(group.tracks, 1):
            described = int_field(_UUID, uuid + rank) + _text(_NAME, track.name) + int_field(_PARENT, uuid) + int_field(_RANK, rank)
            self._describe(described)
            self._slices(track.slices, uuid + rank)
        for rank, counter in enumerate(group.counters, len(group.tracks) + 1):
            unit = int_field(_UNIT, _BYTES) if counter.unit == "bytes" else _text(_UNIT_NAME, counter.unit)
            head = int_field(_UUID, uuid + rank) + _text(_NAME, counter.name) + int_field(_PARENT, uuid)
            self._describe(head + bytes_field(_COUNTER, unit) + int_field(_RANK, rank))
            self._points(counter, uuid + rank)

    def _slices(self, slices: Sequence[Slice], track: int) -> None:
        ends: list[int] = []  # of the slices that are open
        for each in slices:
            while ends and ends[-1] <= each.begin_ns:
                self._end(ends.pop(), track)
            self._begin(each, track)
            if each.end_ns > each.begin_ns:
                ends.append(each.end_ns)
        while ends:
            self._end(ends.pop(), track)

    def _end(self, time_ns: int, track: int) -> None:
        self._event(time_ns, int_field(_TYPE, _END) + int_field(_EVENT_TRACK, track))

    def _begin(self, each: Slice, track: int) -> None:
        own = int_field(_EVENT_TRACK, track)
        own += int_field(_NAME_IID, self._interned(_EVENT_NAMES, each.name))
        own += int_field(_CATEGORY_IIDS, self._interned(_CATEGORIES, each.category))
        own += b"".join(self._annotations(each))
        own += b"".join(_fixed(_FLOW, flow) for flow in each.flows_out) + b"".join(_fixed(_FLOW_END, flow) for flow in each.flows_in)
        if each.line is not None:
            own += int_field(_SOURCE_IID, self._source(each.line))
        self._event(each.begin_ns, int_field(_TYPE, _BEGIN if each.end_ns > each.begin_ns else _INSTANT) + own)

    def _annotations(self, each: Slice) -> Iterator[bytes]:
        for name, value in each.shown_arguments.items():
            key = int_field(_KEY_IID, self._interned(_KEYS, name))
            shown = _int(_INT_VALUE, value) if isinstance(value, int) else _text(_TEXT_VALUE, value)
            yield bytes_field(_ANNOTATION, key + shown)

    def _points(self, counter: Counter, track: int) -> None:
        for time, value in counter.points:
            own = int_field(_TYPE, _COUNT) + int_field(_EVENT_TRACK, track)
            whole = float(value).is_integer() and 0 <= value < 2**62
            own += int_field(_COUNTER_VALUE, int(value)) if whole else varint(_DOUBLE_VALUE << 3 | 1) + struct.pack("<d", value)
            self._event(time, own)

    def _interned(self, kind: int, text: str) -> int:
        number = self._numbers.get((kind, text))
        if number is None:
            number = self._add(kind, text)
            self._new += bytes_field(kind, int_field(_IID, number) + _text(_TEXT, text))
        return number

    def _source(self, line: SourceLine) -> int:
        key = (line.file, line.function, line.line)
        number = self._numbers.get((_SOURCES, key))
        if number is None:
            number = self._add(_SOURCES, key)
            described = int_field(_IID, number) + _text(_FILE, line.file) + _text(_FUNCTION, line.function) + _int(_LINE, line.line)
            self._new += bytes_field(_SOURCES, described)
        return number

    def _add(self, kind: int, key: object) -> int:
        number = self._numbers[kind, key] = len(self._numbers) + 1
        return number

    def _describe(self, descriptor: bytes) -> None:
        self._packet(bytes_field(_DESCRIPTOR, descriptor))

    def _event(self, time_ns: int, event: bytes) -> None:
        self._packet(int_field(_TIMESTAMP, time_ns) + bytes_field(_TRACK_EVENT, event))

    def _packet(self, content: bytes) -> None:
        flags = _CLEARED | _NEEDS_STATE if self._first else _NEEDS_STATE
        interned, self._new, self._first = bytes_field(_INTERNED, self._new) if self._new else b"", b"", False
        self.out += bytes_field(_TRACE_PACKET, content + interned + int_field(_SEQUENCE, _ONLY_SEQUENCE) + int_field(_FLAGS, flags))


def _text(number: int, text: str) -> bytes:
    return bytes_field(number, text[:_MOST_TEXT].encode("utf-8", "backslashreplace"))


def _int(number: int, value: int) -> bytes:
    return int_field(number, value % 2**64)  # negative ones too


def _fixed(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<Q", value)
