"""The batch of a program: which dimension it is, and how much of it fits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

from tilestep.errors import TilestepError
from tilestep.machine.spec import MachineSpec
from tilestep.plan.memory.liveness import fits
from tilestep.plan.steps import Program
from tilestep.program.shapes import array_of
from tilestep.recording.edits.larger_dimension import enlarged
from tilestep.recording.edits.script import ImpossibleEditError
from tilestep.recording.sources import Source, planned_again

_MOST_PLANS_OF_A_PROGRAM: Final = 8
_SCALES: Final = 0.7  # times as many operations as a batch is larger, at least


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """A program that was planned with some batch.

    Attributes:
        batch: its size.
        peak_bytes: of the fullest tile.
        fits: whether it does.
    """

    batch: int
    peak_bytes: int
    fits: bool


def smaller(program: Program, source: Source, machine: MachineSpec, *, again: Collection[int] = ()) -> tuple[BatchPlan, BatchPlan] | None:
    """(the program as it is, the same with the largest batch of some that fits); None if none does, or nobody knows what its batch is.

    Args:
        program: as it was planned.
        source: what it was planned from.
        machine: to plan for.
        again: indices of arguments that get an equal value at each call, or the program's own result: they have no batch.

    The batches are those by which the program's own is about 2, 4, 8 ... times as large.
    """
    for batch, dims in batches(program, again):
        divisor = 1
        for _ in range(_MOST_PLANS_OF_A_PROGRAM):
            divisor = next((each for each in range(2 * divisor, batch + 1) if batch % each == 0), 0)
            if not divisor:
                break
            planned = with_batch(program, source, machine, dims, Fraction(1, divisor))
            if planned is None:
                break
            if fits(planned.memory, machine.ipu.tile):
                now, then = (
                    BatchPlan(batch=b, peak_bytes=p.memory.peak_bytes, fits=p is planned)
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
