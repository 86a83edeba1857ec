"""The batch of a program: which dimension it is, and how much larger it can be until the program does not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, final

from tilestep.errors import TilestepError
from tilestep.machine.spec import MachineSpec
from tilestep.plan.liveness import fits
from tilestep.plan.steps import Program
from tilestep.program.shapes import array_of
from tilestep.recording.edits.larger_dimension import enlarged
from tilestep.recording.edits.script import ImpossibleEditError
from tilestep.recording.sources import Source, planned_again

MOST_PLANS: Final = 8  # of one program
MOST_TIMES: Final = 2**16  # as large a batch as it is
_FASTEST: Final = 16  # times the batch before, where nothing says how memory grows
_BEYOND: Final = 2  # times as far as a line through two plans says: what does not fit bounds the search
_MOST_BEYOND: Final = 256  # times the batch before
_SCALES: Final = 0.7  # times as many operations as a batch is larger, at least


@dataclass(frozen=True, kw_only=True)
class Larger:
    """A program that was planned again with a larger batch.

    Attributes:
        times: how much larger the batch is.
        batch: its size.
        peak_bytes: of the fullest tile.
        fits: whether it does.
    """

    times: int
    batch: int
    peak_bytes: int
    fits: bool


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much larger a program's batch can be.

    Attributes:
        batch: its size.
        arguments: names of those that have it, with their shapes.
        tried: plans with multiples of it, the smallest first. The first is the program as it is.
        most_times: the largest multiple of those that fits; 0: not even the program as it is does.
        least_too_many: the smallest multiple of those that does not fit; None: all fit.
    """

    batch: int
    arguments: tuple[str, ...]
    tried: tuple[Larger, ...]
    most_times: int
    least_too_many: int | None


def room(program: Program, source: Source, machine: MachineSpec, *, again: Collection[int] = (), most_plans: int = MOST_PLANS) -> Room:
    """The largest multiple of a program's batch that fits, as far as some plans tell. Memory grows nearly evenly, so few are enough.

    Args:
        program: as it was planned.
        source: what it was planned from.
        machine: to plan for.
        again: indices of arguments that get an equal value at each call, or the program's own result: they have no batch.
        most_plans: how often to plan.

    Raises:
        ImpossibleEditError: if nothing is known to be its batch, or nobody knows what an operation makes of it.
        TilestepError: if it cannot be planned again.
    """
    why: ImpossibleEditError | None = None
    for batch, dims in batches(program, again):
        try:
            return _Search(program, source, machine, batch, dims, most_plans).found()
        except ImpossibleEditError as error:  # the dimension is something else as well
            why = why or error
    if why is not None:
        raise why
    raise ImpossibleEditError("no argument that is new at each call has a dimension that may be a batch")


