"""The first line of a summary says whether all of it fits, and which tile is the fullest."""

from dataclasses import replace

import pytest

from tests.unit.sim.toy import Host, program, superstep
from tilestep.figures.records import Interval, Need
from tilestep.plan.steps import Program
from tilestep.profiling.measure import profile_between
from tilestep.views.profile import Profile


def sized(name: str, peak_bytes: int) -> Program:
    """A program that needs so many bytes of tile 0, of which the toy has 1000."""
    called = program(superstep(5), name=name)
    return replace(called, memory=replace(called.memory, peak_bytes=peak_bytes))


def profile_of(host: Host, *refused: Need) -> Profile:
    return profile_between(host.system, host.start, host.system.mark(), refused=refused)


def first_line(profile: Profile) -> str:
    return profile.summary(width=200).splitlines()[0]


def test_what_fits_names_the_fullest_tile_of_which_ipu_in_which_program() -> None:
    host = Host(num_ipus=2)
    host.run(sized("small", 300))
    host.run(sized("large", 812), ipu=1)
    profile = profile_of(host)
    assert first_line(profile) == "tilestep: fits: large, the fullest, needs 812 B of the 1000 B of tile 0 of IPU 1 (81 %, 188 B left)"
    assert " emulated on toy (2 IPUs of 4 tiles" in profile.summary().splitlines()[1]
    found = profile.as_document()["verdict"]
    assert found["fits"]
    assert (found["word"], found["what"], found["needed_bytes"], found["available_bytes"]) == ("fits", "large", 812, 1000)


def test_what_does_not_fit_says_by_how_much_and_how_many_others_do_not(host: Host) -> None:
    for name, peak in (("f", 1200), ("g", 1100), ("h", 500)):
        host.run(sized(name, peak))
    profile = profile_of(host)
    expected = "does not fit: f needs 1.17 KiB of the 1000 B of tile 0 of IPU 0 (120 %, 200 B too many); nor does 1 other"
    assert first_line(profile) == f"tilestep: {expected}"
    assert profile.as_document()["verdict"]["text"] == expected
    assert not profile.as_document()["verdict"]["fits"]


def test_a_program_that_was_refused_is_told_though_others_ran(host: Host) -> None:
    host.run(sized("f", 500))
    refused = Need(what="g", where="tile 3 of IPU 0", needed_bytes=2500, available_bytes=1000, ran=False)
    told = "tilestep: does not fit: g needs 2.44 KiB of the 1000 B of tile 3 of IPU 0 (250 %, 1,500 B too many), so it never ran"
    assert first_line(profile_of(host, refused)) == told
    lines = profile_of(Host(), refused).summary(width=200).splitlines()
    assert lines == [told, "Nothing ran on toy (1 IPU of 4 tiles, 0.001 GHz)."]


def test_code_that_a_tile_cannot_execute_does_not_fit_either() -> None:
    host, called = Host(), program(superstep(5))
    host.run(replace(called, memory=replace(called.memory, peak_bytes=800, always=(("vertex code", 700), ("stacks", 100)))))
    assert "does not fit: f needs 700 B of the 500 B of each tile of IPU 0 for code (140 %, 200 B too many)" in first_line(profile_of(host))


def test_a_group_is_as_full_as_its_members_together(host: Host) -> None:
    for name in ("f", "g"):
        host.run(program(superstep(1), name=name, resident_bytes=900), group=("pipeline", 1))
    profile = profile_of(host)
    assert "fits: program group 'pipeline', the fullest, needs 920 B of the 1000 B of a tile of IPU 0" in first_line(profile)
    assert profile.interval is not None
    assert profile.interval.tile == 0.92  # no program alone needs that
    assert first_line(profile).startswith("tilestep: likely fits: ")
    assert "Memory: 92 % of a tile (92 to 100): likely fits." in profile.summary(width=200)


def test_an_interval_that_has_a_full_tile_in_it_makes_it_likely(host: Host) -> None:
    host.run(sized("f", 950))
    profile = profile_of(host)
    sure = Interval(time_s=1, low_s=1, high_s=1, widest="", tile=0.95, low_tile=0.9, high_tile=1.0)
    assert first_line(replace(profile, interval=sure)).startswith("tilestep: fits: f, the fullest")
    likely = replace(profile, interval=replace(sure, high_tile=1.1))
    assert first_line(likely).startswith("tilestep: likely fits: f, the fullest")


@pytest.mark.parametrize(
    ("peak", "says"),
    [(920, "likely fits"), (1001, "likely does not fit"), (1200, "does not fit")],
    ids=["below", "just-above", "far-above"],
)
def test_the_word_is_the_same_wherever_it_stands(host: Host, peak: int, says: str) -> None:
    host.run(sized("f", peak))
    document = profile_of(host).as_document()
    assert document["verdict"]["word"] == says
    assert document["interval"]["text"].endswith(f": {says}.")


def test_what_was_refused_is_as_sure_as_what_ran(host: Host) -> None:
    host.run(sized("f", 500))
    refused = Need(what="g", where="tile 3 of IPU 0", needed_bytes=1001, available_bytes=1000, ran=False)
    assert first_line(profile_of(host, refused)).startswith("tilestep: likely does not fit: g ")
    assert (
        profile_of(host, refused).as_document()["interval"]["text"].endswith("Memory: 100 % of a tile (100 to 109): likely does not fit.")
    )
    alone = profile_of(Host(), refused).as_document()
    assert alone["interval"]["text"] == "Memory: 100 % of a tile (100 to 109): likely does not fit."


def test_a_verdict_on_another_memory_is_not_that_of_the_tile(host: Host) -> None:
    host.run(sized("f", 950))
    refused = Need(what="g", where="each tile of IPU 0 for code", needed_bytes=700, available_bytes=500, of_tile=False, ran=False)
    profile = profile_of(host, refused)
    assert first_line(profile).startswith("tilestep: does not fit: g needs 700 B")  # surely, whatever the fullest tile is
    assert profile.as_document()["interval"]["text"].endswith("Memory: 95 % of a tile (95 to 104).")


def test_of_nothing_there_is_no_verdict() -> None:
    profile = profile_of(Host())
    assert profile.as_document()["verdict"] is None
    assert first_line(profile) == "tilestep: nothing ran on toy (1 IPU of 4 tiles, 0.001 GHz): no program ran on an IPU."
