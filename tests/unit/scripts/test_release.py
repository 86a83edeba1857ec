"""scripts/release.py: a tag for what is whole, and a sentence for each thing that is missing."""

from pathlib import Path

import pytest

from scripts.release import git, main, missing

pytestmark = pytest.mark.process


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "3.1.0"\n', encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 3.1.0 (2026-11-29)\n\n## 3.0.0 (2026-01-01)\n", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("/dist/\n", encoding="utf-8")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "tilestep-3.1.0-cp311-abi3-linux_x86_64.whl").touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "Ada")
    git(tmp_path, "config", "user.email", "ada@example.org")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_a_whole_release_is_tagged_once(repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["release.py"])
    assert main(repository) == 0
    assert git(repository, "describe", "--exact-match") == "v3.1.0"
    assert main(repository) == 1
    assert "the tag v3.1.0 is there already" in capsys.readouterr().err


def test_what_a_release_lacks_is_told(repository: Path) -> None:
    assert missing(repository, "3.1.0") == []
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## 3.1.0 (not released)\n", encoding="utf-8")
    next((repository / "dist").iterdir()).unlink()
    heading, changed, wheel = missing(repository, "3.1.0")
    assert "'3.1.0 (not released)': it must be '3.1.0 (DAY)'" in heading
    assert changed == "1 files differ from the last commit: commit them"
    assert wheel == "dist/ has no wheel of 3.1.0: run make wheel"
