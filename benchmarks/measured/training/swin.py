"""Swin's training runs: the stages that a row's conditions name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import jax.numpy as jnp

from benchmarks.measured.answer import RowError
from benchmarks.measured.rows import Row
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.models import swin as models
from benchmarks.models.swin import Part, Swin

_SIZES: Final = {"Tiny": models.SWIN_TINY, "Small": models.SWIN_SMALL, "Base": models.SWIN_BASE, "Large": models.SWIN_LARGE}


def swin(_: Row, conditions: TrainingConditions) -> Pipelined | None:
    """The pipeline of a row that trains Swin; None for other rows.

    Raises: RowError for a size or a split that is not known here.
    """
    found = re.search(r"\bSwin-(\w+)(?: (\d+))?(?: w(\d+))?\b", conditions.model)
    if found is None:
        return None
    if found[1] not in _SIZES:
        raise RowError(f"model is {conditions.model!r}: Swin's size must be one of {', '.join(_SIZES)}")
    model = replace(_SIZES[found[1]], image=int(found[2] or 224), window=int(found[3] or 7))
    dtype = jnp.float32 if conditions.precision.startswith("fp32") else jnp.float16
    stages = stages_of(conditions.stage_split, conditions.number("ipus_per_replica"), model)
    by_block = "checkpoint per block" in conditions.recompute
    return Pipelined(
        stages=tuple(models.stage(model, parts, by_block=by_block) for parts in stages),
        params=[[models.parameters(model, part, dtype) for part in parts] for parts in stages],
        element=models.element(model, conditions.number("micro_batch"), dtype),
        ipus=tuple(range(len(stages))),
    )


def stages_of(split: str, ipus: int, model: Swin) -> tuple[tuple[Part, ...], ...]:
    """The parts of each IPU: 'blocks [2,3,5,2]'. An IPU has what follows its blocks, too; the first has the embedding.

    Raises: RowError for another text, and if the blocks are not all there.
    """
    listed = re.search(r"\[([\d, ]+)\]", split)
    counts = [int(count) for count in listed[1].split(",")] if listed else []
    if len(counts) != ipus or sum(counts) != sum(model.depths) or not all(counts):
        raise RowError(f"stage_split is {split!r}: it must list the {sum(model.depths)} blocks of {ipus} IPUs, such as [2,3,5,2]")
    starts = {sum(counts[:ipu]) for ipu in range(1, ipus)}
    stages: list[list[Part]] = [[]]
    blocks = 0
    for part in models.parts_of(model):
        if part.kind == "block":
            if blocks in starts:
                stages.append([])
            blocks += 1
        stages[-1].append(part)
    return tuple(tuple(parts) for parts in stages)
