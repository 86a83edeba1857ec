"""Sessions that somebody else made are found, and stay after their end."""

from __future__ import annotations

from tests.unit.popart.session.emulation.models import Chain, emulated, one_stage
from tilestep.machine import load_machine
from tilestep.popart.session.emulation import Emulation
from tilestep.popart.session.emulation.session_machine import summary, watched_sessions


def session(name: str) -> Emulation:
    return Emulation(load_machine("m2000", num_ipus=1, num_tiles=4), name=name)


def test_each_block_sees_the_sessions_that_are_made_in_it() -> None:
    session("before")
    with watched_sessions() as outer:
        session("first")
        with watched_sessions() as inner:
            session("second")
        session("third")
    session("after")
    assert [notes.name for notes in outer] == ["first", "second", "third"]
    assert [notes.name for notes in inner] == ["second"]


def test_a_block_sees_all_its_sessions_also_when_one_inside_it_saw_the_same() -> None:
    with watched_sessions() as outer:
        with watched_sessions() as inner:
            session("first")
        session("second")
    assert [notes.name for notes in outer] == ["first", "second"]
    assert [notes.name for notes in inner] == ["first"]


def test_the_summary_has_each_session_that_was_prepared() -> None:
    with watched_sessions() as found:
        session("without a program")
        made = emulated(Chain(ipus=[0]), one_stage(), name="with one", calls=1)
        del made
    lines = summary(found).splitlines()
    assert lines[0] == "session 'with one' on m2000"
    assert lines[1].startswith("tilestep: fits: program group 'with one', the fullest, ")
    assert lines[3].endswith("2 program runs")  # the first takes the weights
    assert summary(found[:1]) == ""


def test_the_summary_is_of_the_whole_session_also_after_a_reset() -> None:
    with watched_sessions() as found:
        made = emulated(Chain(ipus=[0]), one_stage(), name="read in between")
        made.reset_profile()
        made.ran()
    assert "1 program run" in made.summary()
    assert summary(found).splitlines()[3].endswith("4 program runs")  # that which takes the weights as well
