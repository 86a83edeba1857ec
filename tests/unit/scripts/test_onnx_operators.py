"""The table of ONNX's operators is that of the registry, and the table of tests that differ that of the suite."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.onnx_operators import (
    BEGIN,
    BEGIN_COUNTS,
    BEGIN_TESTS,
    END,
    END_COUNTS,
    END_TESTS,
    rewritten,
    table,
    table_of_counts,
    table_of_tests,
)
from tests.conformance.onnx.differences import TESTS_OF_OPERATORS
from tilestep.onnx.coverage import NOT_COVERED, coverage

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.process
def test_the_page_has_todays_table() -> None:
    # In a process of its own: other tests register operators besides ONNX's.
    code = "from scripts.onnx_operators import PAGE, rewritten; text = PAGE.read_text('utf-8'); print(rewritten(text) == text)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n", "run scripts/onnx_operators.py"


def test_every_operator_is_covered_or_has_a_reason() -> None:
    missing = {(row.domain, row.name) for row in coverage() if row.missing}
    assert missing == NOT_COVERED.keys()


def test_a_page_without_a_place_for_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks the lines <!-- operators"):
        rewritten("# ONNX\n")
    with pytest.raises(ValueError, match="lacks the lines <!-- counts"):
        rewritten(f"{BEGIN}{END}")
    with pytest.raises(ValueError, match="lacks the lines <!-- differences"):
        rewritten(f"{BEGIN}{END}{BEGIN_COUNTS}{END_COUNTS}")
    old = f"a\n{BEGIN}old\n{END}b\n{BEGIN_COUNTS}old\n{END_COUNTS}c\n{BEGIN_TESTS}old\n{END_TESTS}d\n"
    assert rewritten(old) == (
        f"a\n{BEGIN}\n{table()}\n{END}b\n{BEGIN_COUNTS}\n{table_of_counts()}\n{END_COUNTS}c\n{BEGIN_TESTS}\n{table_of_tests()}\n{END_TESTS}d\n"
    )


def test_counts_and_differences_agree() -> None:
    always = table_of_tests().count("| always |")
    assert f"| {TESTS_OF_OPERATORS - always:,} |" in table_of_counts()
