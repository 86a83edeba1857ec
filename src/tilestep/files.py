"""Files that users name: read within bounds, written whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Final

_STANDARD_STREAMS: Final = ("/dev/stdout", "/dev/stderr")
_NEW_FILE_MODE: Final = 0o666  # the umask takes its part
_PERMISSIONS: Final = 0o777


def read_file(path: str | PathLike[str], *, most_bytes: int) -> bytes:
    """A regular file's bytes. Waits for nothing and reads no device.

    Raises: OSError naming the path if it cannot be read, is no regular file, or is larger than `most_bytes`.
    """
    with opened_file(path) as file, _naming(path):
        content = file.read(most_bytes + 1)  # the size in its status is 0 where the kernel makes the content
        if len(content) > most_bytes:
            raise OSError(errno.EFBIG, f"It is larger than {most_bytes:,} B")
        return content


@contextlib.contextmanager
def opened_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A regular file, for reading part by part. Waits for nothing and opens no device.

    Raises: OSError naming the path if it cannot be opened, or is no regular file. Errors of the block stay as they are.
    """
    with contextlib.ExitStack() as stack:
        with _naming(path):
            _require_regular(os.stat(path))  # before it is opened: the writer of a FIFO would take that for its reader
            file = stack.enter_context(open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb"))
            _require_regular(os.fstat(file.fileno()))
        yield file


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "It is no regular file")


def write_file(path: str | PathLike[str], content: str | bytes) -> None:
    """Writes a file whole or not at all: readers, and other processes that write it, meet an old or a new one, never a part.

    The new file takes the old one's place and permissions. A symbolic link in its place is replaced, not followed. A pipe or
    device, /dev/stdout too, is written to as it is.

    Raises: OSError naming the path if that cannot be done; then an old file is still there.
    """
    path, data = Path(path), content.encode() if isinstance(content, str) else content
    with _naming(path):
        if _is_stream(path):
            with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), "wb") as file:
                file.write(data)
            return
        mode = _mode(path)
        with _new_file_beside(path) as (descriptor, name):
            with open(descriptor, "wb") as file:
                file.write(data)
                if mode is not None:
                    os.fchmod(descriptor, mode)
            os.replace(name, path)


@contextlib.contextmanager
def written_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A regular file that the block writes part by part. It takes the place of `path` after the block, and not if the block raises.

    Raises: OSError naming the path if that cannot be done, also for a pipe or device in its place; then an old file is still there. Errors
        of the block stay as they are.
    """
    path = Path(path)
    with contextlib.ExitStack() as stack:
        with _naming(path):
            if _is_stream(path):
                raise OSError(errno.EINVAL, "It is no regular file")
            mode = _mode(path)
            descriptor, name = stack.enter_context(_new_file_beside(path))
            file = stack.enter_context(open(descriptor, "wb"))
        yield file
        with _naming(path):
            file.flush()
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.replace(name, path)


def require_writable(path: str | PathLike[str]) -> None:
    """Raises: OSError naming the path if `write_file` could not write there now. Changes nothing."""
    path = Path(path)
    with _naming(path):
        if _is_stream(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        _mode(path)
        with _new_file_beside(path) as (descriptor, _):
            os.close(descriptor)


def writable_directory(directory: str | PathLike[str]) -> Path:
    """Makes a directory if it is missing. Raises: OSError naming it if it cannot be made, or no file can be made in it."""
    path = Path(directory)
    with _naming(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:  # a file: that it exists tells nobody what is wrong
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
        with _new_file_beside(path / "any") as (descriptor, _):
            os.close(descriptor)
    return path


@contextlib.contextmanager
def filled_directory(directory: str | PathLike[str]) -> Iterator[Path]:
    """A directory for the files that the block writes, made if it is missing. If the block raises, none that was made stays empty.

    Raises: OSError as `writable_directory`. Errors of the block stay as they are.
    """
    path = Path(directory)
    with _naming(path):
        missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        yield writable_directory(path)
    except BaseException:
        for each in missing:
            with contextlib.suppress(OSError):  # it is not empty, or was never made
                each.rmdir()
        raise


@contextlib.contextmanager
def _naming(path: str | PathLike[str]) -> Iterator[None]:
    """Errors of the block name `path`, whatever file beside it they are of."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    except ValueError as error:  # a NUL, or a character that the file system's encoding lacks
        raise OSError(errno.EINVAL, "No file can have such a name", os.fspath(path)) from error


@contextlib.contextmanager
def _new_file_beside(path: Path) -> Iterator[tuple[int, str]]:
    """(descriptor, name) of a new file in the folder of `path`; it is gone after the block, unless it has another name by then."""
    name = str(path.with_name(f".tilestep-{secrets.token_hex(8)}"))
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _NEW_FILE_MODE)
    try:
        yield descriptor, name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _is_stream(path: Path) -> bool:
    """Whether writing goes into the file instead of replacing it: a pipe, device or socket, or an open file of a process."""
    try:
        found = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(found):
        folder = os.path.realpath(path.parent)
        return folder.startswith("/proc/") or os.path.join(folder, path.name) in _STANDARD_STREAMS
    return not (stat.S_ISREG(found) or stat.S_ISDIR(found))


def _mode(path: Path) -> int | None:
    """Permissions that a new file takes over from the regular file in its place; None if there is none.

    Raises: OSError if a directory is in its place, or a file that must not be written.
    """
    try:
        found = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found):
        return None
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return found & _PERMISSIONS
