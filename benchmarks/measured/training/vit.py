"""The vision transformer's training runs: the stages that a row's conditions name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import jax.numpy as jnp

from benchmarks.measured.answer import RowError
from benchmarks.measured.rows import Row
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.models import vit as models
from benchmarks.models.transformer import VIT_BASE, Encoder
from benchmarks.models.vit import Part, Vit

_SIZES: Final = {
    "B": VIT_BASE,
    "Base": VIT_BASE,
    "L": Encoder(width=1024, layers=24, heads=16),
    "Large": Encoder(width=1024, layers=24, heads=16),
}
_DROPOUT: Final = 0.1


def vit(row: Row, conditions: TrainingConditions) -> Pipelined | None:
    """The pipeline of a row that trains ViT; None for other rows.

    Raises: RowError for a size, a split or a recomputation that is not known here.
    """
    size = re.search(r"\bViT-(\w+?)(?:/(\d+))?(?: (\d+))?\b", conditions.model)
    if size is None:
        return None
    if size[1] not in _SIZES:
        raise RowError(f"model is {conditions.model!r}: ViT's size must be one of {', '.join(_SIZES)}")
    layers = re.search(r"(\d+) layers", conditions.model)
    encoder = _SIZES[size[1]]
    pretraining = "representation" in conditions.note or "pretrain" in row.workload
    dropout = re.search(r"hidden dropout (\d*\.?\d+)", conditions.note)
    weights = re.search(r"attention dropout (\d*\.?\d+)", conditions.note)
    model = Vit(
        encoder=replace(encoder, layers=int(layers[1])) if layers else encoder,
        patch=int(size[2] or 16),
        image=int(size[3] or 224),
        dropout=float(dropout[1]) if dropout else _DROPOUT,
        attention_dropout=float(weights[1]) if weights else 0.0,
        representation=pretraining,
        bytes_in="uint8" in conditions.data,
    )
    if not 1 <= model.patch <= model.image:
        raise RowError(f"model is {conditions.model!r}: a patch of {model.patch} x {model.patch} must fit in {model.image} x {model.image}")
    dtype = jnp.float32 if conditions.precision.startswith("fp32") else jnp.float16
    stages = stages_of(conditions, model.encoder.layers)
    return Pipelined(
        stages=tuple(models.stage(model, parts) for parts in stages),
        params=[[models.parameters(model, part, dtype) for part in parts] for parts in stages],
        element=models.element(model, conditions.number("micro_batch"), dtype),
        ipus=tuple(range(len(stages))),
    )


def stages_of(conditions: TrainingConditions, layers: int) -> tuple[tuple[Part, ...], ...]:
    """The parts of each IPU: '[3,3,3,3]' are its layers; the embedding is on the first, the head on the last.

    Raises: RowError for another text, and if the layers are not all there.
    """
    split, ipus = conditions.stage_split, conditions.number("ipus_per_replica")
    listed = re.search(r"\[([\d, ]+)\]", split)
    counts = [int(count) for count in listed[1].split(",")] if listed else []
    if len(counts) != ipus or sum(counts) != layers:
        raise RowError(f"stage_split is {split!r}: it must list the {layers} layers of {ipus} IPUs, such as [3,3,3,3]")
    if "checkpoint every layer" not in conditions.recompute:
        raise RowError(f"recompute is {conditions.recompute!r}: it must say 'checkpoint every layer'")
    halved = re.search(r"in layers ([\d, ]*\d)", conditions.recompute)
    twice = {int(layer) for layer in halved[1].split(",")} if halved else set[int]()
    parts: list[Part] = ["halved layer" if layer in twice else "layer" for layer in range(layers)]
    stages: list[tuple[Part, ...]] = []
    for count in counts:
        stages.append(tuple(parts[:count]))
        parts = parts[count:]
    stages[0] = ("embedding", *stages[0])
    stages[-1] = (*stages[-1], "head")
    return tuple(stages)
