"""Every example is recorded: its journal can be played again to the cycle, its critical path sums to the end, and its waits are waits."""

import pytest

import tilestep
from tests.processes import ROOT
from tests.recordings import EXAMPLES, SLOW_EXAMPLES, example, shared_folder
from tilestep.recording.call_tables import history_of
from tilestep.recording.replay import replay

NO_PROGRAMS = {"datasets", "flags", "resume"}  # the last starts itself in other processes
OF_SESSIONS = {"popart_phases", "popart_pipeline"}  # their sessions have machines of their own, which no recording of the process is of


def test_every_example_is_recorded() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {*EXAMPLES, *SLOW_EXAMPLES, *NO_PROGRAMS, *OF_SESSIONS}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EXAMPLES, *SLOW_EXAMPLES])
def test_a_recorded_example_is_played_again_to_the_cycle(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    report = tilestep.open_report(example(name, shared_folder(tmp_path_factory)))
    total = report.execution.total_cycles.total
    assert replay(history_of(report.tables)).end_cycle == total
    full = report.in_full().execution
    path = full.critical_path()
    assert (path.complete, path.cycles) == (True, total)
    lanes = {lane.name: lane for lane in full.lanes}
    for lane in report.execution.lanes:  # no wait is told of that was none
        waits = {(wait.cycles_from, wait.cycles_to) for wait in full.waits(lanes[lane.name])}
        assert {(wait.cycles_from, wait.cycles_to) for wait in report.execution.waits(lane)} <= waits
        assert not list(full.unkept(lanes[lane.name]))
