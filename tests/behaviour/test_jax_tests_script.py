"""scripts/jax_tests.py finds what passes on the CPU and not here, whatever way it fails, and survives it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .process import LIMIT_WALL_S, environment

SCRIPT = Path(__file__).parents[2] / "scripts" / "jax_tests.py"
FAKE = """
import os, time
from absl.testing import absltest, parameterized
import jax
from jax._src import config
from jax._src import test_util as jtu

config.parse_flags_with_absl()
jtu.device_under_test()  # as some of JAX's helpers ask while they are imported
jtu.request_cpu_devices(2)


def here():
    return jax.default_backend() == "ipu"


def here_as_the_cpu():
    return here() and jtu.device_under_test() == "cpu"


class FakeTest(jtu.JaxTestCase):
    def test_a_passes(self):
        self.assertEqual(jax.device_count(), 2)

    def test_b_fails_here(self):
        self.assertFalse(here(), "as it should")

    @jtu.run_on_devices("cpu")
    def test_c_is_for_the_cpu_by_name(self):
        pass

    def test_d_crashes_here(self):
        if here_as_the_cpu():
            os.abort()

    @parameterized.parameters(object(), object())
    def test_e_has_arguments_with_addresses(self, thing):
        pass

    def test_f_hangs_here(self):
        time.sleep(3600 * here_as_the_cpu())

    def test_g_fails_on_both(self):
        self.fail("everywhere")

    def test_h_passes_after_all_that(self):
        pass


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
"""


@pytest.mark.slow
def test_what_passes_on_the_cpu_and_not_here_is_named(tmp_path: Path) -> None:
    """One test, since each run of the script costs many starts of Python and waits for a test that hangs."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "fake_test.py").write_text(FAKE)
    options = ["--files", "fake_test.py", "--named", "cpu", "ipu", "--timeout", "10", "--json", str(tmp_path / "record.json")]
    command = [sys.executable, str(SCRIPT), str(tmp_path), *options]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_WALL_S, check=False)
    assert result.returncode == 1, result.stderr
    reports = {report["named"]: report for report in json.loads((tmp_path / "record.json").read_text())["reports"]}
    assert [(r["tests"], r["passed_on_cpu"], r["passed"]) for r in reports.values()] == [(9, 8, 5), (9, 8, 6)]

    found = {difference["test"]: difference for difference in reports["cpu"]["differences"]}
    assert {name: difference["outcome"] for name, difference in found.items()} == {
        "FakeTest.test_b_fails_here": "failed",
        "FakeTest.test_d_crashes_here": "crashed",
        "FakeTest.test_f_hangs_here": "hung",
    }
    assert found["FakeTest.test_b_fails_here"]["error"] == "AssertionError: True is not false : as it should"
    assert "Fatal Python error: Aborted" in found["FakeTest.test_d_crashes_here"]["error"]

    skipped = [difference["test"] for difference in reports["ipu"]["differences"] if difference["outcome"] == "skipped"]
    assert skipped == ["FakeTest.test_c_is_for_the_cpu_by_name"]  # skipped by the name of the device under test
