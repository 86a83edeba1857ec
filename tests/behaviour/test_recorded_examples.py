"""Every example is recorded: its journal can be played again to the cycle, and its critical path sums to the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilestep
from tests.processes import AS_USERS_COMPILE, ROOT, run_python
from tilestep.record.call_tables import history_of
from tilestep.record.replay import replay

EXAMPLES = {
    "karate_club": (),
    "linear_regression": (),
    "mnist_classifier": ("--epochs", "2"),
    "mnist_plain": ("--epochs", "2"),
    "mnist_with_infeeds": ("--epochs", "2"),
    "pmap_quickstart": (),
    "quickstart": (),
    "results_while_running": (),
    "sharding_quickstart": (),
    "training_loop": (),
    "two_towers": (),
}
SLOW = {"bert_pod": (), "pipeline_transformer": ()}
NO_PROGRAMS = {"datasets", "flags"}
OF_SESSIONS = {"popart_phases", "popart_pipeline"}  # their sessions have machines of their own, which no recording of the process is of


def test_every_example_is_recorded() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {*EXAMPLES, *SLOW, *NO_PROGRAMS, *OF_SESSIONS}


@pytest.mark.parametrize("example", [*EXAMPLES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_recorded_example_is_played_again_to_the_cycle(example: str, tmp_path: Path) -> None:
    flags = {**EXAMPLES, **SLOW}[example]
    script = str(ROOT / "examples" / f"{example}.py")
    done = run_python("-m", "tilestep", "run", "--report", str(tmp_path), script, *flags, environ=AS_USERS_COMPILE)
    assert done.returncode == 0, done.stderr
    report = tilestep.open_report(tmp_path)
    total = report.execution.total_cycles.total
    assert replay(history_of(report.tables)).end_cycle == total
    path = report.in_full().execution.critical_path()
    assert (path.complete, path.cycles) == (True, total)
