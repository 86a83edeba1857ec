"""BERT's training runs: the stages that a row's conditions name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from benchmarks.measured.row_error import RowError
from benchmarks.measured.rows import Row
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.models import pretraining, transformer
from benchmarks.models.pretraining import Part, Pretraining

_LAYER: Final[tuple[Part, Part]] = ("attention", "feed forward")
_VOCABULARY, _DROPOUT = 30_400, 0.1  # where the words of a row's conditions leave them out; of BERT-Base's fine-tuning the dropout

Stage = tuple[int, tuple[Part, ...]]  # its IPU within the replica, its parts


def bert(row: Row, conditions: TrainingConditions) -> Pipelined | None:
    """The pipeline of a row that trains BERT; None for other rows."""
    size = re.search(r"BERT-(Base|Large)", conditions.model)
    if size is None:
        return None
    encoder = transformer.BERT_BASE if size[1] == "Base" else transformer.BERT_LARGE
    answers = "squad" in conditions.model.casefold()
    masked = re.search(r"(\d+) mask tokens", conditions.model)
    vocabulary = re.search(r"vocab (\d+)", conditions.model)
    packed = "packed" in conditions.model
    tokens = conditions.number("seq_len")
    model = Pretraining(
        encoder=encoder,
        vocabulary=int(vocabulary[1]) if vocabulary else _VOCABULARY,
        tokens=tokens,
        masked=0 if answers else int(masked[1]) if masked else round(0.15 * tokens),
        packed=3 if packed else 1,
        dropout=_DROPOUT,
        attention_dropout=_DROPOUT if "attention dropout ON" in conditions.note else 0.0,
    )
    stages = stages_of(conditions.stage_split, conditions.number("ipus_per_replica"), encoder.layers, "answers" if answers else "heads")
    return Pipelined(
        stages=pretraining.stages(model, [parts for _, parts in stages]),
        params=[[pretraining.parameters(model, part) for part in parts] for _, parts in stages],
        element=pretraining.element(model, conditions.number("micro_batch")),
        ipus=tuple(ipu for ipu, _ in stages),
        tied=() if answers else ([(0, 0, "words"), (len(stages) - 1, len(stages[-1][1]) - 1, "words")],),
    )


def stages_of(split: str, ipus: int, layers: int, last: Part) -> tuple[Stage, ...]:
    """The stages that a text names.

    Three forms are known. '[3,7,7,7] ...' has the layers of the last IPUs; the heads are on IPU 0, or on the 'last IPU'.
    '[emb+3 | 7 | heads] on IPUs [0,1,0]' has a part for each stage. 'IPU1 7/6, ... IPU0 4/5' has attentions and feed-forward nets for each
    IPU in the pipeline's order.
    Raises: RowError for another text, and if the layers are not all there.
    """
    sublayers = re.findall(r"IPU(\d+) (\d+)/(\d+)", split)
    bars = re.search(r"\[([^\]]*\|[^\]]*)\] on IPUs \[([\d, ]+)\]", split)
    listed = re.search(r"\[([\d, ]+)\]", split)
    if sublayers:
        stages = _by_sublayers([(int(ipu), int(attentions), int(nets)) for ipu, attentions, nets in sublayers], last)
    elif bars:
        stages = _by_bars(bars[1].split("|"), [int(ipu) for ipu in bars[2].split(",")], last)
    elif listed:
        stages = _by_layers([int(count) for count in listed[1].split(",")], ipus, last, heads_last="on last IPU" in split)
    else:
        raise RowError(f"stage_split is {split!r}: it has no list of layers")
    found = sum(part == "attention" for _, parts in stages for part in parts)
    nets = sum(part == "feed forward" for _, parts in stages for part in parts)
    if (found, nets) != (layers, layers) or any(ipu >= ipus for ipu, _ in stages):
        raise RowError(
            f"stage_split is {split!r}: it has {found} attentions and {nets} feed-forward nets on {ipus} IPUs, but there are {layers}"
        )
    return stages


def _by_layers(counts: Sequence[int], ipus: int, last: Part, *, heads_last: bool) -> tuple[Stage, ...]:
    first = ipus - len(counts)
    if first < 0:
        raise RowError(f"stage_split has the layers of {len(counts)} IPUs: it has {len(counts)}, but a replica has {ipus}")
    on = {first + index: _LAYER * count for index, count in enumerate(counts)}
    stages = [(ipu, (("embedding",) if ipu == 0 else ()) + on.get(ipu, ())) for ipu in range(ipus)]
    if heads_last:
        return (*stages[:-1], (ipus - 1, (*stages[-1][1], last)))
    return (*stages, (0, (last,)))


def _by_bars(texts: Sequence[str], ipus: Sequence[int], last: Part) -> tuple[Stage, ...]:
    if len(texts) != len(ipus):
        raise RowError(f"stage_split has {len(texts)} stages on {len(ipus)} IPUs")
    stages: list[Stage] = []
    for text, ipu in zip(texts, ipus, strict=True):
        count = re.search(r"\d+", text)
        parts = (("embedding",) if "emb" in text else ()) + _LAYER * (int(count[0]) if count else 0)
        stages.append((ipu, (*parts, last) if "heads" in text else parts))
    return tuple(stages)


def _by_sublayers(counts: Sequence[tuple[int, int, int]], last: Part) -> tuple[Stage, ...]:
    stages: list[Stage] = [(0, ("embedding",))]
    begun = 0
    for ipu, attentions, nets in counts:
        parts = tuple(_LAYER[index % 2] for index in range(begun, begun + attentions + nets))
        here = parts.count("attention")
        if here != attentions:
            raise RowError(
                f"stage_split: IPU{ipu} has {here} attentions and {len(parts) - here} feed-forward nets in a row of layers, not "
                f"{attentions} and {nets}"
            )
        stages.append((ipu, parts))
        begun += len(parts)
    ipu, parts = stages[-1]
    return (*stages[:-1], (ipu, (*parts, last)))
