"""What a prediction of a measured row looks like."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax.numpy as jnp

from benchmarks.measured.front_ends import fusion_of
from benchmarks.measured.predict import Prediction
from benchmarks.measured.row_error import RowError
from benchmarks.measured.rows import Conditions, Row
from benchmarks.measured.training.update import Update
from tilestep.options import PlanOptions

DTYPES = {"fp16": jnp.float16, "half": jnp.float16, "fp32": jnp.float32, "float": jnp.float32}
_MACHINES = (("bow", "bow-2000"), ("gc200", "m2000"), ("c600", "c600"), ("gc2", "c2-card"), ("mk1", "c2-card"), ("mk2", "m2000"))
_OF_HOST = ("host", "load", "dispatch")  # kinds of work
# Units of figures, as factors of operations or bytes per second, and of seconds.
_RATES = {"TFLOPS": 1e-12, "TFLOP/s": 1e-12, "GFLOPS": 1e-9, "GFLOP/s": 1e-9, "TB/s": 1e-12, "GB/s": 1e-9, "MB/s": 1e-6}
_TIMES = {"s": 1, "ms": 1e3, "us": 1e6, "µs": 1e6, "min": 1 / 60}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether something fits into the tiles.

    Attributes:
        what: the batch, or the program.
        measured: whether it did.
        predicted: whether it does here.
        fullness: of the fullest tile here: 1 is full; None where nothing ran.
    """

    what: str
    measured: bool
    predicted: bool
    fullness: float | None = None

    @property
    def right(self) -> bool:
        """Whether the two agree."""
        return self.measured == self.predicted


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The figure of a row as tilestep sees it.

    Attributes:
        predicted: in the row's own unit; None where the row asks for verdicts only.
        prediction: one call of the row's program, of inference and operations.
        verdicts: whether it fits.
        update: one update, of training.
        measured: what it is compared with in place of the row's value: a steady rate from the run's log.
        unit: of `predicted` and `measured` in place of the row's.
        kinds: of work that take the predicted time, and their parts, of a row that is neither an update nor a call as it was emulated.
        with_host: whether the figure is of a call with what its IPU gets from the host and gives back; else of what it does itself.
    """

    predicted: float | None = None
    prediction: Prediction | None = None
    verdicts: tuple[Verdict, ...] = ()
    update: Update | None = None
    measured: float | None = None
    unit: str = ""
    kinds: Mapping[str, float] = field(default_factory=dict[str, float])
    with_host: bool = False

    @property
    def shares(self) -> Mapping[str, float]:
        """Kind of work -> its part of the time."""
        if self.update is not None:
            return self.update.shares
        if self.prediction is None or self.with_host:
            return self.kinds or (self.prediction.shares if self.prediction else {})
        own = {kind: share for kind, share in self.prediction.shares.items() if kind not in _OF_HOST}
        return {kind: share / sum(own.values()) for kind, share in own.items()}


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Why a row has no answer."""

    reason: str


# Looks at a row's columns and answers, or says that the row is none of its kind (None).
Recogniser = Callable[[Row], Answer | LeftOut | None]


def machine_of(row: Row) -> str:
    """The catalogue's name of the machine that a row was measured on.

    Raises: RowError if the generation is not known.
    """
    generation = row.generation.casefold()
    for part, name in _MACHINES:
        if part in generation:
            return name
    raise RowError(f"generation {row.generation!r} is none of {', '.join(part for part, _ in _MACHINES)}")


def options_of(conditions: Conditions | None) -> PlanOptions:
    """Plan options of a run; what it does not have or does not tell keeps its default."""
    if conditions is None:
        return PlanOptions()
    given = {
        "ipu_fusion": fusion_of(conditions.conditions_source),
        "ipu_partials_type": conditions.partials,
        "ipu_available_memory_proportion": conditions.memory_proportion,
        "ipu_weight_load_bits": conditions.weight_load_bits,
        "ipu_num_io_tiles": conditions.io_tiles,
    }
    return PlanOptions().changed({name: value for name, value in given.items() if value not in ("", "-")})


def loop_of(row: Row) -> int:
    """Runs on the IPU per call from the host."""
    return int(row.conditions.loop) if row.conditions and row.conditions.loop.isdigit() else 1


def dtype_of(row: Row) -> type:
    """Of the operands.

    Raises: RowError if there is no such dtype here.
    """
    for name, dtype in DTYPES.items():
        if row.dtype.startswith(name):
            return dtype
    raise RowError(f"dtype {row.dtype!r} begins with none of {', '.join(DTYPES)}")


def numbers(pattern: str, text: str) -> tuple[int, ...] | None:
    """The whole numbers that a pattern's groups match; None if it occurs nowhere."""
    found = re.search(pattern, text)
    return tuple(int(group) for group in found.groups()) if found else None


def rate(row: Row, amount: float, seconds: float) -> float:
    """`amount` in `seconds`, in the row's unit: a time, a rate, or floating-point operations or bytes per second.

    Raises: RowError for a unit that is none of these.
    """
    unit = row.unit.strip()
    if unit in _TIMES:
        return seconds * _TIMES[unit]
    if unit in _RATES or unit.endswith("/s") or unit == "QPS":
        return amount / seconds * _RATES.get(unit, 1)
    raise RowError(f"unit {row.unit!r} is not one that a run on the machine can be told in")


def measured_verdicts(row: Row, prediction: Prediction) -> tuple[Verdict, ...]:
    """That a row has a figure means that its program fitted."""
    return (verdict_of(f"{row.shape} {row.dtype}", prediction, measured=True),)


def verdict_of(what: str, prediction: Prediction, *, measured: bool) -> Verdict:
    """That of one run."""
    return Verdict(what=what, measured=measured, predicted=prediction.fits, fullness=prediction.fullness)
