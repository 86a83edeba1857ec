"""Files are read within bounds, and written whole or not at all."""

import os
import stat
import threading
from pathlib import Path

import pytest

from tilestep.files import read_file, require_writable, writable_directory, write_file, written_file

LIMIT = 1000


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * LIMIT)
    (tmp_path / "b").write_bytes(b"x" * (LIMIT + 1))
    assert read_file(tmp_path / "a", most_bytes=LIMIT) == b"x" * LIMIT
    with pytest.raises(OSError, match=r"It is larger than 1,000 B: .*/b'"):
        read_file(tmp_path / "b", most_bytes=LIMIT)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(OSError, match="It is no regular file"):
            read_file(path, most_bytes=LIMIT)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, most_bytes=LIMIT)


def test_a_file_is_written_and_written_again(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "é\n")
    write_file(tmp_path / "a", "shorter")
    write_file(str(tmp_path / "b"), b"\xff")
    assert ((tmp_path / "a").read_text(encoding="utf-8"), (tmp_path / "b").read_bytes()) == ("shorter", b"\xff")
    assert names(tmp_path) == {"a", "b"}


def test_a_new_file_has_the_permissions_that_open_gives_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "by_open").touch()
    (tmp_path / "private").touch(mode=0o600)
    for name in ("by_us", "private"):
        write_file(tmp_path / name, "x")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes["by_us"] == modes["by_open"]
    assert modes["private"] == 0o600


@pytest.mark.parametrize("target", ["file", "nowhere", "folder"])
def test_a_symbolic_link_is_replaced_and_not_followed(target: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    require_writable(link)
    assert link.is_symlink()
    write_file(link, "new")
    assert (link.is_symlink(), link.read_text(), (tmp_path / "file").read_text()) == (False, "new", "kept")
    assert names(tmp_path) == {"file", "folder", "link"}


def test_a_reader_meets_an_old_or_a_new_file_and_never_a_part(tmp_path: Path) -> None:
    path, contents = tmp_path / "a", ("a" * 300_000, "b" * 300_000)
    write_file(path, contents[0])
    over = threading.Event()

    def write(content: str) -> None:
        while not over.is_set():
            write_file(path, content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    met = {path.read_text() for _ in range(100)}
    over.set()
    for writer in writers:
        writer.join()
    assert met <= set(contents)
    assert names(tmp_path) == {"a"}


def test_what_cannot_be_written_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "none" / "a"):
        for use in (require_writable, lambda path: write_file(path, "x")):
            with pytest.raises(OSError) as caught:  # noqa: PT011  # which one depends on the path; that it names it is tested
                use(path)
            assert caught.value.filename == str(path)
    assert names(tmp_path) == {"folder"}


def test_what_may_not_be_written_is_an_error_with_its_path_and_stays(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "locked" / "b"
    path.write_text("kept")
    path.chmod(0o444)
    other.parent.mkdir(mode=0o500)
    if os.access(path, os.W_OK):
        pytest.skip("this user may write any file")
    for target in (path, other):
        for use in (require_writable, lambda target: write_file(target, "x")):
            with pytest.raises(PermissionError, match=str(target)):
                use(target)
    assert path.read_text() == "kept"


def test_a_pipe_and_a_device_are_written_to(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    require_writable(fifo)  # does not wait for a reader
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    write_file(fifo, "through")
    reader.join()
    assert read == ["through"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    write_file("/dev/null", "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_an_open_file_of_the_process_is_written_to_at_its_end(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w") as file:
        file.write("mine\n")
        file.flush()
        for name in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            require_writable(name)
            write_file(name, "and ours\n")
    assert (tmp_path / "a").read_text() == "mine\nand ours\nand ours\n"


def test_a_directory_is_tried_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / ".tilestep-probe").write_text("the user's")
    assert writable_directory(tmp_path / "new" / "er") == tmp_path / "new" / "er"
    writable_directory(tmp_path)
    assert names(tmp_path) == {".tilestep-probe", "new"}
    assert names(tmp_path / "new" / "er") == set()
    assert (tmp_path / ".tilestep-probe").read_text() == "the user's"


def test_a_file_stays_as_it_was_if_writing_its_parts_fails(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(TypeError), written_file(path) as file:
        file.writelines([b"new", "text"])
    assert (path.read_text(), names(tmp_path)) == ("old", {"a"})
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="It is no regular file"), written_file(tmp_path / "fifo"):
        pass
