"""GPT-2's training runs: the stages that a row's conditions name."""

from __future__ import annotations

import re
from typing import Final

from benchmarks.measured.row_error import RowError
from benchmarks.measured.rows import Row
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.models import language
from benchmarks.models.language import Language, Part
from benchmarks.models.transformer import Encoder

_SIZES: Final = {
    "small": Encoder(width=768, layers=12, heads=12),
    "medium": Encoder(width=1024, layers=24, heads=16),
    "large": Encoder(width=1280, layers=36, heads=20),
}
_VOCABULARY: Final = 50_272


def gpt2(row: Row, conditions: TrainingConditions) -> Pipelined | None:
    """The pipeline of a row that trains GPT-2; None for other rows.

    Raises: RowError for a size or a split that is not known here.
    """
    del row
    size = re.search(r"GPT-2 (\w+)", conditions.model)
    if size is None:
        return None
    if size[1] not in _SIZES:
        raise RowError(f"model is {conditions.model!r}: GPT-2's size must be one of {', '.join(_SIZES)}")
    vocabulary = re.search(r"vocab (\d+)", conditions.model)
    dropout = re.search(r"attention dropout ON (\d*\.?\d+)", conditions.note)
    model = Language(
        encoder=_SIZES[size[1]],
        vocabulary=int(vocabulary[1]) if vocabulary else _VOCABULARY,
        tokens=conditions.number("seq_len"),
        attention_dropout=float(dropout[1]) if dropout else 0.0,
    )
    stages = stages_of(conditions, model.encoder.layers)
    return Pipelined(
        stages=tuple(language.stage(model, parts) for parts in stages),
        params=[[language.parameters(model, part) for part in parts] for parts in stages],
        element=language.element(model, conditions.number("micro_batch")),
        ipus=(*range(len(stages) - 1), 0),
        tied=([(0, 0, "words"), (len(stages) - 1, 0, "words")],),
    )


def stages_of(conditions: TrainingConditions, layers: int) -> tuple[tuple[Part, ...], ...]:
    """The parts of each stage: '[0,4,4,4]' are the layers of each IPU; the words and the head share the first.

    Raises: RowError for another text, and if the layers are not all there.
    """
    split, ipus = conditions.stage_split, conditions.number("ipus_per_replica")
    listed = re.search(r"\[([\d, ]+)\]", split)
    counts = [int(count) for count in listed[1].split(",")] if listed else []
    if len(counts) != ipus or sum(counts) != layers or ipus < 2:
        raise RowError(f"stage_split is {split!r}: it must list the {layers} layers of {ipus} IPUs, such as [0,4,4,4]")
    first, *others = counts
    stages: list[tuple[Part, ...]] = [(*("layer",) * count,) for count in others]
    if first:
        stages.insert(0, ("words", "positions", *("layer",) * first))
    else:
        stages[0] = ("positions", *stages[0])
        stages.insert(0, ("words",))
    stages[-1] = (*stages[-1], "norm")
    return (*stages, ("head",))
