"""Sessions of JAX's profiler, as C calls them, on a player that no platform has."""

import time

import pytest
from jax.profiler import ProfileData

from tests.unit.sim.toy import Host, program, superstep
from tilestep import hints
from tilestep.pjrt.running import player as player_module
from tilestep.pjrt.running import timeline
from tilestep.pjrt.running.player import Begin, Player
from tilestep.profiling.profiler import ProfilerSession
from tilestep.profiling.recording import recording
from tilestep.protobuf import bytes_field, int_field
from tilestep.settings import read_settings

pytestmark = pytest.mark.filterwarnings("ignore:builtin type .* has no __module__")  # of JAX's reader; an error would end Python 3.13

WANTED = int_field(1, 1) + int_field(2, 2) + int_field(3, 1) + int_field(4, 1)  # as JAX serialises its defaults
STEP = program(superstep(50))
WITHOUT_DEVICES = int_field(1, 1) + int_field(2, 2)
OF_WALL_TIME = WANTED + bytes_field(14, hints.WALL_TIME_SESSION.encode())


@pytest.fixture(autouse=True)
def no_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings know no player, and hints stay with the process's own."""
    monkeypatch.setattr(hints, "listen", lambda _: None)
    monkeypatch.setattr(player_module, "FORGOTTEN", [])
    monkeypatch.setattr(timeline, "_current", None)
    monkeypatch.setattr(timeline, "_holders", set())


def started() -> tuple[Player, Host]:
    """A platform that has started, and the host program that uses it."""
    host = Host(record=timeline.is_recording())
    player = Player(read_settings({}))
    player.system, player.origin = host.system, Begin(host.start, None)
    timeline.use(player)
    return player, host


def begun(options: bytes = WANTED) -> ProfilerSession:
    session = ProfilerSession(options)
    session.begin()
    return session


def runs(session: ProfilerSession) -> list[int]:
    """Numbers of the runs that a session has seen compute."""
    session.end()
    planes = ProfileData.from_serialized_xspace(session.data()).planes
    events = [event for plane in planes if "IPU 0" in plane.name for line in plane.lines for event in line.events]
    return [int(dict(event.stats)["run"]) for event in events if event.name == "compute (f)"]


def test_a_session_has_what_happens_within() -> None:
    _, host = started()
    host.run(STEP)
    session = begun()
    host.run(STEP)
    host.run(STEP)
    assert runs(session) == [1, 2]
    assert not host.system.record


def test_a_session_in_which_nothing_happens_has_no_data() -> None:
    _, host = started()
    host.run(STEP)
    session = begun()
    session.end()
    assert session.data() == b""


def test_a_session_may_begin_before_the_platform() -> None:
    session = begun()
    _, host = started()
    assert host.system.record
    host.run(STEP)
    assert runs(session) == [0]


def test_a_session_without_a_platform_has_no_data() -> None:
    session = begun()
    session.end()
    assert session.data() == b""
    assert not timeline.is_recording()


def test_sessions_and_profiles_nest() -> None:
    _, host = started()
    outer = begun()
    host.run(STEP)
    with recording() as measure:
        inner = begun()
        host.run(STEP)
        assert runs(inner) == [1]
        host.run(STEP)
        assert [program.runs for program in measure().profile.programs] == [2]
    assert host.system.record
    assert runs(outer) == [0, 1, 2]
    assert not host.system.record


def test_what_an_interrupt_has_ended_may_be_done_again() -> None:
    _, host = started()
    session = begun()
    session.begin()
    host.run(STEP)
    session.end()
    host.run(STEP)
    assert runs(session) == [0]
    assert session.data() == session.data()
    assert not timeline.is_recording()


def test_the_begin_of_emulated_time_is_on_the_wall_clock() -> None:
    _, host = started()
    before = time.time_ns()
    session = begun()
    after = time.time_ns()
    host.run(STEP)
    session.end()
    [event] = next(iter(next(iter(ProfileData.from_serialized_xspace(session.data()).planes)).lines)).events
    assert event.name == "dispatch (f)"
    assert before <= event.start_ns + 1e4
    assert event.start_ns - 1e4 <= after


@pytest.mark.parametrize("options", [WITHOUT_DEVICES, OF_WALL_TIME])
def test_a_session_that_wants_no_emulated_time_gets_none(options: bytes) -> None:
    _, host = started()
    session = begun(options)
    assert not timeline.is_recording()
    host.run(STEP)
    session.end()
    assert session.data() == b""


def test_the_child_of_a_fork_takes_no_timeline() -> None:
    _, host = started()
    session = begun()
    host.run(STEP)
    session._process -= 1  # of the parent
    session.end()
    assert session.data() == b""
    assert not timeline.is_recording()


def test_another_platform_may_have_started_since() -> None:
    """As after clear_backends() with other settings."""
    _, first = started()
    first.run(STEP)
    session = begun()
    first.run(STEP)
    _, second = started()
    second.run(STEP)
    assert runs(session) == [0]
