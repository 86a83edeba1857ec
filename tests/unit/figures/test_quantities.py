"""Numbers, intervals, paths and scopes for people."""

from dataclasses import replace

import pytest

from tilestep.figures.intervals import ModelErrors
from tilestep.figures.paths import relative_paths
from tilestep.figures.quantities import bytes_text, count_text, names_text, share_text, time_text
from tilestep.figures.reader.runs.blocks import scopes_of
from tilestep.figures.records import Interval
from tilestep.figures.scopes import parts_of, short_scope, told_scope
from tilestep.machine import load_machine


def test_times() -> None:
    for seconds, text in (
        (0, "0 s"),
        (1.234e-9, "1.23 ns"),
        (5e-13, "0.00 ns"),
        (45.6e-6, "45.6 µs"),
        (0.123, "123 ms"),
        (1, "1.00 s"),
        (119.7, "120 s"),
        (150, "2.5 min"),
        (7200, "2.0 h"),
    ):
        assert time_text(seconds) == text, seconds


def test_bytes() -> None:
    for size, text in ((0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (1 << 20, "1.00 MiB"), (250 << 30, "250 GiB")):
        assert bytes_text(size) == text, size


def test_shares() -> None:
    for part, whole, text in ((0, 10, "0 %"), (1, 3, "33 %"), (1, 30, "3.3 %"), (1, 30_000, "<0.1 %"), (1, 0, "-"), (3, 2, "150 %")):
        assert share_text(part, whole) == text, part


def test_counts_and_names() -> None:
    assert count_text(1, "load") == "1 load"
    assert count_text(2000, "load") == "2,000 loads"
    assert names_text(["a", "b"]) == "a, b"
    assert names_text(["a", "b", "c"], most=2) == "a, b and 1 more"


ERRORS = ModelErrors(kinds={"matmul": 0.04, "host": 0.1}, other=0.3, tile=(0.95, 1.2))
SURE = Interval(time_s=0.0244, low_s=0.0219, high_s=0.0278, widest="elementwise rates", tile=0.82, low_tile=0.78, high_tile=0.96)


def test_the_error_of_a_time_is_that_of_its_kinds_of_work_by_their_shares() -> None:
    error, widest = ERRORS.of_time({"matmul": 0.5, "fft": 0.5}, load_machine("bow-2000"))
    assert error == pytest.approx(0.5 * 0.04 + 0.5 * 0.3)
    assert widest == "fft"  # no measurement has it


def test_a_figure_of_the_machine_that_is_less_sure_than_the_model_counts_instead() -> None:
    error, _ = ERRORS.of_time({"host": 1.0}, load_machine("bow-2000"))
    assert error == pytest.approx(0.3)  # of the link to the host


def test_what_no_figure_of_the_machine_says_has_the_error_of_measurements_alone() -> None:
    assert replace(ERRORS, kinds={"unseen": 0.03}).of_time({"unseen": 1.0}, load_machine("bow-2000"))[0] == pytest.approx(0.03)


def test_an_interval_reads_as_a_sentence() -> None:
    assert SURE.text("fits") == "24.4 ms (21.9 to 27.8); widest: elementwise rates. Memory: 82 % of a tile (78 to 96): fits."


def test_a_verdict_on_another_memory_does_not_stand_behind_a_tile() -> None:
    assert SURE.text("").endswith("Memory: 82 % of a tile (78 to 96).")


def test_of_a_tile_that_is_nearly_empty_there_are_tenths_and_of_no_time_there_is_none() -> None:
    assert (
        replace(SURE, time_s=0, tile=0.03, low_tile=0.0295, high_tile=0.033).text("fits") == "Memory: 3.0 % of a tile (2.9 to 3.3): fits."
    )


def test_paths_lose_what_they_have_in_common() -> None:
    relative = relative_paths(["/home/me/a/x.py", "/home/me/b/y.py", "<string>"])
    assert [relative("/home/me/a/x.py"), relative("<string>")] == ["a/x.py", "<string>"]


def test_paths_without_a_common_folder_stay_absolute() -> None:
    relative = relative_paths(["/tmp/x.py", "/home/me/y.py", "/usr/lib/site-packages/jax/z.py"])
    assert [relative("/tmp/x.py"), relative("/usr/lib/site-packages/jax/z.py")] == ["/tmp/x.py", "jax/z.py"]


def test_a_slash_inside_of_parentheses_ends_no_part() -> None:
    for scope, parts in (
        ("jit(step)/jvp(loss)/dot_general", ["jit(step)", "jvp(loss)", "dot_general"]),
        ("jit(f)/transpose(jvp(enc/MatMul))/dot_general", ["jit(f)", "transpose(jvp(enc/MatMul))", "dot_general"]),
        ("jvp(a/b(c/d))/add", ["jvp(a/b(c/d))", "add"]),
        ("jvp(a/b/add", ["jvp(a", "b", "add"]),
        ("a)/(b/add", ["a)", "(b", "add"]),
        ("", [""]),
    ):
        assert parts_of(scope) == parts, scope


def test_a_short_scope_has_whole_names() -> None:
    assert short_scope("jit(f)/transpose(jvp(enc/MatMul))/dot_general") == "transpose(jvp(enc/MatMul))/dot_general"
    assert short_scope("add") == "add"


def test_names_within_one_transformation_are_scopes_as_others_are() -> None:
    assert scopes_of("jit(f)/transpose(jvp(enc/MatMul))/dot_general") == ("enc", "MatMul")


def test_joined_scopes_are_told_by_the_first() -> None:
    joined = "jit(step)/(transpose(jvp())/dot_general:jvp(a:b)/reduce_sum:add)"
    assert told_scope(joined) == "jit(step)/transpose(jvp())/dot_general and 2 more"
    assert short_scope(joined) == "jit(step)/transpose(jvp())/dot_general and 2 more"
    for alone in ("jit(f)/(a/b)", "jit(f)/jvp(a:b)", "jit(f)/add", "(", "()"):
        assert told_scope(alone) == alone
