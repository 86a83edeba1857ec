"""The benchmark of PopART's sessions has a row for each device and number of batches, and a record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import popart_session


@pytest.mark.process  # git names the commit
def test_each_device_and_number_of_batches_has_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(popart_session, "BATCHES", (1, 2))
    target = tmp_path / "record.json"
    popart_session.main(["--repetitions", "3", "--pairs", "0", "--json", str(target)])
    found = json.loads(target.read_text(encoding="utf-8"))["answers"]
    assert [(row["device"], row["batches"]) for row in found] == [("Cpu", 1), ("Cpu", 2), ("IpuModel", 1), ("IpuModel", 2)]
    assert all(times["median"] > 0 and times["n"] == 3 for row in found for times in row["wall_s"].values())
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(found)


def test_the_program_alone_does_not_train_the_session() -> None:
    sessions = [popart_session.session_of(2, "Cpu") for _ in range(2)]
    for (session, io), name in zip(sessions, ("session.run", "program alone"), strict=True):
        calls = popart_session.both(session, io)
        calls[name]()
        calls["session.run"]()
    first, second = (io.outputs for _, io in sessions)
    assert len(first) == 4
    assert not all((first[name] == second[name]).all() for name in first)  # the program alone leaves the session's weights alone


@pytest.mark.slow
@pytest.mark.process
def test_prepare_device_is_timed_in_turns_with_another_checkout() -> None:
    row = popart_session.prepared({"now": sys.executable, "before": sys.executable}, 2)
    assert all(row["cpu_s"][name]["median"] > 0 and row["cpu_s"][name]["n"] == 2 for name in ("now", "before"))
    assert 0.2 < row["times_before"] < 5


def test_one_repetition_has_no_spread(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        popart_session.main(["--repetitions", "1"])
    with pytest.raises(SystemExit, match="2"):
        popart_session.main(["--pairs", "1"])
    assert capsys.readouterr().err.count("a spread needs 2 or more") == 2
