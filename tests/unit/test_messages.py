"""Values in messages are short, on one line, and nothing that a terminal would obey."""

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilestep.cuts import best_cuts, stage_costs
from tilestep.messages import headline_of, nearest, no_json, plain, printable, sentences, shown

DEEP: list[object] = []
for _ in range(10_000):
    DEEP = [DEEP]
LONGEST = 1200


@pytest.mark.parametrize("value", [None, True, 1472, -1.5, float("nan"), "bow-2000", "it's", [1, 2], {"a": 1}, b"\xff"])
def test_a_short_value_is_shown_as_python_writes_it(value: object) -> None:
    assert shown(value) == repr(value)


LARGE = {
    "text": "a" * 10**6,
    "400 digits": 10**400,
    "5,000 digits": 10**5000,
    "negative": -(10**100_000),
    "deep": DEEP,
    "many": ["\x1b[31m"] * 10**5,
    "a table": {"\n": DEEP},
    "bytes": b"\x1b" * 10**6,
}


@pytest.mark.parametrize("what", LARGE)
def test_a_long_value_is_shown_in_part(what: str) -> None:
    text = shown(LARGE[what])
    assert text.isprintable()
    assert 3 < len(text) < LONGEST


def test_a_very_large_number_says_how_large_it_is() -> None:
    assert shown(10**5000) == "a whole number of 16,610 bits"


@given(st.text(st.characters()) | st.integers() | st.binary() | st.lists(st.text(st.characters())))
def test_nothing_that_is_shown_moves_the_cursor(value: object) -> None:
    assert shown(value).isprintable()
    assert plain(value).isprintable()


def test_a_path_stays_as_it_is_but_for_what_cannot_be_printed() -> None:
    assert plain("/tmp/my files/é.toml") == "/tmp/my files/é.toml"
    assert plain("/tmp/\x1b[31m\n\udcff") == r"/tmp/\x1b[31m\n\udcff"
    assert len(plain("a" * 10**6)) < LONGEST


def test_a_slip_has_a_nearest_name_and_a_flood_has_none() -> None:
    assert nearest("ipus", ("ipu", "link")) == "ipu"
    assert nearest("xyz", ("ipu", "link")) is None
    assert nearest("ipu" * 10**5, ("ipu", "link")) is None


@given(st.text())
def test_a_printable_text_keeps_its_lines(text: str) -> None:
    found = printable(text)
    assert "\x1b" not in found
    assert found.count("\n") == text.count("\n")
    assert printable(found) == found


def test_names_in_sentences_are_shown_once_escaped_and_in_part() -> None:
    told = sentences(f"run {'h' * 10_000} on A\x1b[31mRED\x1b[2J\u202e, 50\xa0%\n")
    assert told == f"run {'h' * 100}...{'h' * 100} on A\\x1b[31mRED\\x1b[2J\\u202e, 50\xa0%\\n"
    assert sentences(told) == told
    assert len(sentences("a " * 10_000)) < 5010


@pytest.mark.parametrize("text", ["1" * 5000, "nonsense", '{"\x1b": }'])
def test_why_a_text_is_no_json_says_nothing_of_python(text: str) -> None:
    with pytest.raises(ValueError, match=r"digits|Expecting|control") as error:
        json.loads(text)
    assert no_json(error.value)
    assert "sys." not in no_json(error.value)
    assert no_json(error.value).isprintable()


def test_a_printable_text_keeps_what_no_terminal_obeys() -> None:
    assert printable("8\u202fB, \xa0é·→\n\ttab") == "8\u202fB, \xa0é·→\n\ttab"
    assert printable("\x1b[31m\r\x9b\u202e\udcff") == "\\x1b[31m\\r\\x9b\\u202e\\udcff"


def test_an_exceptions_headline_has_no_notes() -> None:
    error = ValueError("x is 0\nand y is 1")
    error.add_note("For simplicity, JAX has removed its internal frames from the traceback of the following exception.")
    assert headline_of(error) == "ValueError: x is 0"
    assert headline_of(KeyError("x")) == "KeyError: 'x'"
    with pytest.raises(SyntaxError) as syntax:
        compile("1 +", "f.py", "exec")
    assert headline_of(syntax.value) == "SyntaxError: invalid syntax"


def test_the_largest_stage_is_as_small_as_any_cut_makes_it() -> None:
    work, passing = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0], [0.5, 2.0, 0.1, 0.0, 1.0, 0.3, 0.2, 0.0]
    for stages in range(1, 6):
        every = [
            max(stage_costs(work, passing, (0, *inner, len(work))))
            for count in range(stages)
            for inner in combinations(range(1, len(work)), count)
        ]
        assert max(stage_costs(work, passing, best_cuts(work, passing, stages))) == min(every)


@pytest.mark.parametrize(
    ("work", "stages", "cuts"),
    [([1.0], 3, (0, 1)), ([1.0, 1.0, 1.0, 1.0], 2, (0, 2, 4)), ([1.0, 9.0, 1.0], 3, (0, 1, 2, 3)), ([0.0, 0.0], 2, (0, 2))],
)
def test_of_equal_cuts_the_one_with_fewest_stages_counts(work: list[float], stages: int, cuts: tuple[int, ...]) -> None:
    found = best_cuts(work, [0.0] * len(work), stages)
    assert max(stage_costs(work, [0.0] * len(work), found)) == max(stage_costs(work, [0.0] * len(work), cuts))
    assert len(found) <= len(cuts)


def test_the_passing_counts_at_both_ends_of_a_stage() -> None:
    assert stage_costs([1.0, 2.0, 3.0], [10.0, 20.0, 0.0], (0, 1, 3)) == (11.0, 15.0)
