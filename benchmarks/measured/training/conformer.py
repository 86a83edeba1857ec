"""Conformer's training runs: the stages that a row's conditions name."""

from __future__ import annotations

import re
from typing import Final

import jax.numpy as jnp

from benchmarks.measured.answer import RowError
from benchmarks.measured.rows import Row
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.models import conformer as models
from benchmarks.models.conformer import Conformer, Part

# Each pattern's numbers are of these fields; a number that the words of a row leave out is that of Conformer-medium.
_SIZES: Final = {
    r"(\d+)x(\d+) features": ("features", "frames"),
    r"\bd=(\d+)": ("width",),
    r"(\d+) heads": ("heads",),
    r"FFN (\d+)": ("inner",),
    r"conv kernel (\d+)": ("kernel",),
    r"(\d+) decoder layers": ("decoders",),
    r"(\d+) tokens": ("words",),
    r"vocab (\d+)": ("vocabulary",),
}
_BLOCKS: Final = 12
_IPU: Final = re.compile(r"IPU(\d+): ([^;]+)")


def conformer(_: Row, conditions: TrainingConditions) -> Pipelined | None:
    """The pipeline of a row that trains Conformer; None for other rows.

    Raises: RowError for a split or a recomputation that is not known here.
    """
    if not conditions.model.startswith("Conformer"):
        return None
    sizes: dict[str, int] = {}
    for pattern, fields in _SIZES.items():
        found = re.search(pattern, conditions.model)
        if found:
            sizes.update(zip(fields, map(int, found.groups()), strict=True))
    share = re.search(r"CTC (\d*\.\d+)", conditions.model)
    model = Conformer(**sizes, ctc_weight=float(share[1]) if share else 0.3)
    blocks = re.search(r"(\d+) encoder blocks", conditions.model)
    if "checkpoint" in conditions.recompute and "no explicit checkpoints" not in conditions.recompute:
        raise RowError(f"recompute is {conditions.recompute!r}: the program computes whole stages again, without checkpoints")
    dtype = jnp.float32 if conditions.precision.startswith("fp32") else jnp.float16
    stages = stages_of(conditions.stage_split, conditions.number("ipus_per_replica"), int(blocks[1]) if blocks else _BLOCKS)
    return Pipelined(
        stages=tuple(models.stage(model, parts, first=number == 0) for number, parts in enumerate(stages)),
        params=[[models.parameters(model, part, dtype) for part in parts] for parts in stages],
        element=models.element(model, conditions.number("micro_batch"), dtype),
        ipus=tuple(range(len(stages))),
    )


def stages_of(split: str, ipus: int, blocks: int) -> tuple[tuple[Part, ...], ...]:
    """The parts of each IPU: 'IPU0: subsampling + encoder 0-1; IPU1: 2-5; ...'. The decoder and both losses are on the last.

    Raises: RowError for another text, and if blocks are not there one after the other.
    """
    stages: list[tuple[Part, ...]] = []
    seen: list[int] = []
    for ipu, text in _IPU.findall(split):
        found = re.search(r"(\d+)(?:-(\d+))?", text)
        own = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
        if int(ipu) != len(stages):
            raise RowError(f"stage_split is {split!r}: IPUs must follow each other from 0 on")
        seen += own
        stages.append(("block",) * len(own))
    if len(stages) != ipus or seen != list(range(blocks)):
        example = "IPU0: subsampling + encoder 0-1; ..."
        raise RowError(f"stage_split is {split!r}: it must have encoder blocks 0 to {blocks - 1} on {ipus} IPUs, such as {example!r}")
    stages[0] = ("subsampling", *stages[0])
    stages[-1] = (*stages[-1], "heads")
    return tuple(stages)
