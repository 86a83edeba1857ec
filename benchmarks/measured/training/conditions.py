"""How training runs were made: one line a row, in the words of its sources."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from benchmarks.measured.named_lines import named_lines
from benchmarks.measured.row_error import RowError

TRAINING_CONDITIONS = Path(__file__).parents[2] / "data" / "training_conditions.csv"
_AS_ANOTHER = re.compile(r"as (\w+)")


@dataclass(frozen=True, kw_only=True)
class TrainingConditions:
    """The conditions of one row. All are texts; properties read them.

    Attributes:
        id: of the row.
        model: the network and its sizes.
        ipus_per_replica: stages' IPUs together.
        replicas: copies of all stages.
        stage_split: which layers are on which IPU.
        micro_batch: items of a microbatch.
        accumulation: microbatches of an update.
        global_batch: items of an update.
        seq_len: tokens of a row.
        packing_factor: sequences that a row holds on average.
        precision: of products and of their sums, such as fp16.16.
        partials: type of products' sums.
        amp: available memory proportion, one or one for each IPU.
        recompute: what the backward pass computes again.
        optimizer: its name and settings.
        opt_state: its dtypes, and where they are.
        weights_offload: whether parameters are in streaming memory.
        stochastic_rounding: whether halves are rounded so.
        schedule: of the pipeline.
        io_tiles: tiles that only transfer.
        data: where it came from.
        batches_per_step: updates or microbatches of a call from the host.
        source: of the conditions.
        certainty: 'stated', 'inferred' or 'unknown', and a remark.
        note: remarks.
        steady_rate_items_per_s: measured without start and evaluation, where logs tell it.
    """

    id: str
    model: str
    ipus_per_replica: str
    replicas: str
    stage_split: str
    micro_batch: str
    accumulation: str
    global_batch: str
    seq_len: str
    packing_factor: str
    precision: str
    partials: str
    amp: str
    recompute: str
    optimizer: str
    opt_state: str
    weights_offload: str
    stochastic_rounding: str
    schedule: str
    io_tiles: str
    data: str
    batches_per_step: str
    source: str
    certainty: str
    note: str
    steady_rate_items_per_s: str = ""

    @property
    def not_judged(self) -> str:
        """Why a prediction is shown only; '' if it counts."""
        return "" if self.certainty.startswith("stated") else f"the conditions of its run are {self.certainty or 'not known'}"

    @property
    def num_ipus(self) -> int:
        """IPUs of all replicas."""
        return self.number("ipus_per_replica") * self.number("replicas")

    @property
    def items_per_update(self) -> float:
        """Items of an update of all replicas; a packed row holds several."""
        packed = re.search(r"\d+(\.\d+)?", self.packing_factor)
        rows = self.number("micro_batch") * self.number("accumulation") * self.number("replicas")
        return rows * (float(packed[0]) if packed else 1.0)

    @property
    def steady_rate(self) -> float | None:
        """Measured items a second without start and evaluation; None where no log tells it."""
        return float(self.steady_rate_items_per_s) if self.steady_rate_items_per_s else None

    def number(self, column: str) -> int:
        """The whole number that a column begins with.

        Raises: RowError if it begins with none or names several, and for 0 where there must be one or more.
        """
        text = getattr(self, column)
        found = re.match(r"\s*(\d+)", text)
        if found is None or re.search(r"\bor\b", text):
            raise RowError(f"{column} is {text!r}: it must begin with one whole number")
        if int(found[1]) == 0 and column != "io_tiles":
            raise RowError(f"{column} is {text!r}: it must be 1 or more")
        return int(found[1])

    @property
    def updates_per_call(self) -> float:
        """Updates of one call from the host; infinity where the conditions do not tell."""
        found = re.search(r"= (\d+) updates", self.batches_per_step) or re.match(r"\s*(\d+)", self.batches_per_step)
        return float(found[1]) if found else math.inf

    def proportions(self) -> tuple[float, ...]:
        """Available memory proportion of each IPU of a replica.

        Raises: RowError for a text that does not say that.
        """
        count, text = self.number("ipus_per_replica"), self.amp
        listed = re.fullmatch(r"\[(.+)\]", text.strip())
        if listed is None:
            found = re.findall(r"\d+\.\d+", text)
            if len(found) != 1:
                raise RowError(f"amp is {text!r}: it must be a number, or a list with one for each IPU")
            return (float(found[0]),) * count
        values: list[float] = []
        for entry in listed[1].split(","):
            value = re.fullmatch(r"\s*(\d*\.?\d+)(?: x(\d+))?\s*", entry)
            if value is None:
                raise RowError(f"amp is {text!r}: {entry!r} is no number")
            values += [float(value[1])] * int(value[2] or 1)
        if len(values) != count:
            raise RowError(f"amp is {text!r}: it has {len(values)} numbers, but a replica has {count} IPUs")
        return tuple(values)


COLUMNS = tuple(field.name for field in fields(TrainingConditions))
_NEEDED = (
    "id",
    "model",
    "ipus_per_replica",
    "replicas",
    "stage_split",
    "micro_batch",
    "accumulation",
    "partials",
    "amp",
    "optimizer",
    "opt_state",
    "io_tiles",
    "certainty",
)  # the others may be left out, where no program asks for them


def read_conditions(path: Path = TRAINING_CONDITIONS) -> Mapping[str, TrainingConditions]:
    """Conditions by row.

    Raises: ValueError naming the file, and the line and what is wrong with it.
    """
    found = dict(_conditions(path))
    for name, conditions in found.items():
        another = _AS_ANOTHER.match(conditions.stage_split)
        if another:
            if another[1] not in found:
                raise ValueError(f"{path}: {name} has the stages of {another[1]!r}, which has no line")
            found[name] = replace(conditions, stage_split=found[another[1]].stage_split)
    return found


def _conditions(path: Path) -> Iterator[tuple[str, TrainingConditions]]:
    for line in named_lines(path, _NEEDED, [column for column in COLUMNS if column not in _NEEDED]):
        rate = line.texts["steady_rate_items_per_s"]
        if rate and not is_above_0(rate):
            raise ValueError(f"{line.where}: steady_rate_items_per_s is {rate!r}: it must be a number above 0, or nothing")
        yield line.texts["id"], TrainingConditions(**line.texts)


def is_above_0(text: str) -> bool:
    """Whether a text is a finite number above 0."""
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False
