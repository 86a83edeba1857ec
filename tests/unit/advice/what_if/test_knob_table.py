"""Which knob matters: the table's figures are those of replays of the whole recording, or it says of which runs."""

import re
from cProfile import Profile

import pytest

from tests.calls import calls_of
from tests.together import each
from tests.unit.advice.what_if.test_outcome import TWO, busy
from tests.unit.figures.reader.recorded import journaled, two_stages
from tests.unit.sim.toy import MACHINE
from tilestep.advice.what_if.knob_table import KnobTable, Turned, answer, knob_table
from tilestep.advice.what_if.knobs import KNOBS, setting_of, turned
from tilestep.advice.what_if.outcome import outcome
from tilestep.errors import SpecError
from tilestep.figures.quantities import share_text
from tilestep.machine.assemble import FIELD_KINDS, value_of
from tilestep.recording.call_tables import history_of
from tilestep.recording.history import History
from tilestep.recording.replay import replay, replay_of_file


def change(history: History, setting: str) -> float:
    """What a setting does to all of a recording."""
    found = outcome(history, {}, [setting_of(setting)])
    return found.turned_cycles / found.cycles - 1


def test_the_row_with_the_largest_effect_is_first() -> None:
    found = knob_table(busy(TWO))
    assert found.basis == ""
    assert [row.effect for row in found.rows] == sorted((row.effect for row in found.rows), reverse=True)
    rows = {row.knob: row for row in found.rows}
    assert rows["host.link"].changes == {"x2": change(busy(TWO), "host.link=x2")}  # no machine has a link as slow as half of the toy's
    assert set(rows["sync.pattern"].changes) == {"singlePipeline", "replicaAndLadder"}
    assert rows["gateway"].effect == 0
    assert {"/2", "x2"} == set(rows["family.matmul"].changes)


@pytest.mark.slow
def test_a_long_journal_is_estimated_from_its_ends_as_changes_of_the_whole() -> None:
    """The first runs hold the load of the program, and the last ones stand for those between: as if all were played."""
    history = history_of(journaled(two_stages(), runs=400))
    found = knob_table(history, most=60_000)
    assert re.fullmatch(r"estimated from the first (\d+) and the last (\d+) of 400 runs", found.basis)
    assert sum(int(number) for number in re.findall(r"\d+", found.basis)[:2]) < 200
    assert found.basis in answer(found)
    assert "; in these runs nothing else saves " in answer(found)
    exact = knob_table(history)
    assert exact.basis == ""
    assert "; nothing else saves " in answer(exact)
    rows = {row.knob: row.changes for row in exact.rows}
    assert rows["host.load"]["x2"] == change(history, "host.load=x2") > 0
    assert rows.keys() == {row.knob for row in found.rows}
    for row in found.rows:
        assert row.changes == pytest.approx(rows[row.knob], abs=0.002)


def row(knob: str, **changes: float) -> Turned:
    return Turned(knob=knob, now="", changes={{"half": "/2", "twice": "x2"}.get(name, name): change for name, change in changes.items()})


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [row("host.link", half=0.6, twice=-0.31), row("host.load", half=-0.04, twice=0.08), row("links", half=0.1, twice=-0.001)],
            "Twice the bandwidth of a host link would save 31 %; nothing else saves more than 4.0 %.",
        ),
        (
            [row("host.latency", half=-0.15, twice=0.3), row("family.matmul", half=-0.13, twice=0.2), row("links", twice=-0.05)],
            "Half the latency of a host transfer would save 15 % and half the time of matmul supersteps 13 %; "  # noqa: ISC004
            "nothing else saves more than 5.0 %.",
        ),
        ([row("sync.pattern", singlePipeline=-0.1)], "The sync pattern 'singlePipeline' would save 10 %; nothing else saves anything."),
        ([row("links", half=0.5, twice=-0.004)], "No knob saves more than 0.4 % when it is halved or doubled."),
        ([row("links", half=0.5)], "No knob saves anything when it is halved or doubled."),
    ],
)
def test_the_answer_names_what_saves_most_and_bounds_the_rest(rows: list[Turned], sentence: str) -> None:
    assert answer(KnobTable(rows=tuple(rows))) == sentence


