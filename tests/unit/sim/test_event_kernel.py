"""What an event costs does not depend on how many IPUs there are; benchmarks/event_kernel.py measures it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import event_kernel
from tilestep.machine import SyncPattern, load_machine
from tilestep.sim import System
from tilestep.sim.play import Play

PATTERNS: tuple[SyncPattern, ...] = ("full", "singlePipeline", "replicaAndLadder")


def work(pattern: SyncPattern, num_ipus: int, microbatches: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Events of the loop, and looks at whether a step can begin, per run of a pipeline."""
    seen: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(Play, name)

        def call(self: Any, *arguments: Any, **more: Any) -> Any:
            seen[name] += 1
            return original(self, *arguments, **more)

        return call

    with monkeypatch.context() as patch:
        for name in ("_push", "_blocking", "_fire", "_come"):
            patch.setattr(Play, name, counted(name))
        system = System(load_machine(event_kernel.MACHINE, num_ipus=num_ipus, sync_pattern=pattern))
        event_kernel.group(system, range(num_ipus))(num_ipus * microbatches)
        system.mark()
    return seen.total() / (num_ipus * microbatches)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_run_in_a_group_is_as_much_work_on_few_ipus_as_on_many(pattern: SyncPattern, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (work(pattern, num_ipus, 8, monkeypatch) for num_ipus in (4, 128))
    assert many <= 1.3 * few


@pytest.mark.process
def test_the_benchmark_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record.json"
    assert event_kernel.main(["--ipus", "1", "4", "--runs", "8", "--repetitions", "2", "--json", str(record)]) == 0
    answers = json.loads(record.read_text())["answers"]
    assert {(answer["load"], answer["num_ipus"]) for answer in answers} == {
        (load, count) for load in event_kernel.LOADS for count in (1, 4)
    }
    assert all(answer["events"] >= 8 * 4 and answer["wall_s"]["median"] > 0 for answer in answers)
    assert capsys.readouterr().out.count("us") == len(answers)
