"""`tilestep report html`: what it writes, where, and what it refuses."""

from pathlib import Path

import pytest

from tests.unit.figures.reader.recorded import recorded, run_of, two_stages
from tilestep.cli import main
from tilestep.cli.report.html import label_of
from tilestep.recording.storage.container import write_recording


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two recordings: run.tilestep in `five`, and `six.tilestep`."""
    for trips, path in ((5, tmp_path / "five" / "run.tilestep"), (6, tmp_path / "six.tilestep")):
        path.parent.mkdir(exist_ok=True)
        host = run_of(two_stages(trips=trips))
        write_recording(path, recorded(host, [host._programs[0]]))
    return tmp_path


@pytest.mark.parametrize("output", ["six.tilestep", "new.tilestep", "five/run.tilestep", "link.html"])
def test_a_recording_is_never_written_over(runs: Path, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "link.html").symlink_to(runs / "six.tilestep")
    before = (runs / "six.tilestep").read_bytes()
    assert main(["report", "html", str(runs / "five"), str(runs / "six.tilestep"), "-o", str(runs / output)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "is a recording: a page goes into another file, such as report.html" in err
    assert (runs / "six.tilestep").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere",), "nowhere: No such file or directory"),
        (("five", "nowhere"), "nowhere: No such file or directory"),
        (("page.html",), "is no recording"),
        (("five", "-o", "nowhere/page.html"), "nowhere/page.html: there is no folder nowhere: make it, or name another"),
        (("five", "-o", "."), "Is a directory"),
    ],
)
def test_what_cannot_be_done_is_told(
    runs: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    (runs / "page.html").write_text("<!doctype html>", encoding="utf-8")
    assert main(["report", "html", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tilestep report html: ")
    assert problem in err


@pytest.mark.parametrize(
    ("path", "label"), [("five", "five"), ("five/run.tilestep", "five"), ("six.tilestep", "six"), ("five/../five/.", "five")]
)
def test_a_recording_is_called_as_its_folder_or_its_file(runs: Path, path: str, label: str) -> None:
    assert label_of(runs / path) == label
