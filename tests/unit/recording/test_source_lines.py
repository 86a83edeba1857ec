"""A recording has the text of the user's files that its frames name, within bounds."""

import linecache
import os
from pathlib import Path

import pytest

from tilestep.plan.steps import Frame, Program, Series, TileMemory
from tilestep.recording import source_lines
from tilestep.recording.source_lines import each_read_once, source_files, source_text


def program(*files: str) -> Program:
    frames = tuple(Frame(file=file, function="f", line=1, column=1, parent=0) for file in files)
    memory = TileMemory(peak_bytes=0, peak_step="", code_bytes=0, resident_bytes=0, transient_bytes=0)
    return Program(name="p", num_ipus=1, body=Series(), arguments=(), results=(), memory=memory, frames=frames)


def test_the_files_of_the_user_are_kept_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    path = str(tmp_path / "train.py")
    assert source_files([program(path, path), program(path)]) == {path: "x = 1\n"}


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.py")
    assert source_files([program(str(tmp_path / "fifo.py"), "/dev/zero")]) == {}


def test_cells_of_a_notebook_are_kept() -> None:
    name = "/tmp/ipykernel_1/1.py"
    linecache.cache[name] = (2, None, ["y = 2\n"], name)
    try:
        assert source_files([program(name)]) == {name: "y = 2\n"}
    finally:
        del linecache.cache[name]


def test_large_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "MOST_FILE_BYTES", 10)
    monkeypatch.setattr(source_lines, "MOST_BYTES", 15)
    for name, size in (("a.py", 9), ("b.py", 9), ("c.py", 11), ("d.py", 5)):
        (tmp_path / name).write_text("#" * size)
    found = source_files([program(*(str(tmp_path / f"{name}.py") for name in "abcd"))])
    assert [Path(path).name for path in found] == ["a.py", "d.py"]


def test_a_file_is_read_once_while_asked_for_that_and_anew_later(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n")
    with each_read_once():
        first = source_text(str(path))
        path.write_text("x = 2\n")
        with each_read_once():
            assert source_text(str(path)) == first == "x = 1\n"
    assert source_text(str(path)) == "x = 2\n"
