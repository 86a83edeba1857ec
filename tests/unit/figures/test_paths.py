"""Paths of source files, relative to what they have in common."""

from __future__ import annotations

from tilestep.figures.paths import relative_paths


def test_paths_lose_what_they_have_in_common() -> None:
    relative = relative_paths(["/home/me/a/x.py", "/home/me/b/y.py", "<string>"])
    assert [relative("/home/me/a/x.py"), relative("<string>")] == ["a/x.py", "<string>"]


def test_paths_without_a_common_folder_stay_absolute() -> None:
    relative = relative_paths(["/tmp/x.py", "/home/me/y.py", "/usr/lib/site-packages/jax/z.py"])
    assert [relative("/tmp/x.py"), relative("/usr/lib/site-packages/jax/z.py")] == ["/tmp/x.py", "jax/z.py"]
