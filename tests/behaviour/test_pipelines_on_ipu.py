"""The tests of emulated pipelines, in a process whose IPUs reach the host each for itself: the sync pattern is decided when it starts."""

from __future__ import annotations

from pathlib import Path

from tests.processes import run_python


def test_emulated_pipelines_do_what_their_schedules_say() -> None:
    tests = Path(__file__).resolve().parent / "pipelines_on_ipu.py"
    result = run_python(*("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)), environ={"TILESTEP_SYNC_PATTERN": "singlePipeline"})
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    assert "skipped" not in result.stdout
