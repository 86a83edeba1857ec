"""Keeps apart two programs that save in one directory: who saves holds a lock on a file there, which its end releases, whatever ends it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tilestep.errors import CheckpointError
from tilestep.messages import plain

_FILE: Final = "lock"
_MOST_BYTES: Final = 200  # of what the file says
_WAY_OUT: Final = "one directory belongs to one run: wait for its end, or save in another directory"
_CANNOT: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system without locks

_held: Final[dict[Path, object]] = {}  # by this process: the system keeps processes apart, and nothing in one
_guard: Final = threading.Lock()


def require_no_link(*paths: Path) -> None:
    """Raises: OSError for a file or folder that may be elsewhere."""
    for path in paths:
        if path.is_symlink():
            raise OSError(errno.ELOOP, f"{plain(path.name)} is a link, which no checkpoint has")


@contextlib.contextmanager
def locked(part: Path, owner: object) -> Iterator[None]:
    """Holds the lock of a process's part of a directory. Who holds it already goes on.

    It is one of `fcntl.lockf`, which processes that are forked do not inherit: workers of a dataset may outlive a program that is killed.

    Args: owner: who saves, in this process.
    Raises: CheckpointError, which names the holder, if another one has it, or the file cannot be written.
    """
    with _guard:
        holder = _held.get(part)
        if holder is not None and holder is not owner:
            raise CheckpointError(f"{plain(part)} is being saved to by another run of this process (pid {os.getpid()}): {_WAY_OUT}")
        descriptor = _lock(part) if holder is None else None
        _held[part] = owner
    try:
        yield
    finally:
        if descriptor is not None:
            with _guard:
                del _held[part]
                os.close(descriptor)  # which releases it


def _lock(part: Path) -> int:
    """The descriptor of the locked file."""
    try:
        require_no_link(part, part / _FILE)
        part.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part / _FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise CheckpointError(f"checkpoints cannot be saved in {plain(part)}: {error.strerror or error}") from None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()} on {socket.gethostname()}".encode()[:_MOST_BYTES], 0)
    except OSError as error:
        if error.errno in _CANNOT:
            warnings.warn(
                f"the file system of {plain(part)} has no locks ({error.strerror}): programs that save there at once are not kept apart",
                RuntimeWarning,
                stacklevel=2,
            )
            return descriptor
        said = os.pread(descriptor, _MOST_BYTES, 0).decode(errors="replace")
        os.close(descriptor)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise CheckpointError(f"{plain(part)} is being saved to by another program ({plain(said)}): {_WAY_OUT}") from None
        raise CheckpointError(f"checkpoints cannot be saved in {plain(part)}: {error.strerror or error}") from None
    return descriptor
