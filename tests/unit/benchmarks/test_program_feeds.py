"""The benchmark of infeeds gives figures of every way on every platform, and a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import program_feeds


@pytest.mark.process  # git names the commit
def test_each_way_of_each_platform_has_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program_feeds, "BATCHES", 3)
    target = tmp_path / "record.json"
    program_feeds.main(["--repetitions", "2", "--json", str(target)])
    found = json.loads(target.read_text(encoding="utf-8"))["gigabytes_per_second"]
    assert {platform: set(ways) for platform, ways in found.items()} == {name: set(program_feeds.WAYS) for name in program_feeds.PLATFORMS}
    assert all(figure["median"] > 0 for ways in found.values() for figure in ways.values())
    lines = capsys.readouterr().out.splitlines()
    assert [line[:14].strip() for line in lines[1:]] == list(program_feeds.WAYS)


def test_one_repetition_has_no_spread(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program_feeds.main(["--repetitions", "1"])
    assert "a spread needs 2 or more" in capsys.readouterr().err
