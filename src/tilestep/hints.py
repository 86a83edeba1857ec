"""Hints from a training runtime to an emulator, if there is one, and from a dry run to the runtime. Imports no layer of tilestep."""

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, final

from tilestep.within import within

INFEED_TARGET: Final = "tilestep_infeed"  # custom call that takes an element from its device's queue
OUTFEED_TARGET: Final = "tilestep_outfeed"  # custom call that sends an element to its device's queue
CALL: Final = "tilestep.call"  # frontend attribute: operations with equal values are one codelet of a library; those with '' one each
WALL_TIME_SESSION: Final = "tilestep-trace"  # id of a session of JAX's profiler that needs no emulated time
UNKNOWN_ZERO_TARGET: Final = "tilestep_unknown_zero"  # custom call that gives zeros which no compiler can fold

# What the runtime's threads do, as annotations in a profile of JAX.
INFEED_WAIT: Final = "tilestep: a loop waits for its infeed"
INFEED_GATHER: Final = "tilestep: an infeed gathers elements"
INFEED_PUT: Final = "tilestep: an infeed puts a chunk on its devices"
OUTFEED_ROOM: Final = "tilestep: a loop waits for room in its outfeed"
OUTFEED_WAIT: Final = "tilestep: a reader waits for an outfeed"

_serial = itertools.count(1)
_group: ContextVar[tuple[str, int] | None] = ContextVar("tilestep_program_group", default=None)


@final
class program_group:
    """Says that the programs dispatched inside are one program per IPU: `with program_group(name):`.

    Between members of a group an emulated IPU neither reloads its program nor pays the host's cost of a dispatch. Together the members
    need their resident values, the sum of their code, and the largest of their transients. A value that one member makes and another takes
    in the same entry stays on the chip, and goes to another IPU over IPU-Links. Groups of one name are one group, also when entered again.
    The innermost group counts. Without an emulator nothing happens.

    Args:
        name: identifies the group; not empty.

    Raises:
        ValueError: if `name` is empty.
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


# The innermost group's name and the serial number of this entry into it, or None outside of any group. Runs no bytecode, so a Ctrl-C
# cannot come between a run and its entry in the journal.
current_group: Callable[[], tuple[str, int] | None] = _group.get


_task: ContextVar[tuple[int, str, int] | None] = ContextVar("tilestep_pipeline_task", default=None)


def pipeline_task(stage: int, kind: str, microbatch: int) -> None:
    """Says that this thread's dispatches belong to a task of a pipeline from now on, until another task or `no_pipeline_task`.

    A recording of an emulator has it. Nothing else depends on it.

    Args:
        stage: of the pipeline, from 0.
        kind: of the task, such as "forward".
        microbatch: from 0; -1 if the task is of no single one.
    """
    _task.set((stage, kind, microbatch))


def no_pipeline_task() -> None:
    """Says that this thread's dispatches belong to no task from now on."""
    _task.set(None)


# The task of this thread as (stage, kind, microbatch), or None. Runs no bytecode, as `current_group`.
current_task: Callable[[], tuple[int, str, int] | None] = _task.get


@dataclass(frozen=True, kw_only=True)
class EffectiveBatch:
    """The batch of one update of a loop's parameters.

    Attributes:
        loop: name of the loop's programs.
        microbatch: samples of a microbatch; None: unknown.
        count: microbatches that a replica accumulates for an update.
        replicas: replicas that accumulate.
        microbatches: of an update, all replicas together.
        samples: of an update, all replicas together; None: unknown.
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
        """Notes steps of a loop on the platform."""
        ...

    def groups_gone(self, names: Collection[str]) -> None:
        """Says that nothing enters these program groups any more."""
        ...

    def set_apart(self, apart: bool) -> None:
        """Says whether some thread is within `untimed` or `uploads_kept` from now on."""
        ...

    def waited_for(self, array: Any) -> bool:
        """Waits for an array, if it is the platform's, so that a later wait by the program still counts as one. Returns: whether it has."""
        ...

    def moment(self) -> Any:
        """A handle for this moment of the program."""
        ...

    def upload(self, kept: list[tuple[Any, ...]], moment: Any) -> None:
        """Lets kept uploads happen now, as if begun at the moment."""
        ...


_untimed: ContextVar[bool] = ContextVar("tilestep_untimed", default=False)
_kept: ContextVar[list[tuple[Any, ...]] | None] = ContextVar("tilestep_kept_uploads", default=None)
_lock = threading.Lock()
_listener: Listener | None = None
_apart = 0  # threads within `untimed` or `uploads_kept`
_own: ContextVar[Listener | None] = ContextVar("tilestep_own_listener", default=None)


