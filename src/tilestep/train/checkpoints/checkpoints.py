"""Checkpoints of a training run: its state and where its feeds are, saved in the background and restored by one call."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, final

import jax
from numpy.typing import NDArray

from tilestep.errors import CheckpointError, Preempted
from tilestep.messages import shown
from tilestep.train.checkpoints import arrays as _arrays
from tilestep.train.checkpoints.lock import Lock, locked
from tilestep.train.checkpoints.metadata import FORMAT, Leaf, Metadata, Piece, Stored, packed, states_of, unpacked
from tilestep.train.checkpoints.preemption import Preemption
from tilestep.train.checkpoints.storage import Storage, digest, orbax
from tilestep.train.ctrl_c import CtrlC, whole
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.feeds.outfeed_queue import OutfeedQueue
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import items_of, require_bools
from tilestep.train.patience import Aloud
from tilestep.train.schedules.partition import Partition
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

Infeeds = InfeedQueue | Sequence[InfeedQueue] | Mapping[str, InfeedQueue]
Outfeeds = OutfeedQueue | Sequence[OutfeedQueue] | Mapping[str, OutfeedQueue]
Facts = Mapping[str, object]

_MOST_STEPS: Final = 10**18 - 1
_ONE: Final[Mapping[type, str]] = {InfeedQueue: "infeed", OutfeedQueue: "outfeed"}  # the name of a loop's only queue of that kind
_waited_for: set[Checkpoints] = set()  # at the program's end: those that save, or have an error that nobody has been told of


@final
class Checkpoints:
    """A directory of checkpoints of one training run.

    A checkpoint has all that the continuation depends on: the state with its random keys and counts, the position of each InfeedQueue, and
    what nobody has read of each OutfeedQueue. A run that was killed, and goes on from its latest checkpoint, ends with the same bits as one
    that was not. `repeat` and `Pipeline.run` restore and save by themselves if they are given one; or call `save` and `restore`.

    A checkpoint is there whole or not at all. Each array has a digest, which `restore` verifies. Of several processes each saves what its
    own devices have; the directory must be one that all of them see. One thread saves: two at once are not kept apart.

    Args:
        directory: where they are. It is made when the first one is saved.
        every: steps of a `repeat`, or updates of a pipeline, from one checkpoint to the next. A loop saves where a chunk ends, and its
            chunks are no longer than this.
        seconds: wall time from one checkpoint to the next, instead or besides. Not with several processes, whose clocks differ.
        keep: how many stay, the newest ones; None: all.
        background: whether a thread computes digests and writes while the run goes on. The state is copied to the host before that.

    Raises:
        TypeError, ValueError: if an argument is out of bounds.
        UnsupportedError: if Orbax is not installed (extra "checkpoints").
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        every: int | None = None,
        seconds: float | None = None,
        keep: int | None = 3,
        background: bool = True,
    ) -> None:
        require_bools(background=background)
        self.every: Final = None if every is None else whole_number("every", every, least=1)
        if seconds is not None and not (type(seconds) in (int, float) and seconds > 0):
            raise ValueError(f"seconds is {shown(seconds)}: it must be a number above 0, or None")
        self.seconds: Final = seconds
        self.keep: Final = None if keep is None else whole_number("keep", keep, least=1)
        name = os.fspath(directory)
        if type(name) is not str or not name or "\0" in name or "://" in name:
            raise ValueError(f"directory is {shown(directory)}: it must be the name of a directory that this machine's file system has")
        self.directory: Final = Path(name).absolute()
        if (path := str(self.directory)).encode(errors="ignore").decode() != path:  # bytes that are no text
            raise ValueError(f"directory is {shown(path)}: Orbax saves in directories whose whole path is UTF-8, so give another one")
        self.background: Final = background
        orbax()
        self._written: threading.Event | None = None  # set by the thread that writes: Python's `join` returns at once after a Ctrl-C in it
        self._writer = 0  # the process whose thread it is
        self._error: BaseException | None = None
        self.served: str | None = None  # the run that has used them and is done

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.wait()
        except CheckpointError as failed:
            if error is None:
                raise
            error.add_note(str(failed))

    @functools.cached_property
    def _storage(self) -> Storage:
        """Made when it is needed, because JAX may join the processes later than this object is made."""
        # Processes need not end at the same moment: the latest step that all have must not be one that the fastest has dropped.
        keep = self.keep if self.keep is None or _jax.process_count() == 1 else self.keep + 1
        return Storage(self.directory, _jax.process_index(), keep)

    # --------------------------------------------------------------------------------------------------------- by hand

    def save(self, step: int, state: Pytree, *, feeds: Infeeds = (), outfeeds: Outfeeds = ()) -> None:
        """Saves a checkpoint; with `background` it returns when the state is copied to the host. A Ctrl-C waits for that.

        Args:
            step: steps done, more than at the latest checkpoint.
            state: a pytree of arrays, random keys and numbers, of any shapes and places.
            feeds, outfeeds: queues whose position and unread values belong to it: one, a list, or a mapping by name. No loop uses them.

        Raises:
            CheckpointError: if it cannot be saved, or the one before could not.
            QueueError: while a loop uses a feed.
        """
        number = whole_number("step", step, least=0, most=_MOST_STEPS)
        infeeds = {name: queue.state() for name, queue in _named("feeds", feeds, InfeedQueue).items()}
        ctrl_c = CtrlC()
        ctrl_c.begin()
        try:
            self._save(number, state, infeeds, _named("outfeeds", outfeeds, OutfeedQueue), {})
        finally:
            has_come = ctrl_c.end()
        if has_come:
            raise KeyboardInterrupt

    def latest(self) -> int | None:
        """The newest step that was saved whole; None if there is none. Waits for one that is being saved.

        Raises: CheckpointError if the directory cannot be read.
        """
        self.wait()
        steps, damaged = self._storage.steps()
        newest = max(damaged, default=-1)
        if newest > max(steps, default=-1):
            raise CheckpointError(
                f"the newest checkpoint is damaged: {damaged[newest]}. Remove its folder, or restore an earlier step: {steps}"
            )
        return steps[-1] if steps else None

    def steps(self) -> list[int]:
        """All steps that were saved whole, in order, but for those whose metadata are damaged. Waits for one that is being saved."""
        self.wait()
        return self._storage.steps()[0]

    def restore(
        self,
        *,
        like: Pytree,
        feeds: Infeeds = (),
        outfeeds: Outfeeds = (),
        step: int | None = None,
        partitions: tuple[Partition, Partition] | None = None,
    ) -> Pytree:
        """The state of a checkpoint, and the feeds where they were.

        Args:
            like: a pytree of the same structure, shapes and dtypes: arrays, or `jax.ShapeDtypeStruct`s with shardings. Each array goes to
                where the one in `like` is: another mesh, number of devices, memory kind or platform than it was saved from is fine.
            feeds, outfeeds: as for `save`; they go to the saved position, and get the saved unread values.
            step: of the checkpoint; None: the latest.
            partitions: (that of the pipeline that was saved, that of `like`), for a `PipelineState` whose layers are divided into other
                stages. Each layer has the parameters and the optimiser's state that it had. What a stage has once for all of its layers,
                such as a count of updates, must be equal in the stages that they come from.

        Returns:
            The state. NumPy arrays and numbers in `like` come back as such.

        Raises:
            CheckpointError: if there is no such checkpoint, it is damaged, or of another state. Nothing has changed then.
            QueueError: while a loop uses a feed.
            TypeError, ValueError: if `partitions` are none, are of other layers, or `like` is not of the second one's stages.
        """
        origins: Mapping[str, tuple[str, ...]] | None = None
        if partitions is not None:
            pair = items_of("partitions", partitions, "a pair of Partitions: of what was saved, and of like")
            if not hasattr(like, "origins") or [type(each) for each in pair] != [Partition] * 2:
                raise TypeError(f"partitions is {shown(partitions)}: it must be a pair of Partitions, for a like that is a PipelineState")
            origins = like.origins(*pair)
        own = _named("feeds", feeds, InfeedQueue), _named("outfeeds", outfeeds, OutfeedQueue)
        step = self.latest() if step is None else whole_number("step", step, least=0, most=_MOST_STEPS)
        if step is None:
            raise CheckpointError(f"{self.directory} has no checkpoint: save one first")
        self.wait()
        known, damaged = self._storage.steps()
        if step not in known and step not in damaged:
            raise CheckpointError(f"{self.directory} has no checkpoint of step {step:,}: it has {known}")
        return self._restore(step, like, *own, None, origins)

    def wait(self) -> None:
        """Waits until nothing is being saved. Raises: CheckpointError if the last checkpoint could not be saved."""
        if self._written is not None and self._writer == os.getpid():  # a child that was forked has not the thread
            with Aloud(lambda: f"a checkpoint to be written in {self.directory}"):
                self._written.wait()
        self._written = None
        error, self._error = self._error, None
        if error is not None:
            _waited_for.discard(self)
            raise error

    # ----------------------------------------------------------------------------------------------------------- inside

    def locked(self) -> Lock:
        """As long as it is referred to, nobody else saves in this process's part. Raises: CheckpointError if another one does."""
        return locked(self._storage.folder(_jax.process_index()), self)

    @whole
    def _save(self, step: int, state: Pytree, infeeds: Mapping[str, Any], outfeeds: Mapping[str, OutfeedQueue], facts: Facts) -> None:
        self.wait()
        lock, written = [self.locked()], threading.Event()

        def write() -> None:
            try:
                self._storage.write(metadata(), arrays)
                _waited_for.discard(self)
            except BaseException as error:  # the thread that waits raises it
                self._error = error
            finally:
                lock.clear()
                written.set()

        try:
            metadata, arrays = self._taken(step, state, infeeds, outfeeds, facts)
        except BaseException:
            lock.clear()
            raise
        if self.background:
            _wait_at_exit()
            _waited_for.add(self)
            threading.Thread(target=write, name=f"tilestep checkpoint {step}").start()
            self._written, self._writer = written, os.getpid()
        else:
            write()
            self.wait()

    def _taken(
        self, step: int, state: Pytree, infeeds: Mapping[str, Any], outfeeds: Mapping[str, OutfeedQueue], facts: Facts
    ) -> tuple[Callable[[], Metadata], dict[str, NDArray[Any]]]:
        """(What makes the metadata, which takes as long as the digests; the arrays that it fills), when all is copied to the host."""
        steps, damaged = self._storage.steps()
        newest = max((*steps, *damaged), default=-1)
        # Of several processes one may have saved this step already, which with what a killed run has left of the others looks whole.
        if newest > step or (newest == step and _jax.process_count() == 1):
            why = f", damaged ({damaged[newest]}; remove its folder if nothing reads it)" if newest in damaged else ""
            raise CheckpointError(
                f"{self.directory} has a checkpoint of step {newest:,} already{why}, and step {step:,} is not after it: go on from the "
                "latest, or save in another directory"
            )
        arrays: dict[str, NDArray[Any]] = {}
        feed_arrays: dict[str, NDArray[Any]] = {}

        def keep(array: NDArray[Any]) -> str:
            name = f"f{len(feed_arrays)}"
            feed_arrays[name] = _arrays.native(array)
            return name

        fed = {name: packed(own, f"the state of feed {name!r}", keep) for name, own in infeeds.items()}
        unread = {name: packed(queue.unread(), f"what nobody has read of outfeed {name!r}", keep) for name, queue in outfeeds.items()}
        with Aloud(lambda: f"the device, to save step {step:,} in {self.directory}"):
            records = _arrays.take(state, arrays, digest)

        def metadata() -> Metadata:
            stored = (Stored(name=n, shape=a.shape, dtype=a.dtype.name, sha256=digest(a)) for n, a in feed_arrays.items())
            arrays.update(feed_arrays)
            return Metadata(
                format=FORMAT,
                step=step,
                saved_at=int(time.time()),
                versions=(
                    ("tilestep", importlib.metadata.version("tilestep")),
                    ("jax", jax.__version__),
                    ("python", platform.python_version()),
                ),
                process=_jax.process_index(),
                processes=_jax.process_count(),
                program=tuple((name, str(value)) for name, value in facts.items()),
                leaves=records(),
                infeeds=json.dumps(fed),
                outfeeds=json.dumps(unread),
                feed_arrays=tuple(stored),
            )

        return metadata, arrays

    def _restore(
        self,
        step: int,
        like: Pytree,
        infeeds: Mapping[str, InfeedQueue],
        outfeeds: Mapping[str, OutfeedQueue],
        facts: Facts | None,
        origins: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Pytree:
        where = f"{self.directory}, step {step:,}"
        part = functools.cache(functools.partial(self._storage.metadata, step))
        leaves = functools.cache(lambda process: {leaf.path: leaf for leaf in part(process).leaves})
        values = functools.cache(lambda process, array, name: self._storage.array(part(process), array, name))
        first, saved = part(0), leaves(0)
        own = _jax.process_index() if _jax.process_index() < first.processes else 0
        origins = {path: (path,) for path in saved} if origins is None else origins
        moved = {old for olds in origins.values() for old in olds}
        _arrays.require_like(
            [
                *(replace(saved[olds[0]], path=path) for path, olds in origins.items() if all(old in saved for old in olds)),
                *(leaf for leaf in first.leaves if leaf.path not in moved),
            ],
            like,
            where,
        )
        program = dict(first.program)
        for name, value in ({} if facts is None else facts).items():
            if program.get(name) != str(value):
                raise CheckpointError(
                    f"{where} is of another program: its {name} is {program.get(name, 'not given')}, and here it is {value}. "
                    "Checkpoints.restore(like=...) takes the state alone, with which another program may go on in another directory"
                )

        def pieces(leaf: Leaf) -> Iterator[tuple[Piece, Callable[[], NDArray[Any]]]]:
            for process in (own, *(process for process in range(first.processes) if process != own)):
                held = leaves(process).get(leaf.path)
                if held is None or (held.shape, held.dtype) != (leaf.shape, leaf.dtype):
                    raise CheckpointError(f"{where} is damaged: its processes have not saved the same state{leaf.path}")
                for piece in held.pieces:
                    yield piece, functools.partial(values, process, piece.array, f"state{leaf.path}")

        def states(what: str, queues: Mapping[str, Any], text: str) -> dict[str, Any]:
            states = states_of(text, what)
            if set(states) != set(queues):
                raise CheckpointError(
                    f"{where} was saved with {what} {sorted(states) or 'none'}, and here are {sorted(queues) or 'none'}: give the same ones"
                )
            arrays = {array.name: functools.partial(values, own, array, "a state of a feed") for array in part(own).feed_arrays}
            return {name: unpacked(state, f"{where}, {what}", arrays) for name, state in states.items()}

        positions = states("feeds", infeeds, part(own).infeeds)
        unread = states("outfeeds", outfeeds, part(own).outfeeds)
        for queue in outfeeds.values():
            queue.require_empty()
        for olds in origins.values():
            for old in olds[1:]:
                if _arrays.whole(saved[old], pieces).tobytes() != _arrays.whole(saved[olds[0]], pieces).tobytes():
                    raise CheckpointError(f"{where}: state{old} is not equal to state{olds[0]}, and a stage here has layers of both")
        flat, structure = _jax.tree_util.tree_flatten_with_path(like)
        restored = [_arrays.put(saved[origins[_jax.tree_util.keystr(path)][0]], leaf, pieces) for path, leaf in flat]
        try:
            for name, queue in infeeds.items():
                queue.restore(positions[name])
            for name, queue in outfeeds.items():
                queue.restore_unread(unread[name])
        except (TypeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"{where} has a state of a feed that cannot be restored: {error}") from None
        return _jax.tree.unflatten(structure, restored)


@final
class SavingLoop:
    """One loop that saves by itself. It begins with the latest checkpoint, if there is one.

    Args:
        name: of the loop. state: of a run without a checkpoint. infeeds, outfeeds: by name. total: its steps. facts: on which an exact
            continuation depends, by name.
        like: gives what a checkpoint is restored like; None: it is like `state`. It may use the feeds before they are restored.
    Attributes: state: with which it begins. done, left: steps that were done before, and that remain.
    Raises:
        ValueError: if the run before has used the same Checkpoints: it would be taken for the same run, which is done.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        name: str,
        state: Pytree,
        *,
        infeeds: Mapping[str, InfeedQueue | None],
        outfeeds: Mapping[str, OutfeedQueue | None],
        total: int,
        facts: Facts,
        like: Callable[[], Pytree] | None = None,
    ) -> None:
        if checkpoints.served is not None:
            raise ValueError(
                f"{name} has the Checkpoints that {checkpoints.served} has had: one directory belongs to one run. Make the loop one "
                "repeat() or run() of all its steps, give each its own directory, or call save() and restore() yourself"
            )
        if checkpoints.every is None and checkpoints.seconds is None:
            raise ValueError(f"{name} cannot tell when to save: give its Checkpoints `every` or `seconds`")
        for path, leaf in _jax.tree_util.tree_flatten_with_path(state)[0]:
            _arrays.require_simulated(_jax.tree_util.keystr(path), leaf)
        if checkpoints.seconds is not None and _jax.process_count() > 1:
            raise ValueError("seconds is for one process, because the clocks of several differ: give the Checkpoints `every` instead")
        self._checkpoints, self._name, self._total, self._facts = checkpoints, name, total, facts
        self._infeeds = {key: queue for key, queue in infeeds.items() if queue is not None}
        self._outfeeds = {key: queue for key, queue in outfeeds.items() if queue is not None}
        self.state, self.done = state, 0
        latest = checkpoints.latest()
        if latest is not None and latest > total:
            raise CheckpointError(
                f"{checkpoints.directory} has step {latest:,}, and {name} has {total:,} steps in all: it is of another, longer run"
            )
        if latest is not None:
            form = state if like is None else like()
            self.state, self.done = checkpoints._restore(latest, form, self._infeeds, self._outfeeds, facts), latest
        self.left = total - self.done
        self._saved, self._saved_at = self.done, time.monotonic()
        self._preemption = Preemption()
        self._lock: Lock | None = None

    def __enter__(self) -> SavingLoop:
        self._lock = self._checkpoints.locked()
        self._preemption.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._checkpoints.__exit__(kind, error, trace)
        finally:
            self._lock = None
        if error is not None and not isinstance(error, Preempted):  # which tells it itself
            with contextlib.suppress(CheckpointError):
                newest = max(self._checkpoints.steps(), default=None)
                has = "no checkpoint yet" if newest is None else f"the checkpoint of step {newest:,}, from which the next run goes on"
                error.add_note(f"{self._checkpoints.directory} has {has}")
        if error is None:
            self._checkpoints.served = self._name
        self._preemption.end(is_told=isinstance(error, Preempted))

    def reached(self, steps: int, state: Pytree) -> None:
        """So many steps of this call are done: saves if it is time.

        Raises: CheckpointError if it could not save. Preempted if SIGTERM has come, when everything is saved.
        """
        step = self.done + steps
        every, seconds = self._checkpoints.every, self._checkpoints.seconds
        is_due = step == self._total or (every is not None and step // every > self._saved // every)
        is_due = is_due or (seconds is not None and time.monotonic() - self._saved_at >= seconds)
        ends = self._preemption.has_come()
        if (is_due or ends) and step > self._saved:
            infeeds = {key: queue.position() for key, queue in self._infeeds.items()}
            self._checkpoints._save(step, state, infeeds, self._outfeeds, self._facts)
            self._saved, self._saved_at = step, time.monotonic()
        if ends or step == self._total:
            self._checkpoints.wait()  # here an error still finds the state
        if ends:
            raise Preempted(step, self._checkpoints.directory)


def _named(what: str, queues: Any, kind: type[Any]) -> dict[str, Any]:
    """The queues by name. Raises: TypeError for something else."""
    if not isinstance(queues, kind | Mapping | list | tuple):
        raise TypeError(f"{what} is {shown(queues)}: it must be an {kind.__name__}, a list of them, or a mapping")
    named = {_ONE[kind]: queues} if isinstance(queues, kind) else queues if isinstance(queues, Mapping) else dict(enumerate(queues))
    own = {str(name): queue for name, queue in named.items()}
    for name, queue in own.items():
        if not isinstance(queue, kind):
            raise TypeError(f"{what}[{name}] is {shown(queue)}: it must be an {kind.__name__}")
    return own


@functools.cache
def _wait_at_exit() -> None:
    """Lets the end of the program wait for what is being saved, and say what has failed.

    Orbax writes with executors, which Python shuts down at the program's end before it waits for threads. Only what is registered where
    `concurrent.futures` registers itself comes before them.
    """

    def end() -> None:
        for checkpoints in list(_waited_for):
            try:
                checkpoints.wait()
            except CheckpointError as error:
                print(f"tilestep: {error}", file=sys.stderr)

    importlib.import_module("concurrent.futures.thread")  # its own comes first, so that it is called last
    register: Any = getattr(threading, "_register_atexit", atexit.register)
    with contextlib.suppress(RuntimeError):  # the program is ending already: the save fails, and says so
        register(end)
