"""Published measurements of real IPUs, each with the conditions of its run."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from benchmarks.measured.named_lines import named_lines
from benchmarks.measured.row_error import RowError
from benchmarks.measured.training.conditions import TrainingConditions, is_above_0

DATA = Path(__file__).parents[1] / "data"
MEASUREMENTS = DATA / "ipu_measurements.csv"
OUTSIDE = DATA / "outside_measurements.csv"  # of networks that no number of the cost model was fitted to
RUN_CONDITIONS = DATA / "run_conditions.csv"

MEASURED_COLUMNS = ("id", "generation", "n_ipus", "workload", "shape", "dtype", "metric", "value", "unit", "source")
_OPTIONAL = ("value", "fitted")  # who has measured nothing asks for the prediction; whose row is outside the fit says 'no'
CONDITION_COLUMNS = (
    "implementation",
    "partials",
    "memory_proportion",
    "weight_load_bits",
    "io_tiles",
    "ops",
    "packing",
    "host_io",
    "loop",
    "unknown",
    "conditions_source",
)
_VERDICT = re.compile(r"\b(fits|out of memory|oom|does not fit)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Sequences of drawn lengths, each put into the first row that has room for it."""

    mean: int  # tokens; of a normal distribution that deviates as much
    at_most: int  # sequences per batch


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """How a row was measured, in the words of its source. '-' stands for what the workload does not have."""

    implementation: str  # 'library', 'hand-written' or 'compiled' vertices, or a 'model' of the machine
    partials: str  # 'half' or 'float'
    memory_proportion: str
    weight_load_bits: str
    io_tiles: str
    ops: str  # how operations were written or replaced: 'gelu=tanh wide=gelu+norm'
    packing: str
    host_io: str  # 'none', 'serial' (the IPU waits for its transfers) or 'overlapped'
    loop: str  # runs on the IPU per call from the host
    unknown: str  # what the source does not tell, and would have to
    conditions_source: str

    @property
    def named_ops(self) -> Mapping[str, str]:
        """`ops` by name."""
        return dict(part.split("=", 1) for part in self.ops.split())

    @property
    def packed(self) -> Packing | None:
        """How sequences were put into rows; None if each had a row of its own.

        Raises: RowError if its numbers are not there.
        """
        words = dict(part.partition("=")[::2] for part in self.packing.split())
        if "first-fit" not in words:
            return None
        try:
            return Packing(mean=int(words["mean"]), at_most=int(words["at_most"]))
        except (KeyError, ValueError):
            raise RowError(f"packing is {self.packing!r}: it must be such as 'first-fit mean=172 at_most=100'") from None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured figure."""

    id: str
    generation: str
    n_ipus: int  # 0: the row does not say, or not with a number
    workload: str
    shape: str
    dtype: str
    metric: str
    value: str  # '': nobody has measured it
    unit: str
    source: str
    conditions: Conditions | None  # None: nobody has looked for them
    training: TrainingConditions | None = None  # of a training run
    fitted: bool = True  # False: no number of the cost model was fitted to a row of its network

    @property
    def family(self) -> str:
        """The letters that its id starts with."""
        return self.id.rstrip("0123456789")

    @property
    def measured(self) -> float | None:
        """The value, where it is a number."""
        return float(self.value.replace(",", "")) if _is_figure(self.value) else None

    @property
    def not_judged(self) -> str:
        """Why a prediction of this row is shown only; '' if it counts."""
        if self.training is not None:
            return self.training.not_judged
        match self.conditions:
            case None:
                return "the conditions of its run are not known"
            case Conditions(implementation="hand-written"):
                return "hand-written vertices, not the library's"
            case Conditions(implementation="model"):
                return "the figure of a model, not of hardware"
            case Conditions(unknown=unknown) if unknown:
                return f"not known: {unknown}"
            case _:
                return ""


def read_rows(path: Path, training: Mapping[str, TrainingConditions] | None = None) -> tuple[Row, ...]:
    """All rows of a file, those of training runs with the conditions that `training` has for them.

    A file may leave out the columns of conditions, or leave them empty in a row: they are then what `run_conditions.csv`
    says of the row's source and workload. It may leave out values, too.
    Raises: ValueError naming the file, and the line and what is wrong with it.
    """
    return tuple(_rows(path, training or {}))


def _rows(path: Path, training: Mapping[str, TrainingConditions]) -> Iterator[Row]:
    needed = [column for column in MEASURED_COLUMNS if column not in _OPTIONAL]
    for line in named_lines(path, needed, (*_OPTIONAL, *CONDITION_COLUMNS)):
        plain = {column: line.texts[column] for column in MEASURED_COLUMNS}
        own = {column: line.texts[column] for column in CONDITION_COLUMNS}
        _require_value(line.where, plain["value"])
        conditions = Conditions(**own) if any(own.values()) else conditions_of(plain)
        texts = {column: text for column, text in plain.items() if column != "n_ipus"}
        n_ipus = int(plain["n_ipus"]) if plain["n_ipus"].isdecimal() else 0
        trained = training.get(plain["id"]) if is_training(plain["workload"]) else None
        yield Row(**texts, n_ipus=n_ipus, conditions=conditions, training=trained, fitted=line.texts["fitted"] != "no")


def _require_value(where: str, value: str) -> None:
    """Raises: ValueError for a text that no measurement gives."""
    if value and not (_is_figure(value) or _is_figure(value.lstrip("<>~")) or _VERDICT.search(value)):
        raise ValueError(
            f"{where}: value is {value!r}: it must be a number above 0, a bound such as '<40', verdicts such as "
            "'16 fits, 32 out of memory', or nothing where nobody has measured"
        )


def _is_figure(text: str) -> bool:
    return is_above_0(text.replace(",", ""))


def is_training(workload: str) -> bool:
    """Whether a workload is training, by its words."""
    return re.search(r"\b(pre-?)?train(ing)?\b|\bfine-?tun|\bph[12]\b", workload, re.IGNORECASE) is not None


def conditions_of(fields: Mapping[str, str]) -> Conditions | None:
    """What `run_conditions.csv` says of a row: its first line all of whose keys occur in the row; None if there is none.

    A row of that source whose own words name a type of its partial sums ('fp16.32', 'float partials') or a memory proportion
    ('availMem=0.1') was run with that.
    """
    for line in _known_conditions():
        if all(_occurs(line[key], fields[key]) for key in ("source", "workload", "shape", "dtype")):
            conditions = Conditions(**{column: line[column] for column in CONDITION_COLUMNS})
            words = " ".join(fields[key] for key in ("workload", "shape", "dtype"))
            own = {"partials": _named_partials(words), "memory_proportion": _named_proportion(words)}
            return replace(conditions, **{name: value for name, value in own.items() if value})
    return None


def _named_partials(words: str) -> str:
    found = re.search(r"\b(half|fp16|float|fp32) partials|\bfp16\.(16|32)\b", words.casefold())
    return "" if found is None else {"half": "half", "fp16": "half", "16": "half"}.get(found[1] or found[2], "float")


def _named_proportion(words: str) -> str:
    found = re.search(r"\bavailMem=(\d*\.?\d+)", words)
    return "" if found is None else found[1]


@cache
def _known_conditions() -> tuple[Mapping[str, str], ...]:
    with RUN_CONDITIONS.open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def _occurs(part: str, text: str) -> bool:
    """Whether `part` stands in `text`, or all of its parts between '*'; 'bs 8' does not stand in 'bs 80'."""
    if part.startswith("bs "):
        return f" {part.casefold()} " in f" {text.casefold()} "
    return all(word.casefold() in text.casefold() for word in part.split("*"))
