"""The pictures that show the emulator's figures show today's."""

from pathlib import Path

import pytest

from scripts import drawings
from tests.documents import HAS_JAX_OF_FIGURES


@pytest.mark.slow
@pytest.mark.skipif(not HAS_JAX_OF_FIGURES, reason="another JAX makes other programs of some functions")
def test_pictures_are_as_drawn() -> None:
    assert drawings.differing(drawings.FOLDER) == []


def test_a_picture_that_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawings, "PICTURES", {"same": drawings.superstep, "other": drawings.superstep, "missing": drawings.superstep})
    (tmp_path / "same").write_text(drawings.superstep(), encoding="utf-8")
    (tmp_path / "other").write_text("<svg/>", encoding="utf-8")
    assert drawings.differing(tmp_path) == ["other", "missing"]


def test_the_front_picture_shows_the_whole_program_that_was_run() -> None:
    shown = (drawings.FOLDER / "front.svg").read_text(encoding="utf-8")
    unescaped = shown.replace("&quot;", '"').replace("&gt;", ">").replace("&lt;", "<").replace("&#x27;", "'")
    assert [line for line in drawings.FRONT.splitlines() if f">{line}</text>" not in unescaped] == []
