"""Keeps apart two programs that save in one directory: who saves holds a lock on a file there, which its end releases, whatever ends it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import threading
import warnings
import weakref
from pathlib import Path
from typing import Final, final

from tilestep.errors import CheckpointError
from tilestep.messages import plain

_FILE: Final = "lock"
_MOST_READ_BYTES: Final = 200
_WAY_OUT: Final = "one directory belongs to one run: wait for its end, or save in another directory"
_HAS_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

_held: Final[weakref.WeakValueDictionary[Path, Lock]] = (
    weakref.WeakValueDictionary()
)  # by this process: the system keeps processes apart, and nothing in one
_guard: Final = threading.Lock()


def require_no_link(*paths: Path) -> None:
    """Raises: OSError for a file or folder that may be elsewhere."""
    for path in paths:
        if path.is_symlink():
            raise OSError(errno.ELOOP, f"{plain(path.name)} is a link, which no checkpoint has")


@final
class Lock:
    """The lock of a process's part of a directory, held as long as somebody refers to it: a Ctrl-C may come between any two lines.

    It is one of `fcntl.lockf`, which processes that are forked do not inherit: workers of a dataset may outlive a program that is killed.

    Args: part: the folder. owner: who saves, in this process.
    Raises: CheckpointError, which names the holder, if another program has it, or the file cannot be written.
    """

    def __init__(self, part: Path, owner: object) -> None:
        self._descriptor, self.owner = -1, owner
        try:
            require_no_link(part, part / _FILE)
            part.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(part / _FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"pid {os.getpid()} on {socket.gethostname()}".encode()[:_MOST_READ_BYTES], 0)
        except OSError as error:
            if self._descriptor >= 0 and error.errno in _HAS_NO_LOCKS:
                lacks = (
                    f"the file system of {plain(part)} has no locks ({error.strerror}): programs that save there at once are not kept apart"
                )
                warnings.warn(lacks, RuntimeWarning, stacklevel=3)
                return
            why = f"checkpoints cannot be saved in {plain(part)}: {error.strerror or error}"
            if self._descriptor >= 0 and error.errno in (errno.EACCES, errno.EAGAIN):
                said = os.pread(self._descriptor, _MOST_READ_BYTES, 0).decode(errors="replace")
                why = f"{plain(part)} is being saved to by another program ({plain(said)}): {_WAY_OUT}"
            self.__del__()  # at once: it would release a lock that this process takes later
            raise CheckpointError(why) from None

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)  # which releases it
            self._descriptor = -1


def locked(part: Path, owner: object) -> Lock:
    """The lock of a part; who has it already gets it again. Raises: CheckpointError if another one of this process has it, or as `Lock`."""
    with _guard:
        holder = _held.get(part)
        if holder is None:
            holder = _held[part] = Lock(part, owner)
        elif holder.owner is not owner:
            raise CheckpointError(f"{plain(part)} is being saved to by another run of this process (pid {os.getpid()}): {_WAY_OUT}")
        return holder
