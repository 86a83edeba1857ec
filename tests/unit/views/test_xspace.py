"""Emulated timelines as the messages of JAX's profiler, parsed by JAX's own reader."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from jax.profiler import ProfileData

from tests.unit.sim.toy import Host, machine, program, superstep
from tilestep.machine.spec import MachineSpec
from tilestep.protobuf import fields
from tilestep.recording.schema import EVENT_KINDS, LANE_KINDS
from tilestep.sim.trace import Lane, Rows
from tilestep.views.xspace import SessionTimeline, xspace

pytestmark = pytest.mark.filterwarnings("ignore:builtin type .* has no __module__")  # of JAX's reader; an error would end Python 3.13

STEP = program(superstep(50, 20, 10), name="step", takes=(200, 30), gives=(200, 4))
PS_PER_CYCLE = 10**6  # of the toy machine
COMPUTE, TRANSFER = EVENT_KINDS.index("compute"), EVENT_KINDS.index("transfer")
Line = list[tuple[str, int, int, dict[str, Any]]]


def timeline(
    *events: tuple[int, int, int, int, int, int],
    lanes: Sequence[Lane] = (Lane("ipu", 0),),
    names: Mapping[int, str] = {7: "step"},
    of: MachineSpec | None = None,
    num_events: int | None = None,
    begin_cycle: int = 0,
) -> SessionTimeline:
    """Args: events: (lane, kind, start, end, run, key) of each."""
    columns = [np.array(column, np.int64) for column in zip(*events, strict=True)] or [np.zeros(0, np.int64)] * 6
    lane, kind, start, end, run, key = columns
    order = np.arange(len(events))
    return SessionTimeline(
        rows=Rows(number=order, lane=lane, kind=kind, start=start, end=end, run=run, key=key, cause=np.full(len(events), -1)),
        num_events=len(events) if num_events is None else num_events,
        lanes=lanes,
        names=names,
        machine=machine(1) if of is None else of,
        begin_cycle=begin_cycle,
        begin_wall_ns=0,
    )


def of_host(host: Host) -> SessionTimeline:
    """Everything that the host did."""
    end = host.system.mark()
    return SessionTimeline(
        rows=host.system.rows_between(host.start, end),
        num_events=end.position - host.start.position,
        lanes=host.system.lanes,
        names={key: found.name for key, found in host.system.programs.items()},
        machine=host.system.machine,
        begin_cycle=host.start.host_cycle,
        begin_wall_ns=0,
    )


def parsed(data: bytes) -> dict[str, dict[str, Line]]:
    """(name, start, duration, stats) of each event, in picoseconds, by plane and line."""
    return {
        plane.name: {
            line.name: [(e.name, round(e.start_ns * 1000), round(e.duration_ns * 1000), dict(e.stats)) for e in line.events]
            for line in plane.lines
        }
        for plane in ProfileData.from_serialized_xspace(data).planes
    }


def raw_events(data: bytes) -> list[tuple[int, int]]:
    """(offset, duration) of each event, as whole picoseconds: JAX's reader has floats."""
    planes = [value for _, value in fields(data) if isinstance(value, bytes)]
    lines = [value for plane in planes for number, value in fields(plane) if number == 3 and isinstance(value, bytes)]
    events = [dict(fields(value)) for line in lines for number, value in fields(line) if number == 4 and isinstance(value, bytes)]
    return [(int(event.get(2, 0)), int(event.get(3, 0))) for event in events]


def test_without_events_there_is_nothing() -> None:
    assert xspace(timeline()) == b""


def test_each_lane_is_a_line_in_the_plane_of_what_it_belongs_to() -> None:
    lanes = [Lane("host"), Lane("ipu", 1), Lane("io", 1), Lane("link", 1, 2), Lane("link", 1, 0)]
    lanes += [Lane(kind, 0) for kind in ("gateway", "memory", "to-host", "to-ipus")]
    assert {lane.kind for lane in lanes} == set(LANE_KINDS)
    planes = parsed(xspace(timeline(*((lane, COMPUTE, 0, 1, 0, 7) for lane in range(len(lanes))), lanes=lanes, of=machine(4))))
    assert {plane: list(lines) for plane, lines in planes.items()} == {
        "/device:CUSTOM:host (emulated)": ["host (emulated time)"],
        "/device:CUSTOM:IPU 1 (emulated)": [
            "IPU 1 (emulated time)",
            "I/O tiles of IPU 1 (emulated time)",
            "IPU-Link from IPU 1 to IPU 0 (emulated time)",
            "IPU-Link from IPU 1 to IPU 2 (emulated time)",
        ],
        "/device:CUSTOM:IPU-Machine 0 (emulated)": [
            "host link to IPU-Machine 0 (emulated time)",
            "host link from IPU-Machine 0 (emulated time)",
            "streaming memory of IPU-Machine 0 (emulated time)",
            "gateway of IPU-Machine 0 (emulated time)",
        ],
    }


def test_a_lane_without_events_has_no_line() -> None:
    planes = parsed(xspace(timeline((1, COMPUTE, 0, 1, 0, 7), lanes=[Lane("ipu", 0), Lane("ipu", 1)], of=machine(2))))
    assert list(planes) == ["/device:CUSTOM:IPU 1 (emulated)"]


def test_events_have_names_times_and_stats() -> None:
    [plane] = parsed(xspace(timeline((0, COMPUTE, 100, 150, 3, 7), (0, TRANSFER, 150, 152, -1, -1), begin_cycle=90))).values()
    [line] = plane.values()
    assert line == [
        ("compute (step)", 10 * PS_PER_CYCLE, 50 * PS_PER_CYCLE, {"cycles": 50, "run": 3}),
        ("transfer", 60 * PS_PER_CYCLE, 2 * PS_PER_CYCLE, {"cycles": 2}),
    ]