def listen(listener: Listener) -> None:
    """Sends all hints to `listener` from now on."""
    global _listener
    with _lock:
        _listener = listener
        listener.set_apart(_apart > 0)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Sends the hints of this thread inside to `listener` alone, which is an emulator of its own."""
    return within(_own, listener)


_beside: ContextVar[tuple[Any, ...]] = ContextVar("tilestep_devices_beside", default=())


def with_devices(devices: tuple[Any, ...]) -> AbstractContextManager[None]:
    """Says that this thread uses devices inside which `jax.devices` does not give, because they are beside the process's own."""
    return within(_beside, devices)


def devices_beside(platform: str) -> tuple[Any, ...]:
    """The devices of a platform that this thread uses beside those of `jax.devices`; none if there are none."""
    return tuple(device for device in _beside.get() if device.platform == platform)


def _who_listens() -> Listener | None:
    return _own.get() or _listener


def _set_apart(change: int) -> None:
    global _apart
    with _lock:
        before, _apart = _apart, _apart + change
        if _listener is not None and (before > 0) != (_apart > 0):
            _listener.set_apart(_apart > 0)


@contextlib.contextmanager
def untimed() -> Iterator[None]:
    """Says that waits and reads of this thread inside take no emulated time: the emulated program goes on meanwhile.

    For threads that only look on, and for waits that the emulated machine would not need.
    """
    token = _untimed.set(True)
    _set_apart(1)
    try:
        yield
    finally:
        _set_apart(-1)
        _untimed.reset(token)


def wait_untimed(arrays: list[Any], wait: Callable[[list[Any]], object]) -> None:
    """Waits for arrays without emulated time (see `untimed`), and without counting as one of the program's own waits.

    JAX tells a platform of the first wait for an array only, so an emulator waits without JAX.

    Args:
        arrays: JAX arrays of any platform.
        wait: waits for the arrays of platforms without an emulator.
    """
    listener = _who_listens()
    with untimed():
        wait(arrays if listener is None else [array for array in arrays if not listener.waited_for(array)])


# Whether this thread is within `untimed`; the list of its kept uploads, or None. Neither runs bytecode.
is_untimed: Callable[[], bool] = _untimed.get
kept_uploads: Callable[[], list[tuple[Any, ...]] | None] = _kept.get


@contextlib.contextmanager
def uploads_kept() -> Iterator[list[tuple[Any, ...]]]:
    """Keeps uploads of this thread inside without an emulated time, until `upload` gives them one.

    Yields:
        The list of kept uploads.
    """
    kept: list[tuple[Any, ...]] = []
    token = _kept.set(kept)
    _set_apart(1)
    try:
        yield kept
    finally:
        _set_apart(-1)
        _kept.reset(token)


def listens(platform: str) -> bool:
    """Whether an emulator of this platform listens."""
    listener = _who_listens()
    return listener is not None and listener.platform == platform


def accumulated(batch: EffectiveBatch, steps: int) -> None:
    """Notes steps of a loop that accumulates gradients, on a platform of which `listens` is true.

    Args:
        batch: the batch of one update of the loop.
        steps: microbatches that each replica has done.
    """
    listener = _who_listens()
    if listener is not None:
        listener.accumulated(batch, steps)


def groups_gone(names: Collection[str]) -> None:
    """Says that nothing enters these program groups any more, so that an emulator may forget them."""
    if _listener is not None:
        _listener.groups_gone(names)


def groups_gone_with(owner: object, names: Collection[str]) -> None:
    """Says so of the groups that only `owner` enters, once it is gone. Args: names: of the groups; more may be added to them."""
    weakref.finalize(owner, groups_gone, names).atexit = False


def moment() -> Any:
    """A handle for this moment of the emulated program, for `upload`; None without an emulator."""
    listener = _who_listens()
    return None if listener is None else listener.moment()


def upload(kept: list[tuple[Any, ...]], since: Any) -> None:
    """Lets kept uploads arrive at their devices now.

    Args:
        kept: the list of `uploads_kept`.
        since: the `moment` at which they began.
    """
    listener = _who_listens()
    if kept and listener is not None:
        listener.upload(kept, since)


dry_platforms: dict[str, Literal["error", "zeros"]] = {}  # platforms that compute nothing for now, and the result of reading there


@contextlib.contextmanager
def nothing_computed(platform: str, values: Literal["error", "zeros"]) -> Iterator[None]:
    """Says that a platform's programs run dry inside: elements that are fed to them are checked and dropped.

    Args:
        platform: name of the platform.
        values: the result of reading an array there.
    """
    before = dry_platforms.get(platform)
    dry_platforms[platform] = values
    try:
        yield
    finally:
        if before is None:
            del dry_platforms[platform]
        else:
            dry_platforms[platform] = before
