"""Connects the processes of one pipeline: they agree on each step, and tell each other of failures.

Every process does all tasks of the schedule, in the same order. A stage of another process costs nothing here: its programs return arrays
without data. A value between two processes is sent by one and received by the other at the same point of that order.

Before an update the processes meet, and continue only if none of them has failed. A process that fails tells the others there what went
wrong. First it does its tasks once more with arrays that are errors, and sends these to the processes that expect arrays. So no process
waits for it, and all have the state before the update.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from jax.sharding import Sharding

from tilestep.errors import ProcessFailedError
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.tracing import Element, spec_of
from tilestep.train.processes import tree_specs
from tilestep.train.processes.remote import remote_like
from tilestep.train.processes.rendezvous import Rendezvous, rendezvous_of
from tilestep.train.processes.transfers import Transfers
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_LAST: Final = float("inf")
_ECHO_ORDER: Final = 1e18
_TRACEBACK: Final = "Traceback (most recent call last)"
_ECHO: Final = "Error while transferring"  # as XLA begins what it says of an array that came from a process that had failed


def error_line(error: BaseException) -> str:
    """What other processes are told of an exception: one line, with the notes that say where it was raised.

    Of a text with a traceback the last line says what happened, of another one the first line.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    said = lines[-1] if _TRACEBACK in str(error) else lines[0]
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()) if "\n" not in note)  # JAX's own has several lines
    whole = f" (all {len(lines)} lines are in the exception that it has raised)" if len(lines) > 1 else ""
    return f"{type(error).__name__}: {said}{notes}{whole}"


class Flushed(Exception):
    """The other processes expect no more arrays of this run."""


