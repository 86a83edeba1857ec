"""What a runtime may tell an emulator, without knowing whether one is there, and a dry emulator a runtime. Imports nothing of the rest."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, final

INFEED_TARGET: Final = "tilestep_infeed"  # what a program calls to take an element from its device's queue, and to send one
OUTFEED_TARGET: Final = "tilestep_outfeed"
UNKNOWN_ZERO_TARGET: Final = "tilestep_unknown_zero"  # what gives zeros that no compiler can fold

_serial = itertools.count(1)
_group: ContextVar[tuple[str, int] | None] = ContextVar("tilestep_program_group", default=None)


@final
class program_group:
    """Says that the programs dispatched inside are one program per IPU: `with program_group(name):`.

    Between members of a group an emulated IPU neither reloads its program nor pays the host's cost of a dispatch;
    together they need the resident values, the sum of their code and the largest of their transients. What one member
    makes and another takes in the same entry stays on the chip, and goes over IPU-Links to another IPU. Groups of one
    name are one group, also when entered again; the innermost group counts. Where no emulator listens nothing happens.

    Args: name: identifies the group; not empty.
    Raises: ValueError if `name` is empty.
    """

    __slots__ = ("_name", "_token")

    def __init__(self, name: str) -> None:
        if not name:
            raise ValueError("program_group() needs a name that is not empty")
        self._name = name
        self._token: Token[tuple[str, int] | None] | None = None

    def __enter__(self) -> None:
        self._token = _group.set((self._name, next(_serial)))

    def __exit__(self, *_: object) -> None:
        assert self._token is not None  # it was entered
        _group.reset(self._token)


# The innermost group's name and the serial number of this entry into it, or None outside of any group. Runs no bytecode: a Ctrl-C
# cannot come between a run and what is noted of it.
current_group: Callable[[], tuple[str, int] | None] = _group.get


@dataclass(frozen=True, kw_only=True)
class EffectiveBatch:
    """What an update of a loop's parameters is of.

    Attributes:
        loop: name of the loop's programs.
        microbatch: samples of a microbatch; None: nobody knows.
        count: microbatches that a replica accumulates for an update.
        replicas: that accumulate.
        microbatches: of an update, all replicas together.
        samples: the same in samples; None: nobody knows.
    """

    loop: str
    microbatch: int | None
    count: int
    replicas: int
    microbatches: int
    samples: int | None


class Listener(Protocol):
    """An emulator that takes hints."""

    platform: str

    def accumulated(self, batch: EffectiveBatch, steps: int) -> None:
        """A loop on the platform has done so many steps."""
        ...

    def set_apart(self, apart: bool) -> None:
        """Some thread is within `untimed` or `uploads_kept` from now on, or none is."""
        ...

    def waited_for(self, array: Any) -> bool:
        """Waits for an array of the platform's, so that a wait of the program's for it is still one; False: it cannot."""
        ...

    def moment(self) -> Any:
        """What stands for this moment of the program."""
        ...

    def upload(self, kept: list[tuple[Any, ...]], moment: Any) -> None:
        """What was kept happens now, and began at the moment."""
        ...


_untimed: ContextVar[bool] = ContextVar("tilestep_untimed", default=False)
_kept: ContextVar[list[tuple[Any, ...]] | None] = ContextVar("tilestep_kept_uploads", default=None)
_lock = threading.Lock()
_listener: Listener | None = None
_apart = 0  # threads within `untimed` or `uploads_kept`


def listen(listener: Listener) -> None:
    """`listener` takes the hints from now on."""
    global _listener
    with _lock:
        _listener = listener
        listener.set_apart(_apart > 0)


def _set_apart(change: int) -> None:
    global _apart
    with _lock:
        before, _apart = _apart, _apart + change
        if _listener is not None and (before > 0) != (_apart > 0):
            _listener.set_apart(_apart > 0)


@contextlib.contextmanager
def untimed() -> Iterator[None]:
    """Says that what this thread waits for and reads inside holds up nothing: the emulated program goes on meanwhile.

    For threads that only look on, and waits that the machine emulated would not need.
    """
    token = _untimed.set(True)
    _set_apart(1)
    try:
        yield
    finally:
        _set_apart(-1)
        _untimed.reset(token)


def wait_untimed(arrays: list[Any], wait: Callable[[list[Any]], object]) -> None:
    """Waits for arrays, which holds up nothing (see `untimed`), and is none of the program's own waits for them.

    JAX tells a platform of the first wait for an array only: so an emulator waits without it.

    Args: wait: what waits for arrays that no emulator waits for.
    """
    listener = _listener
    with untimed():
        wait(arrays if listener is None else [array for array in arrays if not listener.waited_for(array)])


# Whether this thread is within `untimed`; what it keeps its uploads in, or None. Neither runs bytecode.
is_untimed: Callable[[], bool] = _untimed.get
kept_uploads: Callable[[], list[tuple[Any, ...]] | None] = _kept.get


@contextlib.contextmanager
def uploads_kept() -> Iterator[list[tuple[Any, ...]]]:
    """What this thread puts on devices inside has no emulated time yet: it is kept in the list, for `upload`."""
    kept: list[tuple[Any, ...]] = []
    token = _kept.set(kept)
    _set_apart(1)
    try:
        yield kept
    finally:
        _set_apart(-1)
        _kept.reset(token)


def listens(platform: str) -> bool:
    """Whether there is an emulator of this platform that listens."""
    return _listener is not None and _listener.platform == platform


def accumulated(batch: EffectiveBatch, steps: int) -> None:
    """A loop that accumulates gradients has done so many steps, on a platform that `listens`."""
    if _listener is not None:
        _listener.accumulated(batch, steps)


def moment() -> Any:
    """This moment of the emulated program, for `upload`. Where no emulator listens it is nothing."""
    return None if _listener is None else _listener.moment()


def upload(kept: list[tuple[Any, ...]], since: Any) -> None:
    """What was kept comes to its devices now, and has been on its way since that moment."""
    if kept and _listener is not None:
        _listener.upload(kept, since)


dry_platforms: dict[str, Literal["error", "zeros"]] = {}  # on which nothing is computed for now, and what reading gives there


@contextlib.contextmanager
def nothing_computed(platform: str, values: Literal["error", "zeros"]) -> Iterator[None]:
    """Says that a platform's programs run dry inside: what is fed to them is checked but goes nowhere."""
    before = dry_platforms.get(platform)
    dry_platforms[platform] = values
    try:
        yield
    finally:
        if before is None:
            del dry_platforms[platform]
        else:
            dry_platforms[platform] = before
