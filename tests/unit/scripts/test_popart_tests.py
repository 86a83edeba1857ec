"""scripts/popart_tests.py on a small checkout made here: real tests, in real pytest processes."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from scripts.popart_judge.source import TESTS
from scripts.popart_tests import main

CONFTEST = """
import popart  # the conftest of the originals' operators imports it as well
def pytest_addoption(parser):
    parser.addoption("--device-type", action="store", default="Cpu")
"""
OTHERS = """
import os
import signal
import time
import pytest
import numpy as np

@pytest.mark.parametrize("value", [0, 1, 2])
def test_cases(value):
    assert value < 2, f"it is {value}"

def test_target():
    assert os.environ["TEST_TARGET"] == "Hw"

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after_death():
    assert np.int(3) == 3
    assert list(np.fromstring(b"\\x01\\x02", dtype=np.uint8)) == [1, 2]
    assert list(np.fromstring("1 2", sep=" ")) == [1, 2]

def test_skips():
    pytest.skip("no device")

@pytest.mark.parametrize("value", [0, 1])
def test_skips_senseless_cases(value):
    if value:
        pytest.skip("Duplicated test with include_self=False.")
    assert not value

@pytest.mark.xfail
def test_expected_to_fail():
    assert False

def test_many(builder):
    builder.virtualGraph(0)

def test_white(session):
    session._serializeIr(1)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("popart")
    tests = folder / TESTS
    for name, text in {
        "../conftest.py": CONFTEST,
        "CMakeLists.txt": "add_popart_py_unit_test(options_test VARIANTS Hw)",
        "options_test.py": OTHERS,
        "stream_test.py": "import time\ndef test_hangs(): time.sleep(600)\ndef test_then(): assert 1",
        "operators_test/exp_test.py": "import torch\ndef test_a(): assert 1",
    }.items():
        path = tests / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def listed(checkout: Path) -> Path:
    path = checkout / "known.toml"
    path.write_text("skipped_by_the_originals = ['Duplicated test']\n")
    return path


def judged(checkout: Path, listed: Path, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """(exit status, function's name -> its entry of the record)."""
    record = checkout / "record.json"
    status = main([str(checkout), "--known", str(listed), "--json", str(record), *words])
    return status, {row["function"].partition("::")[2]: row for row in json.loads(record.read_text())["results"]}


@pytest.mark.slow
@pytest.mark.process
def test_each_function_passes_if_all_its_cases_do(checkout: Path, listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = judged(checkout, listed, "--group", "options", "--one-device")
    assert status == 1
    assert {name: row["passed"] for name, row in rows.items()} == {
        "test_cases": False,
        "test_target": True,
        "test_dies": False,
        "test_after_death": True,
        "test_skips": False,
        "test_skips_senseless_cases": True,
        "test_expected_to_fail": True,
    }
    assert {name: case["outcome"] for name, case in rows["test_cases"]["cases"].items()} == {
        "test_cases[0]": "passed",
        "test_cases[1]": "passed",
        "test_cases[2]": "failed",
    }
    assert rows["test_cases"]["error"].startswith("failed: AssertionError: it is 2")
    assert rows["test_dies"]["error"].startswith("crashed: exit status -9")
    assert rows["test_skips"]["error"].startswith("skipped: Skipped: no device")
    assert list(rows["test_skips_senseless_cases"]["cases"]) == ["test_skips_senseless_cases[0]"]
    said = capsys.readouterr().out
    assert "options_test.py::test_cases on Hw [2 of 3 cases pass]\n    failed: AssertionError: it is 2" in said
    assert "options_test.py::test_cases fails and is not listed" in said
    (row,) = [line.split() for line in said.splitlines() if line.startswith("options ")]
    assert row == ["options", "4/5", "80.0%", "4/5", "-", "6/7", "0/2"]


@pytest.mark.slow
@pytest.mark.process
def test_a_test_that_hangs_is_one_failure(checkout: Path, listed: Path) -> None:
    _, rows = judged(checkout, listed, "--files", "stream_test.py", "--timeout", "2")
    assert (rows["test_hangs"]["error"], rows["test_then"]["passed"]) == ("hung: no end after 2 s", True)
