"""Which tests the fast run leaves out."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.fast_run import LEFT_OUT, VALUES, Recording, chosen, covered, is_kept, killers, shortened, shown

ROOT = Path(__file__).resolve().parents[3]


def test_lines_and_time_of_what_a_test_shares_are_its_own(tmp_path: Path) -> None:
    records = [
        {"key": "one", "uses": ["fixture"], "files": {"a.py": "6"}, "wall": 3, "self": 1, "child": 0.5},
        {"key": "fixture", "files": {"a.py": "8", "b.py": "2"}, "own": 4},
        {"key": "two", "files": {"a.py": "4"}, "wall": 1, "self": 0, "child": 0},
        {"key": "three", "uses": ["fixture"], "files": {}, "wall": 9, "self": 5, "child": 3.5},
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    recording = Recording(tmp_path)
    assert recording.cpu_s == {"one": 2, "two": 0.001, "three": 8.5}
    assert len(recording.lines["one"]) == 4
    assert recording.lines["two"] < recording.lines["one"]


def test_what_executes_most_new_lines_for_its_time_is_taken_first() -> None:
    lines = {"kept": [1], "large": range(1, 11), "small": range(1, 6), "again": range(1, 6), "none": []}
    cpu_s = {"kept": 1.0, "large": 4.0, "small": 1.0, "again": 1.0, "none": 0.1}
    assert chosen(cpu_s, lines, {"kept"}, 1.5) == {"kept"}
    assert chosen(cpu_s, lines, {"kept"}, 2.0) in ({"kept", "small"}, {"kept", "again"})
    # A line that is executed once so far is worth half of one that is not.
    assert chosen(cpu_s, lines, {"kept"}, 6.5) == {"kept", "small", "again"}
    assert chosen(cpu_s, lines, {"kept"}, 7.0) == {"kept", "small", "again", "large"}


def test_a_test_of_which_three_others_execute_each_line_says_nothing_new(tmp_path: Path) -> None:
    lines = {"a": "2", "b": "2", "c": "2", "more": "2", "new": "6", "found": "2", "left": "8", "quick": "2"}
    records = [
        {"key": key, "files": {"a.py": bits}, "wall": 1, "self": 0.01 if key in "abc" else 1, "child": 0} for key, bits in lines.items()
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    result = {"mutants": [{"fast": {"outcome": "killed", "by": "found"}, "whole": {"outcome": "survived"}}, {}]}
    assert killers(result) == {"found"}
    assert covered(Recording(tmp_path), {"left"}, killers(result)) == {"more", "quick"}


def test_of_tests_of_values_one_of_six_stays() -> None:
    kept = sum(is_kept(f"{VALUES}::test_values_are_those_of_the_cpu[{n}]") for n in range(600))
    assert 70 < kept < 130
    assert is_kept("tests/golden/test_time.py::test_cycles")
    assert not is_kept("tests/unit/sim/test_play.py::test_values")


def test_a_function_stands_for_its_tests_if_all_are_left_out() -> None:
    tests = ["t.py::f[1]", "t.py::f[2]", "t.py::g[1]", "t.py::g[2]", "t.py::h"]
    assert shortened(["t.py::f[1]", "t.py::f[2]", "t.py::g[2]", "t.py::h"], tests) == ["t.py::f", "t.py::g[2]", "t.py::h"]


def test_it_says_what_a_list_costs(tmp_path: Path) -> None:
    records = [{"key": f"tests/a/{n}.py::t", "files": {"a.py": f"{1 << n:x}"}, "wall": 1, "self": n, "child": 0} for n in (1, 2)]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    said = shown({"tests/a/2.py::t"}, Recording(tmp_path))
    assert said.endswith("1 of 2 tests, 1 of 3 CPU s; 1 of 2 lines are not executed")


def test_the_list_names_functions_that_there_are() -> None:
    for name in LEFT_OUT.read_text(encoding="utf-8").splitlines():
        if not name.startswith("#"):
            path, _, function = name.partition("[")[0].rpartition("::")
            assert f"def {function}(" in (ROOT / path.partition("::")[0]).read_text(encoding="utf-8"), name
