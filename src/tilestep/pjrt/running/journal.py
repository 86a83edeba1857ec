"""The journal: the actions of the host program on the platform, in order. A player makes emulated time of them, later.

A dispatch only appends an entry. So emulated time costs nothing where nobody looks.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, final

from tilestep import hints
from tilestep.pjrt import _native
from tilestep.pjrt.platform import PLATFORM
from tilestep.pjrt.running.entries import MomentWanted, PlannedRun, RawEntry, RunEntry, Upload, named
from tilestep.pjrt.running.host_notes import Contents, current_line
from tilestep.sim.calls import Accumulated, Copy, Moment, Put, Read, Wait

_is_under_way: ContextVar[bool] = ContextVar("tilestep_unseen_wait", default=False)
is_under_way: Callable[[], bool] = _is_under_way.get  # whether JAX asks for a value's address only because of `wait_unseen`


def wait_unseen(array: Any) -> bool:
    """Waits for an array of the platform without telling JAX.

    Returns: False if the array is of another platform or has no value; then JAX's own wait says why.
    """
    if any(device.platform != PLATFORM for device in array.devices()):
        return False
    token = _is_under_way.set(True)
    try:
        for shard in array.addressable_shards:
            shard.data.unsafe_buffer_pointer()
    except RuntimeError:
        return False
    finally:
        _is_under_way.reset(token)
    return True


_REPLAY_EVERY = 4096  # entries; bounds the journal's memory, not its time


class EventSource(Protocol):
    """A device of the platform as the journal sees it: the type and the function with which C appends entries about its values."""

    note_wait: tuple[Any, ...]
    note_read: tuple[Any, ...]
    note_put: tuple[Any, ...] | None


@final
class Journal:
    """The order of events of one platform.

    Attributes:
        entries: that are not replayed yet.
        note_wait, note_read, note_put: (type of entry, function that appends it), for C. note_run: the same in the other order.
            note_wait has the function that gives the user's line, too, or None.
        devices: that have these, too.
        contents: of uploads; None unless a recording keeps the calls.
        dry_cycles: of all dry runs, for their bound.
        gone: keys of programs and names of groups that nothing dispatches any more; behind the entries that do.
    """

    platform = PLATFORM

    def __init__(self, replay_some: Callable[[], object], *, looks: bool = True) -> None:
        """Args: replay_some: called when many entries have gathered.
        looks: whether the user's lines and the bytes of uploads are looked at while a recording keeps the calls.
        """
        self._replay_some, self._looks, self._replay_at = replay_some, looks, _REPLAY_EVERY
        self.entries: deque[RawEntry] = deque()
        self._append: Callable[[RawEntry], None] = self.entries.append
        self.devices: Sequence[EventSource] = ()
        self.note_run = (self.entries.append, RunEntry)
        self.contents: Contents | None = None
        self.dry_cycles = 0
        self.gone: deque[int | str] = deque()
        self._choose_notes()

    def put(self, value: int, ipu: int, size_bytes: int, on_host: bool, contents: int = 0) -> None:
        """A host array became the value. Args: contents: number of its bytes, equal for equal bytes; 0: unknown."""
        self._add((Put, value, ipu, size_bytes, on_host, None, contents))

    def copy(self, source: int, target: int, ipu: int, on_host: bool) -> None:
        """`target` is a copy of `source` on another IPU or memory."""
        self._add((Copy, source, target, ipu, on_host, hints.current_group()))

    def read(self, value: int) -> None:
        """The host looked at the value."""
        self._add((Read, value, current_line() if self.contents else None))

    def run(
        self,
        planned: PlannedRun,
        values: tuple[int, ...],
        first: int,
        counters: list[list[Any]],
        undonated: tuple[int, ...],
        done: dict[str, Any],
    ) -> None:
        """A program was dispatched.

        Args: planned, values, first, counters, undonated: the fields of `Run`. done: what the dispatch has done; gets "noted".
        """
        line = current_line() if self.contents else None
        entry = (RunEntry, planned, values, first, counters, undonated, hints.current_group(), hints.current_task(), line)
        _native.once(done, "noted", self._append, entry)
        self._replay_now_and_then()

    def moment(self) -> list[Moment]:
        """A cell that will hold this moment, once the entries up to here are replayed."""
        cell: list[Moment] = []
        self._add((MomentWanted, cell))
        return cell

    def upload(self, kept: Sequence[RawEntry], moment: Any) -> None:
        """The `Put`s that another thread made and kept happen now, as if begun at `moment`."""
        for entry in kept:
            self._add((Upload, named(entry), moment))

    def waited_for(self, array: Any) -> bool:
        """Waits without telling JAX, because JAX remembers that it has waited and would not report the user's own later wait.

        Returns: False if the array is of another platform or has no value; then JAX's own wait says why.
        """
        return wait_unseen(array)

    def accumulated(self, batch: hints.EffectiveBatch, steps: int) -> None:
        """A loop that accumulates gradients has done so many steps."""
        self._add((Accumulated, batch, steps))

    def groups_gone(self, names: Collection[str]) -> None:
        """Nothing enters these program groups any more."""
        self.gone.extend(names)

    def set_apart(self, apart: bool) -> None:
        """From now on some thread's events (or no thread's) differ from the program's own: see `hints`."""
        self._append = self._append_if_timed if apart else self.entries.append
        self._choose_notes()

    def keep_notes(self, keep: bool) -> None:
        """Says whether the user's lines and the bytes of uploads are looked at from now on. The short ways of C leave them out."""
        if self._looks:
            _native.set_watched(keep)
            self.contents = Contents() if keep else None
        self._choose_notes()

    def _choose_notes(self) -> None:
        """Tells C how it appends entries from now on."""
        self.note_wait: tuple[Any, ...] = (Wait, self._append, None if self.contents is None else current_line)
        self.note_read: tuple[Any, ...] = (Read, self._append)
        self.note_put: tuple[Any, ...] = (Put, self._append)
        for device in self.devices:
            device.note_wait, device.note_read = self.note_wait, self.note_read
            if device.note_put is not None:
                device.note_put = (*self.note_put, *device.note_put[2:])

    def _append_if_timed(self, entry: RawEntry) -> None:
        kind = entry[0]
        kept = hints.kept_uploads()
        if kept is not None and kind is Put:
            kept.append(entry)
        elif not (hints.is_untimed() and kind in (Wait, Read)):
            self.entries.append(entry)

    def _add(self, entry: RawEntry) -> None:
        self._append(entry)
        self._replay_now_and_then()

    def _replay_now_and_then(self) -> None:
        if len(self.entries) >= self._replay_at:
            self._replay_some()
            self._replay_at = len(self.entries) + _REPLAY_EVERY
