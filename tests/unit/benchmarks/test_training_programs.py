"""The words of training runs' conditions name stages, sizes and data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
import pytest

from benchmarks.measured.answer import RowError
from benchmarks.measured.rows import MEASUREMENTS, Row, read_rows
from benchmarks.measured.training.conditions import TrainingConditions, read_conditions
from benchmarks.measured.training.conformer import conformer
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.measured.training.swin import swin
from benchmarks.measured.training.vit import vit

Recogniser = Callable[[Row, TrainingConditions], Pipelined | None]

CONDITIONS = read_conditions()
ROWS = {row.id: row for row in read_rows(MEASUREMENTS)}


def program(recogniser: Recogniser, name: str, **changed: str) -> Pipelined:
    found = recogniser(ROWS[name], replace(CONDITIONS[name], **changed))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("recogniser", "name", "stages"),
    [(vit, "TR13", [4, 3, 3, 4]), (vit, "TR15", [4, 3, 3, 4]), (conformer, "CO01", [3, 4, 5, 2]), (swin, "TR18", [4, 4, 6, 3])],
)
def test_stages_have_their_parts(recogniser: Recogniser, name: str, stages: list[int]) -> None:
    found = program(recogniser, name)
    assert [len(params) for params in found.params] == stages
    assert found.ipus == (0, 1, 2, 3)


@pytest.mark.parametrize("recogniser", [vit, conformer, swin])
def test_other_networks_are_not_taken(recogniser: Recogniser) -> None:
    assert recogniser(ROWS["TR37"], CONDITIONS["TR37"]) is None


def test_a_pretraining_vit_gets_bytes_and_has_one_layer_more() -> None:
    pretraining, tuning = program(vit, "TR13"), program(vit, "TR15")
    assert [found.element[0].dtype for found in (pretraining, tuning)] == [jnp.uint8, jnp.float16]
    assert ["representation" in found.params[-1][-1] for found in (pretraining, tuning)] == [True, False]


def test_sizes_are_those_of_the_words() -> None:
    large = program(vit, "TR15", model="ViT-L/32 384 (24 layers)", stage_split="[6,6,6,6]", micro_batch="2")
    assert large.element[0].shape == (2, 384, 384, 3)
    assert large.params[0][0]["patches"]["kernel"].shape == (32, 32, 3, 1024)
    small = program(
        conformer,
        "CO01",
        model="Conformer-small: 40x620 features; 4 encoder blocks d=144, 4 heads",
        stage_split="IPU0: 0-2; IPU1: 3",
        ipus_per_replica="2",
    )
    assert small.element["speech"].shape == (4, 620, 40)
    assert small.params[1][0]["attention"]["positions"].shape == (144, 144)
    base = program(swin, "TR18", model="Swin-Base 384 w12", stage_split="[6,6,6,6]", precision="fp16.16")
    assert base.element[0].shape == (4, 384, 384, 3)
    assert base.params[0][1]["attention"]["biases"].shape == (23**2, 4)
    assert base.params[0][1]["attention"]["biases"].dtype == jnp.float16


@pytest.mark.parametrize(
    ("recogniser", "name", "changed", "message"),
    [
        (vit, "TR13", {"model": "ViT-g/14 224"}, "model is 'ViT-g/14 224': ViT's size must be one of B, Base, L, Large"),
        (vit, "TR13", {"model": "ViT-B/16 8"}, "a patch of 16 x 16 must fit in 8 x 8"),
        (vit, "TR13", {"model": "ViT-B/0 8"}, "a patch of 0 x 0 must fit in 8 x 8"),
        (vit, "TR13", {"stage_split": "[6,6]"}, r"stage_split is '\[6,6\]': it must list the 12 layers of 4 IPUs"),
        (vit, "TR13", {"recompute": "no"}, "recompute is 'no': it must say 'checkpoint every layer'"),
        (conformer, "CO01", {"stage_split": "IPU0: 0-5; IPU1: 7-11"}, "it must have encoder blocks 0 to 11 on 4 IPUs"),
        (conformer, "CO01", {"stage_split": "IPU1: 0-11"}, "IPUs must follow each other from 0 on"),
        (conformer, "CO01", {"recompute": "checkpoint every layer"}, "the program computes whole stages again"),
        (swin, "TR18", {"model": "Swin-Huge"}, "Swin's size must be one of Tiny, Small, Base, Large"),
        (swin, "TR18", {"stage_split": "even"}, "stage_split is 'even': it must list the 12 blocks of 4 IPUs"),
    ],
)
def test_words_that_name_nothing_known_are_errors(recogniser: Recogniser, name: str, changed: dict[str, str], message: str) -> None:
    with pytest.raises(RowError, match=message):
        program(recogniser, name, **changed)