def smaller(program: Program, source: Source, machine: MachineSpec, *, again: Collection[int] = ()) -> tuple[Larger, Larger] | None:
    """(the program as it is, the same with the largest batch of some that fits); None if none does, or nobody knows what its batch is.

    Args: as for `room`. The batches are those by which the program's own is about 2, 4, 8 ... times as large.
    """
    for batch, dims in batches(program, again):
        divisor = 1
        for _ in range(MOST_PLANS):
            divisor = next((each for each in range(2 * divisor, batch + 1) if batch % each == 0), 0)
            if not divisor:
                break
            planned = with_batch(program, source, machine, dims, Fraction(1, divisor))
            if planned is None:
                break
            if fits(planned.memory, machine.ipu.tile):
                now, then = (
                    Larger(times=1, batch=b, peak_bytes=p.memory.peak_bytes, fits=p is planned)
                    for b, p in ((batch, program), (batch // divisor, planned))
                )
                return now, then
    return None


def batches(program: Program, again: Collection[int]) -> Iterator[tuple[int, dict[int, int]]]:
    """What the batch may be: its size, and the dimension of each argument that has so many.

    It is the first dimension of the largest of the arguments that are new at each call, or a second one that all of them share.

    Args:
        program: the planned program.
        again: indices of arguments that are not new at each call.
    """
    fresh = [a for a in program.arguments if a.result is None and not a.on_host and a.index not in again and _dims(a.shape)]
    largest = max(fresh, key=lambda argument: argument.size_bytes, default=None)
    if largest is None:
        return
    shapes = {argument.index: _dims(argument.shape) for argument in fresh}
    for place in range(min(2, len(shapes[largest.index]))):
        size = shapes[largest.index][place]
        dims = {index: place for index, shape in shapes.items() if len(shape) > place and shape[place] == size}
        if size > 1 and (place == 0 or len(dims) == len(shapes)):
            yield size, dims


def with_batch(program: Program, source: Source, machine: MachineSpec, dims: Mapping[int, int], factor: int | Fraction) -> Program | None:
    """The program with so many times its batch, or with a part of it; None if the dimension is something else as well."""
    try:
        planned = planned_again(source, program, machine, edit=partial(enlarged, dims=dims, factor=factor))
    except (TilestepError, ImpossibleEditError):
        return None
    larger, less = (planned, program) if factor > 1 else (program, planned)
    return planned if scales(larger, less, max(factor, 1 / factor)) else None


def scales(larger: Program, program: Program, times: float | Fraction) -> bool:
    """Whether a program does as much more work as its batch is larger. If not, the dimension is of the steps of a loop, perhaps."""
    return larger.flops >= _SCALES * float(times) * program.flops


def _dims(shape: str) -> tuple[int, ...]:
    found = array_of(shape)
    return () if found is None else found.dims


@final
class _Search:
    """Multiples of a batch, tried one after the other."""

    def __init__(
        self, program: Program, source: Source, machine: MachineSpec, batch: int, dims: Mapping[int, int], most_plans: int
    ) -> None:
        self._program, self._source, self._machine = program, source, machine
        self._batch, self._dims, self._plans = batch, dims, most_plans
        self._tried = {1: self._larger(1, program)}

    def found(self) -> Room:
        """What the plans tell. Raises: ImpossibleEditError if the dimension is no batch."""
        while self._plans > 0 and (times := self._next()) is not None:
            self._plans -= 1
            try:
                edit = partial(enlarged, dims=self._dims, factor=times)
                planned = planned_again(self._source, self._program, self._machine, edit=edit)
            except TilestepError:
                if len(self._tried) == 1:
                    raise
                break  # nobody can plan one that large
            if len(self._tried) == 1 and not scales(planned, self._program, times):
                raise ImpossibleEditError(
                    f"with a dimension of {self._batch * times:,} in place of {self._batch:,} it does not do {times} times the work"
                )
            self._tried[times] = self._larger(times, planned)
        names = [f"{argument.name} {argument.shape}" for argument in self._program.arguments if argument.index in self._dims]
        return Room(
            batch=self._batch,
            arguments=tuple(names),
            tried=tuple(self._tried[times] for times in sorted(self._tried)),
            most_times=self._below,
            least_too_many=self._above,
        )

    @property
    def _below(self) -> int:
        """The largest multiple that fits, below the smallest that does not; 0: none."""
        return max((times for times, each in self._tried.items() if each.fits and (self._above is None or times < self._above)), default=0)

    @property
    def _above(self) -> int | None:
        return min((times for times, each in self._tried.items() if not each.fits), default=None)

    def _next(self) -> int | None:
        """The multiple to try; None if no more is to be known. It is where a line through two plans meets what a tile has."""
        below, above = self._below, self._above
        if not below or above == below + 1 or below >= MOST_TIMES:
            return None
        if len(self._tried) == 1:
            return 2
        if above is None:
            before = max(times for times in self._tried if times < below)
            guess = self._meets(before, below)
            beyond = below * _FASTEST if guess is None else below + _BEYOND * (guess - below)
            return min(max(beyond, below + 1), below * _MOST_BEYOND, MOST_TIMES)
        last = list(self._tried)[-1]
        middle = (below + above) // 2
        guess = (self._meets(below, above) or middle) + (last == below)  # beside one that fits is one that does not, mostly
        if len(self._tried) % 3 == 0 and above - below > 4:
            guess = middle
        return min(max(guess, below + 1), above - 1)

    def _meets(self, one: int, other: int) -> int | None:
        """The multiple at which a line through two plans has as many bytes as a tile; None if the line does not rise."""
        low, high = self._tried[one].peak_bytes, self._tried[other].peak_bytes
        if high <= low:
            return None
        return one + (self._machine.ipu.tile.sram_bytes - low) * (other - one) // (high - low)

    def _larger(self, times: int, planned: Program) -> Larger:
        memory = planned.memory
        return Larger(times=times, batch=self._batch * times, peak_bytes=memory.peak_bytes, fits=fits(memory, self._machine.ipu.tile))