def test_a_plane_says_that_its_time_is_emulated_and_how_fast_its_clock_is() -> None:
    [plane] = ProfileData.from_serialized_xspace(xspace(timeline((0, COMPUTE, 0, 1, 0, 7)))).planes
    stats = dict(plane.stats)
    assert stats["clock"] == "1,000,000 Hz"
    assert str(stats["time"]).startswith("emulated: it begins with the session")
    assert "events left out" not in stats


def test_two_programs_of_one_name_keep_their_keys() -> None:
    data = xspace(timeline((0, COMPUTE, 0, 1, 0, 7), (0, COMPUTE, 1, 2, 1, 8), names={7: "step", 8: "step"}))
    [plane] = [value for _, value in fields(data) if isinstance(value, bytes)]
    names = [dict(fields(value))[2] for number, value in fields(plane) if number == 4 and isinstance(value, bytes)]
    assert len(names) == 2
    assert names[0] != names[1]


@pytest.mark.parametrize("clock_hz", [1.85e9, 1.33e9, 1e6, 3.0, 1.5, 0.7e9 / 3])
def test_times_are_whole_exact_and_touch_where_cycles_do(clock_hz: float) -> None:
    ends = np.cumsum(np.random.default_rng(1).integers(1, 10**9, 300)).tolist()
    if clock_hz < 1e6:
        ends = list(range(1, 300))
    toy = machine(1)
    spans = list(zip([0, *ends], ends, strict=False))
    found = raw_events(
        xspace(timeline(*((0, COMPUTE, a, b, 0, 7) for a, b in spans), of=replace(toy, ipu=replace(toy.ipu, clock_hz=clock_hz))))
    )
    exact = Fraction(10**12) / Fraction(clock_hz)
    assert [offset for offset, _ in found] == [int(start * exact) for start, _ in spans]
    assert all(a + duration == b for (a, duration), (b, _) in itertools.pairwise(found))
    assert all(abs(duration - (end - start) * exact) < 1 for (_, duration), (start, end) in zip(found, spans, strict=True))


def test_an_event_from_before_the_session_moves_the_begin() -> None:
    assert raw_events(xspace(timeline((0, COMPUTE, 80, 100, 0, 7), (0, COMPUTE, 100, 101, 0, 7), begin_cycle=90))) == [
        (0, 20 * PS_PER_CYCLE),
        (20 * PS_PER_CYCLE, PS_PER_CYCLE),
    ]


def test_what_the_trace_has_not_kept_is_told() -> None:
    data = xspace(timeline((0, COMPUTE, 0, 5, 0, 7), (0, COMPUTE, 5, 9, 0, 7), num_events=12_345))
    [plane] = ProfileData.from_serialized_xspace(data).planes
    assert dict(plane.stats)["events left out"] == 12_343
    assert parsed(data)[plane.name]["left out (emulated time)"] == [("12,343 of 12,345 events are left out", 0, 9 * PS_PER_CYCLE, {})]


def test_no_more_events_than_the_bound_are_sent_and_only_the_first_plane_says_so() -> None:
    lanes = [Lane("ipu", 0), Lane("ipu", 1)]
    events = [(n % 2, COMPUTE, n, n + 1, n, 7) for n in range(10)]
    planes = parsed(xspace(timeline(*events, lanes=lanes, of=machine(2)), max_events=4))
    assert [[len(events) for events in lines.values()] for lines in planes.values()] == [[2, 1], [2]]
    assert planes["/device:CUSTOM:IPU 0 (emulated)"]["left out (emulated time)"][0][0] == "6 of 10 events are left out"


def test_events_beyond_the_formats_last_picosecond_are_left_out() -> None:
    last = (2**63 - 1) // PS_PER_CYCLE
    data = xspace(timeline((0, COMPUTE, 0, last, 0, 7), (0, COMPUTE, last, last + 1, 0, 7)))
    assert raw_events(data)[0] == (0, last * PS_PER_CYCLE)
    assert "1 of 2 events are left out" in {name for lines in parsed(data).values() for line in lines.values() for name, *_ in line}


@pytest.mark.parametrize("name", ["", "ünï</script>", "a\x00b", "\ud800", "x" * 100_000])
def test_any_name_of_a_program_is_taken(name: str) -> None:
    [plane] = parsed(xspace(timeline((0, COMPUTE, 0, 1, 0, 7), names={7: name}))).values()
    told = name.encode("utf-8", "replace").decode()
    assert [event[0] for line in plane.values() for event in line] == [f"compute ({told})" if name else "compute"]


def test_the_durations_of_a_simulation_are_its_cycles() -> None:
    host = Host(2)
    state, _ = host.run(STEP, host.put(200), host.put(30))
    host.run(STEP, state, host.put(30))
    host.system.wait(state)
    planes = parsed(xspace(of_host(host)))
    events = host.system.trace.events
    [tiles] = [lines["IPU 0 (emulated time)"] for plane, lines in planes.items() if "IPU 0" in plane]
    assert [(name, duration // PS_PER_CYCLE, stats["cycles"], stats["run"]) for name, _, duration, stats in tiles] == [
        (f"{event.kind} ({event.program})", event.end_cycle - event.start_cycle, event.end_cycle - event.start_cycle, event.run)
        for event in events
    ]
    for lines in planes.values():
        for line in lines.values():
            assert all(a[1] + a[2] <= b[1] for a, b in itertools.pairwise(line))