@dataclass(frozen=True, kw_only=True)
class _Failure:
    """What went wrong in a process."""

    text: str
    order: float  # order of what went wrong at one time, the least is what went wrong first
    interrupted: bool  # whether it was a Ctrl-C


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What a process says when it meets the others."""

    point: str
    value: object
    failure: _Failure | None


@final
class Processes:
    """The processes of a pipeline. They are connected when they first have something to say to each other.

    Args: placements: of all stages. first, last: how many of them are of the first and of the last level. commits_last: whether the update
        is held back until the end of a run, because what is updated before are copies.
    Raises: ValueError if none of the stages is in this process and all of them in another one.
    """

    def __init__(self, placements: Sequence[StagePlacement], *, first: int, last: int, commits_last: bool) -> None:
        self._first, self._last = placements[:first], placements[-last:]
        self._devices = [device for placement in placements for device in placement.devices]
        self._me = self._devices[0].client.process_index()
        owners = [placement.devices[0].process_index for placement in placements]
        self._feeder = owners[0]
        if len(set(owners)) == 1:
            raise ValueError(
                f"all stages are on devices of process {owners[0]}, and this is process {self._me}: name devices of several processes in "
                "device_mapping, or give devices=jax.local_devices() for a pipeline of this process alone"
            )
        self.commits_last: Final = commits_last  # whether updates before the end of a run are of copies
        self._connected: tuple[Rendezvous, Transfers] | None = None
        self._told: BaseException | None = None
        self._flush: Callable[[], None] | None = None
        self.is_committed = self._has_looked = False

    @property
    def feeds(self) -> bool:
        """Whether this process gives the elements: that of the first stage."""
        return self._me == self._feeder

    def gives_out(self) -> bool:
        """Whether what the last stages return is on devices of this process.

        Raises: ValueError if only some of it is.
        """
        here = {placement.is_local for placement in self._last}
        if len(here) > 1:
            raise ValueError(
                "the last stages are in several processes, so that there is none whose outfeed has all that they return: leave the outfeed "
                "away and use step(), or put them into one process"
            )
        return here == {True}

    def _links(self) -> tuple[Rendezvous, Transfers]:
        if self._connected is None:
            rendezvous = rendezvous_of(self._me, _jax.process_count(self._devices[0].client.platform))
            self._connected = rendezvous, Transfers(rendezvous, self._devices)
        return self._connected

    def put(self, values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        """`jax.device_put`, over all processes."""
        return self._links()[1].put(values, shardings)

    def put_copies(self, values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        """The same of values that may be donated before they have arrived."""
        return self._links()[1].put(values, shardings, may_be_donated=True)

    # ---------------------------------------------------------------------------------------------------------- meetings

    def agree(self, point: str, value: object = None) -> list[Any]:
        """What all processes say at a point to which all come.

        Raises: ProcessFailedError if one of them has failed, or is gone.
        """
        said = self._meet(point, value)
        self._require_well(said, _LAST)
        points = [its.point for its in said]
        if len(set(points)) > 1:
            where = ", ".join(f"process {process} {its}" for process, its in enumerate(points))
            raise RuntimeError(f"the processes do different things: {where}; all of them must call the same functions of the pipeline")
        return [its.value for its in said]

    def _meet(self, point: str, value: object = None, failure: _Failure | None = None) -> list[_Said]:
        try:
            heard = self._links()[0].all_gather((point, value, None if failure is None else asdict(failure)))
        except ProcessFailedError as error:
            self._told = error
            raise
        return [_Said(point=point, value=value, failure=failure and _Failure(**failure)) for point, value, failure in heard]

    def _require_well(self, said: Sequence[_Said], order: float) -> None:
        """Raises: ProcessFailedError if another process was the first to fail. Args: order: of what went wrong here."""
        failed = [(its.failure.order, process, its.failure) for process, its in enumerate(said) if its.failure is not None]
        first, process, failure = min(failed, key=lambda entry: entry[:2], default=(_LAST, self._me, None))
        if process == self._me or failure is None or first == order:
            return
        text, name = f"has failed: {failure.text}", self._links()[0].name(process)
        error = self._told = ProcessFailedError(process=process, name=name, text=text, interrupted=failure.interrupted)
        error.add_note(f"raised in process {self._me}, which has not failed itself")
        raise error

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What all processes do. An exception inside is told to the others, who raise it at their next meeting point.

        But for Ctrl-C, which a terminal sends to all of them: it stays what it is in each.
        """
        self.is_committed = self._has_looked = False
        try:
            yield
        except BaseException as error:
            if error is not self._told:
                try:
                    self._tell(error)
                except ProcessFailedError:
                    if isinstance(error, Exception):
                        raise
            raise
        finally:
            self._flush = None

    def _tell(self, error: BaseException, order: float = 0.0) -> None:
        """Raises: ProcessFailedError if another process was the first to fail."""
        if any(_ECHO in str(part) for part in (error, *getattr(error, "__notes__", ()))):
            order = _ECHO_ORDER
        text = error_line(error)
        flush, self._flush = self._flush, None
        if flush is not None:
            rendezvous, transfers = self._links()
            transfers.begin_replay()
            try:
                flush()
            except BaseException:
                rendezvous.close()  # the others hear that this process is gone
                raise
        said = self._meet("has failed", failure=_Failure(text=text, order=order, interrupted=isinstance(error, KeyboardInterrupt)))
        self._told = error
        self._require_well(said, order)

    # --------------------------------------------------------------------------------------------------------------- runs

    def shared(self, elements: Iterator[Element], is_there: bool) -> tuple[Iterator[Element], bool]:
        """(the elements of a run, which are those of the first stage's process; whether they are there). Begins the run."""
        self.is_committed = self._has_looked = False
        self._links()[1].begin()
        if not self.feeds:
            description, is_there = self.agree("begins a run")[self._feeder]
            inputs = next(elements)[0]
            return itertools.repeat((inputs, *remote_like(tree_specs.decoded(description), self._first[0].along(1)))), is_there
        first = next(elements)
        self.agree("begins a run", (tree_specs.encoded(_jax.tree.map(spec_of, first[1:])), is_there))
        all_elements = itertools.chain([first], elements)
        if all(placement.is_local for placement in self._first):
            return all_elements, is_there
        where = self._first[0].along(1)  # from which they go on
        return ((element[0], *_jax.device_put(element[1:], where)) for element in all_elements), is_there

    def begin_tasks(self, flush: Callable[[], None]) -> None:
        """From now on other processes expect arrays. Args: flush: does the run's tasks with arrays that are errors."""
        self._flush = flush

    def end_tasks(self) -> None:
        """They have all of them."""
        self._flush = None

    def commit(self) -> None:
        """All that comes before an update has been started here: goes on if it has been everywhere."""
        if self.is_committed:
            return
        counts = self.agree("is about to update", self._links()[1].counts())
        for process, (sent, _) in enumerate(counts):
            assert sent[self._me] == counts[self._me][1][process]  # all have gone through the same tasks
        self.is_committed = True

    def looked(self, look: Callable[[], None], order: Callable[[], int]) -> None:
        """Looks at what was made, and goes on if all of it is well everywhere. Args: order: which task of all it was that was not."""
        if self._has_looked:
            return
        self._has_looked = True
        try:
            look()
        except Exception as error:
            self._tell(error, order())
            raise
        self.agree("has looked at what it made")

    def given_out(self, outputs: Any, shape: tuple[int, ...]) -> Any:
        """What the last stages return. Args: shape: what has it every process gets: a number for each microbatch and replica."""
        leaves, structure = _jax.tree.flatten(outputs)
        small = [index for index, leaf in enumerate(leaves) if leaf.shape == shape]
        for index, leaf in zip(small, self._links()[1].to_all([leaves[index] for index in small]), strict=True):
            leaves[index] = leaf
        return _jax.tree.unflatten(structure, leaves)


@final
class Unfed:
    """What a process gives that gives no elements: the run's inputs."""

    is_there: Final = False  # nobody knows

    def __init__(self, inputs: tuple[Pytree, ...]) -> None:
        self._inputs = inputs

    def elements(self) -> Iterator[Element]:
        """With nothing but the inputs."""
        return itertools.repeat((self._inputs, (), {}))

    def whole(self, where: Sharding) -> None:
        """It has none."""

    def stacks(self) -> list[Element]:
        """One program is in one process."""
        raise AssertionError("stages in several processes are not one program")

    def are_plain(self, first: Element) -> bool:
        """It has none."""
        return False
