"""Answers for rows of training runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.measured.answer import Answer, LeftOut, Verdict, machine_of
from benchmarks.measured.row_error import RowError
from benchmarks.measured.rows import Row, is_training
from benchmarks.measured.training.bert import bert
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.conformer import conformer
from benchmarks.measured.training.language import gpt2
from benchmarks.measured.training.pipelined import Pipelined, pipelined_update
from benchmarks.measured.training.replicated import Replicated, replicated_update
from benchmarks.measured.training.swin import swin
from benchmarks.measured.training.vision import efficientnet, resnet, unet
from benchmarks.measured.training.vit import vit

_PODS: Final = {"m2000": "m2000-pod", "bow-2000": "bow-pod"}
_SIZES: Final = (16, 64, 128, 256)

# Each looks at the conditions' words, and returns the program, or None if it is of another kind.
PROGRAMS: Final[tuple[Callable[[Row, TrainingConditions], Pipelined | Replicated | None], ...]] = (
    bert,
    vit,
    swin,
    conformer,
    gpt2,
    resnet,
    efficientnet,
    unet,
)


def training(row: Row) -> Answer | LeftOut | None:
    """Items per second of a training run; None for rows of other kinds."""
    if not is_training(row.workload):
        return None
    if row.training is None:
        return Answer()
    conditions = row.training
    if conditions.num_ipus != row.n_ipus:
        raise RowError(f"the row is of {row.n_ipus} IPUs, but its conditions are of {conditions.num_ipus}")
    if conditions.certainty.startswith("unknown"):
        return LeftOut(reason=f"a training run whose configuration is not known: {conditions.note}")
    program = next((found for recognise in PROGRAMS if (found := recognise(row, conditions)) is not None), None)
    if program is None:
        return LeftOut(reason="a network that is not written in benchmarks/models")
    machine = machine_for(row)
    update = (
        replicated_update(program, conditions, machine=machine)
        if isinstance(program, Replicated)
        else pipelined_update(program, conditions, machine=machine)
    )
    steady = conditions.steady_rate
    unit = row.unit if row.value else row.unit or "items/s"
    if steady is None and not unit.endswith("/s"):
        raise RowError(f"unit {row.unit!r} is a whole job's, start and evaluation included, and no steady rate is known")
    return Answer(
        predicted=conditions.items_per_update / update.seconds,
        update=update,
        verdicts=(Verdict(what="training", measured=True, predicted=update.fits, fullness=update.fullness),),
        measured=steady,
        unit=unit if steady is None else "items/s",
    )


def machine_for(row: Row) -> str:
    """The smallest machine of the row's generation with so many IPUs.

    Raises: RowError if there is none.
    """
    one = machine_of(row)
    if row.n_ipus <= 4:
        return one
    size = next((size for size in _SIZES if size >= row.n_ipus), None)
    if one not in _PODS or size is None:
        raise RowError(f"no machine here has {row.n_ipus} IPUs of generation {row.generation!r}")
    return f"{_PODS[one]}{size}"