def test_the_answer_is_what_a_replay_with_the_setting_takes() -> None:
    """Of a recording, and not of made-up rows."""
    history = history_of(journaled(two_stages(), runs=4))
    table = knob_table(history)
    best = max(table.rows, key=lambda row: row.best[1])
    saved = -change(history, f"{best.knob}={best.best[0]}")
    assert answer(table).startswith(("Twice ", "Half "))
    assert f" would save {share_text(saved, 1)}" in answer(table)
    assert all(saved >= row.best[1] for row in table.rows if row is not best)


def test_the_recording_as_it_is_is_played_once() -> None:
    history = busy(TWO)
    with Profile() as calls:
        found = knob_table(history)
    assert calls_of(calls, replay)["evidence.py"] == 1  # nothing is changed there
    assert calls_of(calls, replay_of_file) == {"knob_table.py": sum(len(row.changes) for row in found.rows)}


def test_a_setting_turns_a_field() -> None:
    for text, path, value in (
        ("host.link=x2", "host.to_ipus_bytes_per_second", 2e6),
        ("host.link=x2", "host.to_host_bytes_per_second", 2e6),
        (" host.latency = /4 ", "host.link_latency_seconds", 1.25e-6),
        ("host.load=0.5", "host.load_seconds", 0.5),
        ("host.load_seconds=x0.5", "host.load_seconds", 50e-6),
        ("sync.pattern=singlePipeline", "sync_pattern", "singlePipeline"),
        ("amp=x2", "ipu.macs_per_cycle_float", 32),
        ("amp=/32", "ipu.macs_per_cycle_float", 1),
        ("sram=2048", "ipu.tile.sram_bytes", 2048),
        ("streaming-memory=x3", "host.remote_buffer_bytes_per_second", 3e6),
    ):
        assert value_of(turned(MACHINE, setting_of(text)), path) == value, text


@each(
    "text, problem",
    [
        ("host.link", "must be of the form KNOB=xFACTOR"),
        ("host.lonk=x2", "knob 'host.lonk' does not exist; the nearest that does is 'host.link'"),
        ("nothing=x2", r"knob 'nothing' does not exist \(all: host.link"),
        ("num_ipu=x2", "knob 'num_ipu' does not exist; the nearest that does is 'ipu.num_tiles'"),
        ("num_ipus=2", "knob 'num_ipus' cannot be turned"),
        ("ipu.clock_hz=x2", "knob 'ipu.clock_hz' cannot be turned"),
        ("host.link=x0", "its factor must be more than 0"),
        ("host.link=/0", "its factor must be more than 0"),
        ("host.link=fast", "'fast' is neither a factor, such as x2 or /2, nor a number"),
        ("host.link=nan", "the value must be finite"),
        ("host.link=inf", "the value must be finite"),
        ("sync.pattern=x2", "sync.pattern is a word, full or singlePipeline or replicaAndLadder"),
        ("sync.pattern=some", "sync.pattern must be one of full, singlePipeline, replicaAndLadder"),
        ("family.matmul=3", "the cost of a family is turned by a factor, such as family.matmul=/2"),
    ],
)
def test_a_wrong_setting_is_told(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        setting_of(text)


def test_a_value_out_of_bounds_is_told() -> None:
    with pytest.raises(SpecError, match=r"host.link=x1e\+09: host.to_ipus_bytes_per_second would be 1e\+15 B/s|must be"):
        turned(MACHINE, setting_of("host.link=1"))


def test_a_setting_reads_as_it_was_written() -> None:
    for text in ("host.link=x2", "host.link=/2", "family.matmul=/2", "sync.pattern=full"):
        assert str(setting_of(text)) == text, text


def test_every_knob_turns_fields_that_exist() -> None:
    assert all(path in FIELD_KINDS for knob in KNOBS.values() for path in knob.fields)
    assert all(knob.fields for knob in KNOBS.values())
