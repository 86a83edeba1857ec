"""The tests of emulated pipelines, in processes with a sync pattern each, which is decided when a process starts."""

from pathlib import Path

import pytest

from tests.processes import run_python


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("singlePipeline", "not with_concurrent or grouped"),
        # What is the same with both is tested once, and so are schedules that have the same steps in another order.
        ("full", "what_simulate_says and (grouped or zero_bubble) or with_concurrent and grouped"),
        ("full", "what_simulate_says or with_concurrent"),
        ("singlePipeline", "with_concurrent and not grouped"),
    ],
)
def test_emulated_pipelines_do_what_their_schedules_say(pattern: str, words: str) -> None:
    tests = Path(__file__).resolve().parent / "pipelines_on_ipu.py"
    result = run_python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", words, str(tests)), environ={"TILESTEP_SYNC_PATTERN": pattern}
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    assert "skipped" not in result.stdout
