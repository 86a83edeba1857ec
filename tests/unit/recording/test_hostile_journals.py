"""A journal from anybody is played again, or refused by a RecordingError in under a second."""

import contextlib
import json
import random
from dataclasses import replace as changed

import numpy as np
import pytest

from tests.bounded import ends_soon
from tests.unit.sim.runs.test_lockstep import at_random
from tests.unit.sim.toy import Host
from tilestep.advice.user_code.lines import host_lines
from tilestep.errors import RecordingError
from tilestep.recording.call_tables import history_of
from tilestep.recording.capture import capture
from tilestep.recording.history import begin_history, history_since
from tilestep.recording.program import RecordedCompilation
from tilestep.recording.replay import with_all_events
from tilestep.recording.schema import TABLES, TEXTS
from tilestep.recording.storage.container import Builder, Tables
from tilestep.recording.sums import SimulationSpan
from tilestep.sim import call_log
from tilestep.sim.calls import Dispatch, Forget, Put, Read, Wait
from tilestep.sim.system import System

CHANGES = 150
LARGE = (-1, 0, 1, 255, 2**31, 2**62, -(2**62))


@pytest.fixture(scope="module")
def recording() -> Tables:
    """A group of programs on four IPUs, from its first call on."""
    host = Host(4, sync_pattern="full")
    system = host.system
    begin_history(system)
    at_random(1, "full", on=host)
    begin = System(system.machine).mark()
    assert system.log is not None
    history = changed(history_since(system, begin_history(system)), snapshot=System(system.machine).snapshot(), calls=system.log.calls())
    builder = Builder(kind="run")
    programs = {key: RecordedCompilation(program=program) for key, program in system.programs.items()}
    capture(builder, SimulationSpan(system=system, begin=begin, end=system.mark(), history=history), programs, runs_in_detail=2)
    machine = json.loads(builder.tables().text("machine"))
    # the machine of a file must be plausible, and the memory of the toy is not
    builder.put_json("machine", {**machine, "ipu.tile.sram_bytes": 4096, "ipu.tile.executable_bytes": 2048})
    return builder.tables()


def with_change(tables: Tables, *, numbers: np.ndarray | None = None, kinds: np.ndarray | None = None, texts: dict[str, str]) -> Tables:
    builder = Builder(kind="run")
    for text in tables.strings:
        builder.string(text)
    replaced = {("numbers", "number"): numbers, ("calls", "call"): kinds}
    for table, columns in TABLES.items():
        if tables.has(table):
            found = {name: replaced.get((table, name)) for name in columns}
            builder.extend(table, **{name: tables.column(table, name) if values is None else values for name, values in found.items()})
    for text in TEXTS:
        if text != "strings" and (value := texts.get(text, tables.text(text))):
            builder.put_text(text, value)
    return builder.tables()


def tried(tables: Tables, case: str) -> None:
    """Plays a recording; whatever is wrong with it must soon be a RecordingError."""
    try:
        with ends_soon(), contextlib.suppress(RecordingError):
            whole = with_all_events(tables)
            for name in TABLES["events"]:
                whole.column("events", name)
    except Exception as error:
        error.add_note(f"of {case}")
        raise


@pytest.mark.slow
def test_changed_numbers_are_played_or_refused(recording: Tables) -> None:
    for seed in range(CHANGES):
        choose = random.Random(seed)
        numbers = recording.column("numbers", "number").copy()
        for _ in range(choose.choice((1, 1, 3, 20))):
            index = choose.randrange(len(numbers))
            numbers[index] = choose.choice((*LARGE, int(numbers[index]) + choose.choice((-1, 1)), choose.randrange(-50, 50)))
        tried(with_change(recording, numbers=numbers, texts={}), f"seed {seed}")


@pytest.mark.parametrize("name", ["snapshot", "call_names"])
def test_changed_texts_are_played_or_refused(recording: Tables, name: str) -> None:
    for seed in range(30):
        changed_text_is_played_or_refused(recording, name, random.Random(seed), f"seed {seed}")


def changed_text_is_played_or_refused(recording: Tables, name: str, choose: random.Random, case: str) -> None:
    document = json.loads(recording.text(name))

    def change(value: object) -> object:
        """Changes one leaf of nested lists."""
        if isinstance(value, list) and value and choose.random() < 0.9:
            index = choose.randrange(len(value))
            return [*value[:index], change(value[index]), *value[index + 1 :]]
        return choose.choice((*LARGE, None, "x", True, [], {}, 0.5))

    tried(with_change(recording, texts={name: json.dumps(change(document))}), case)


def test_more_dispatches_than_a_log_keeps_are_refused(recording: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.recording.replay.MAX_PARTS", 10)
    with pytest.raises(RecordingError, match="dispatch more than 10 parts of programs"):
        with_all_events(recording)


def test_more_numbers_than_a_log_keeps_are_refused(recording: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.recording.call_tables.MAX_NUMBERS", 10)
    with pytest.raises(RecordingError, match="at most 10 are played again"):
        history_of(recording)


def test_a_log_beyond_its_bound_says_that_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_log, "MAX_NUMBERS", 20)
    log = call_log.CallLog()
    for value in range(10):
        log.add(Wait(value))
        log.add(Forget(value))
    assert log.calls().names.complete
    log.add(Wait(1))
    calls = log.calls()
    assert not calls.names.complete
    assert len(calls) == 20


def with_notes(tables: Tables, notes: list[int], lines: object) -> Tables:
    builder = Builder(kind="run")
    for text in tables.strings:
        builder.string(text)
    for table, columns in TABLES.items():
        if tables.has(table) and table != "call_notes":
            builder.extend(table, **{name: tables.column(table, name) for name in columns})
    for text in TEXTS:
        if text != "strings" and (value := tables.text(text)):
            builder.put_text(text, value)
    builder.extend("call_notes", note=notes)
    builder.put_json("call_lines", lines)
    return builder.tables()


def test_notes_of_calls_come_back(recording: Tables) -> None:
    calls = recording.rows("calls")
    history = history_of(with_notes(recording, [1] * calls, [["train.py", 7]]))
    assert list(history.calls.notes) == [1] * calls
    assert history.calls.lines == (("train.py", 7),)
    assert {call.line for call in history.calls if isinstance(call, Dispatch | Read | Wait)} == {("train.py", 7)}
    assert {call.contents for call in history.calls if isinstance(call, Put)} <= {1}
    assert len(history_of(recording).calls.notes) == 0


@pytest.mark.parametrize(
    ("notes", "lines", "message"),
    [
        ([1], [["a.py", 1]], "has notes of 1 calls"),
        ([-1], [["a.py", 1]], "notes of calls go from -1"),
        ([2**40], [["a.py", 1]], "notes of calls go from"),
        ([1], [["a.py"]], "call_lines"),
        ([1], [["a.py", "7"]], "call_lines"),
        ([1], {"a.py": 1}, "call_lines"),
    ],
)
def test_damaged_notes_are_refused(recording: Tables, notes: list[int], lines: object, message: str) -> None:
    many = notes if "has notes of" in message else notes * recording.rows("calls")
    with pytest.raises(RecordingError, match=message):
        history_of(with_notes(recording, many, lines))


def test_a_note_of_a_line_that_is_not_there_is_no_line(recording: Tables) -> None:
    history = history_of(with_notes(recording, [9] * recording.rows("calls"), [["a.py", 1]]))
    assert host_lines(tuple(history.calls)).runs == {}
