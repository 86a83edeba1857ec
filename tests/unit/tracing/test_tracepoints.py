"""Tracepoints: spans nest in their thread, are counted exactly, and are nothing at all in a process that is not traced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from tilestep.tracing import channels, create_channel, event, heat_map, list_channels, logs, series, trace_calls, tracepoint
from tilestep.tracing.channels import disable_channel, enable_channel, is_channel_enabled
from tilestep.tracing.logs import Logs, Span


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    """This process is traced, by nobody who fetches."""
    monkeypatch.setattr(channels, "_channels", dict(channels._channels))
    channels.set_traced(lambda _: True)
    monkeypatch.setattr(logs, "current", made := Logs(lambda _: None))
    yield made
    channels.set_traced(None)


def taken(found: Logs) -> list[Span]:
    return [span for _, _, spans in found.take().spans for span in spans]


def labels(found: Logs) -> list[tuple[str, int]]:
    """(label, depth) in the order of their ends."""
    return [(label, depth) for label, _, _, _, depth in taken(found)]


def test_a_block_is_a_span_inside_of_those_around_it(traced: Logs) -> None:
    with tracepoint("outer"):
        for _ in range(2):
            with tracepoint("inner", channel="Mine"):
                event("Loss=1")
    spans = taken(traced)
    assert [(span[0], span[1], span[4]) for span in spans] == [
        ("Loss=1", "User", 2),
        ("inner", "Mine", 1),
        ("Loss=1", "User", 2),
        ("inner", "Mine", 1),
        ("outer", "User", 0),
    ]
    outer = spans[-1]
    assert all(outer[2] <= start and start + duration <= outer[2] + outer[3] for _, _, start, duration, _ in spans)


def test_a_block_that_raises_is_a_span(traced: Logs) -> None:
    with pytest.raises(KeyError), tracepoint("fails"):
        raise KeyError
    assert labels(traced) == [("fails", 0)]


def test_a_function_may_be_decorated_with_a_name_or_without(traced: Logs) -> None:
    @tracepoint
    def plain(a: int, *, b: int = 2) -> int:
        """Adds."""
        return a + b

    @tracepoint("named")
    def named() -> int:
        return plain(1)

    assert (named(), plain(3, b=4)) == (3, 7)
    assert (plain.__name__, plain.__doc__) == ("plain", "Adds.")
    qualified = "test_a_function_may_be_decorated_with_a_name_or_without.<locals>.plain"
    assert labels(traced) == [(qualified, 1), ("named", 0), (qualified, 0)]


def test_one_object_may_be_entered_again_inside_of_itself(traced: Logs) -> None:
    again = tracepoint("again")
    with again, again:
        pass
    assert labels(traced) == [("again", 1), ("again", 0)]


def test_begin_and_end_are_a_span(traced: Logs) -> None:
    tracepoint.begin("outer")
    tracepoint.begin("inner", channel="Mine")
    tracepoint.end("inner")
    tracepoint.end("outer")
    assert labels(traced) == [("inner", 1), ("outer", 0)]


def test_an_end_without_a_begin_in_this_thread_warns_and_ends_nothing(traced: Logs) -> None:
    begun = threading.Thread(target=tracepoint.begin, args=("theirs",))
    begun.start()
    begun.join()
    with tracepoint("mine"), pytest.warns(RuntimeWarning, match=r"tracepoint.end\('theirs'\): this thread has begun no such span"):
        tracepoint.end("theirs")
    with tracepoint("mine"), pytest.warns(RuntimeWarning, match=r"tracepoint.end\('mine'\)"):
        tracepoint.end("mine")  # begun by `with`
    assert labels(traced) == [("mine", 0), ("mine", 0)]


def test_threads_count_exactly_and_have_their_names(traced: Logs) -> None:
    def work() -> None:
        for _ in range(1000):
            with tracepoint("outer"), tracepoint("inner"):
                pass

    threads = [threading.Thread(target=work, name=f"worker {number}") for number in range(4)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    spans = traced.take().spans
    assert sorted(name for _, name, _ in spans) == ["MainThread", *(f"worker {number}" for number in range(4))]
    assert all(len(found) == 2000 for _, _, found in spans)
    assert len({tid for tid, _, _ in spans}) == 5


def test_logs_of_ended_threads_are_forgotten_once_fetched(traced: Logs) -> None:
    for _ in range(3):
        thread = threading.Thread(target=lambda: event("here"))
        thread.start()
        thread.join()
    assert len(traced.take().spans) == 3
    assert not traced.take().spans
    assert [log.name for log in traced._logs] == ["MainThread"]


def test_what_has_begun_and_not_ended_ends_with_the_recording(traced: Logs) -> None:
    with tracepoint("outer"), tracepoint("inner"):
        now = traced.local.log.stack[-1][1] + 500
        traced.end_open(now)
    spans = taken(traced)
    assert [(label, start + duration) for label, _, start, duration, _ in spans[:2]] == [("outer", now), ("inner", now)]


def test_a_channel_that_is_off_records_nothing_and_what_has_begun_still_ends(traced: Logs) -> None:
    mine = create_channel("Mine")
    with tracepoint("before", channel=mine):
        disable_channel("mine")
        with tracepoint("off", channel=mine):
            enable_channel(mine)
        event("on", channel=mine)
    assert labels(traced) == [("on", 1), ("before", 0)]


def test_channels_are_listed_in_the_order_of_their_creation(traced: Logs) -> None:
    assert create_channel("Mine") is create_channel(" MINE ")
    disable_channel("Poplar")
    assert list_channels() == [("Drivers", True), ("Poplar", False), ("Framework", True), ("User", True), ("Mine", True)]
    assert is_channel_enabled("framework")


@pytest.mark.parametrize("name", ["", "  ", "x" * 1001])
def test_a_channel_needs_a_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"the name of a channel is .*: it must have 1 to 1,000 characters"):
        create_channel(name)


def test_series_and_heat_maps_keep_what_is_added(traced: Logs) -> None:
    loss, norms = series("Loss", "nats"), heat_map("Norms", [0, 0.5, 1], "1")
    loss.add(np.float32(0.5))
    loss.add(np.inf)
    norms.add([[-1, 0.0], [0.2, 1.0]])
    norms.add(np.nan)
    found = traced.take()
    assert [(line.name, line.graph, line.unit, value) for line, _, value in found.points] == [
        ("Loss", "Loss", "nats", 0.5),
        ("Loss", "Loss", "nats", np.inf),
    ]
    assert [(cells, times) for _, _, cells, times in found.heat] == [([0, 1, 3], [1, 2, 1]), ([3], [1])]
    assert found.rows == 6


def test_whole_classes_modules_and_objects_may_be_traced(traced: Logs) -> None:
    class Loader:
        """Loads."""

        def load(self, path: str) -> str:
            return self.opened(path)

        @staticmethod
        def opened(path: str) -> str:
            return path

        @classmethod
        def make(cls) -> Loader:
            return cls()

    class Plain:
        def run(self) -> int:
            return 1

    prefix = "test_whole_classes_modules_and_objects_may_be_traced.<locals>."
    assert trace_calls(Loader, channel="Mine") is Loader
    assert Loader.make().load("a") == "a"
    assert labels(traced) == [(f"{prefix}Loader.make", 0), (f"{prefix}Loader.opened", 1), (f"{prefix}Loader.load", 0)]
    one, other = Plain(), Plain()
    trace_calls(one)
    assert one.run() + other.run() == 2
    assert labels(traced) == [(f"{prefix}Plain.run", 0)]
    module = ModuleType("mine")
    exec("from math import sqrt\ndef f():\n    return sqrt(4)", vars(module))
    assert trace_calls(module).f() == 2
    assert labels(traced) == [("f", 0)]
    with pytest.raises(TypeError, match=r"trace_calls\(\) is given 3, which takes no attributes"):
        trace_calls(3)


def test_much_that_waits_is_told_and_too_much_holds_the_thread_up(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr(logs, "ROWS_OF_A_PIECE", 3)
    monkeypatch.setattr(logs, "_MOST_ROWS", 5)
    found = Logs(told.append)
    for _ in range(5):
        found.note(found.local.log, ("a", "User", 1, 1, 0))
    assert told == [False, False, True]
    assert found.much_waits


# ------------------------------------------------------------------------------------------------------- not traced


def test_a_process_that_is_not_traced_has_one_tracepoint_which_does_nothing() -> None:
    assert tracepoint("a") is tracepoint("b", channel="Mine")
    with tracepoint("a"):
        event("b")
    tracepoint.begin("a")
    tracepoint.end("b")
    series("Loss").add("no number")  # it is not looked at
    heat_map("Norms", [0.0]).add("no number")
    assert not any(is_enabled for _, is_enabled in list_channels())
    enable_channel("User")
    assert not is_channel_enabled("User")


@pytest.mark.parametrize("value", [int, property(lambda _: 1)])
@pytest.mark.parametrize("is_traced", [False, True])
def test_what_a_function_must_not_replace_is_refused(is_traced: bool, value: object, request: pytest.FixtureRequest) -> None:
    if is_traced:
        request.getfixturevalue("traced")
    for decorate in (tracepoint, tracepoint("part")):
        with pytest.raises(TypeError, match=r"a tracepoint is above <(class|property).*: put it above functions and methods"):
            decorate(value)  # type: ignore[call-overload]
