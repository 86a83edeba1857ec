"""What PopART's tests use is decided from their source: on small checkouts made here."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from scripts.popart_judge.known import read_known
from scripts.popart_judge.source import TESTS, Function, functions


def checkout(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / TESTS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return folder


def only(folder: Path, text: str) -> Function:
    (found,) = functions(checkout(folder, {"some_test.py": text}))
    return found


def test_functions_are_those_that_pytest_would_collect(tmp_path: Path) -> None:
    made = checkout(
        tmp_path,
        {
            "b_test.py": """
                def helper(): pass
                def test_one():
                    def test_inner(): pass
                def test_two(): pass
                def test_one(): assert 1
                class TestMany:
                    def test_three(self): pass
                    def other(self): pass
                """,
            "a/plain_name.py": "def test_four(): pass",
            "test_util.py": "def test_of_the_harness(): pass",
            "a/conftest.py": "def test_of_the_harness(): pass",
            "popxl/test_x.py": "def test_of_another_interface(): pass",
        },
    )
    found = functions(made)
    assert [function.id for function in found] == [
        "a/plain_name.py::test_four",
        "b_test.py::test_one",
        "b_test.py::test_two",
        "b_test.py::TestMany::test_three",
    ]
    assert [function.asserts for function in found] == [False, True, False, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def test(): pass", ""),
        ("def test(s): s._serializeIr(1)", "white box"),
        ("def helper(s): s._serializeIr(1)\ndef test(s): helper(s)", "white box"),
        ("def helper(s): s._serializeIr(1)\ndef test(s): pass", ""),
        ("def test(s): s.getReport()", "white box"),
        ("def test(s): s.getSummaryReport()", ""),
        ("import popart._internal.ir as _ir\ndef test(): _ir.Ir()", "white box"),
        ("import popxl\ndef test(): popxl.Ir()", "written in popxl"),
        ("import ctypes\nctypes.cdll.LoadLibrary('x.so')\ndef test(): pass", "custom operator in C++"),
        ("import subprocess\ndef test(): subprocess.run([])", "starts processes"),
        ("import pytest\n@pytest.mark.skip\ndef test(): pass", "skipped by the original"),
        ("import pytest\n@pytest.mark.skip('later')\ndef test(): pass", "skipped by the original"),
        ("import pytest\n@pytest.mark.skipif(True, reason='')\ndef test(): pass", ""),
    ],
)
def test_what_is_left_out(tmp_path: Path, text: str, why: str) -> None:
    assert only(tmp_path, text).why_out == why


@pytest.mark.parametrize(
    ("body", "asserts"),
    [
        ("assert x", True),
        ("with pytest.raises(E): f()", True),
        ("np.testing.assert_allclose(a, b)", True),
        ("op_tester.run(a, b)", True),
        ("op_tester.setPatterns(a)", False),
        ("check_report(a)", True),
        ("session.run(stepio)", False),
        ("def inner():\n        assert x\n    inner()", True),
    ],
)
def test_what_can_fail_a_test(tmp_path: Path, body: str, asserts: bool) -> None:
    assert only(tmp_path, f"def test(op_tester):\n    {body}\n").asserts is asserts


def test_the_projects_list_can_be_read() -> None:
    known = read_known()
    assert all(reason.strip() for reason in known.failures.values())
    assert all("::" in function for function in known.failures)


@pytest.mark.parametrize(
    "text",
    ["[[failure]]\nfunctions = ['a::b']", "[[failure]]\nwhy = ' '\nfunctions = []", "[[failure]]\nwhy = 'x'\nfunctions = []\nmore = 1"],
)
def test_a_failure_without_a_reason_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "known.toml").write_text(text)
    with pytest.raises(ValueError, match=r"a \[\[failure\]\] has a `why` and a list `functions`"):
        read_known(tmp_path / "known.toml")
