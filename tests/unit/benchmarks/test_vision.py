"""Networks for images in training: what they compute, and the programs that conditions name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import pytest

from benchmarks.measured.answer import RowError
from benchmarks.measured.training.conditions import TrainingConditions, read_conditions
from benchmarks.measured.training.replicated import Replicated
from benchmarks.measured.training.vision import efficientnet, resnet, unet
from benchmarks.models import efficientnet as efficient
from benchmarks.models import residual


@pytest.fixture(scope="module")
def conditions() -> dict[str, TrainingConditions]:
    return dict(read_conditions())


@pytest.mark.parametrize(
    ("shapes", "millions"),
    [
        (residual.parameters(residual.Residual()), 25.557),
        (residual.parameters(residual.Residual(blocks=(3, 4, 23, 3), groups=32, group_width=4)), 44.178),
        (efficient.parameters(efficient.EfficientNet(variant=0, group_width=1, expansion=6)), 5.289),
    ],
)
def test_networks_have_the_published_number_of_parameters(shapes: Any, millions: float) -> None:
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == pytest.approx(millions * 1e6, rel=1e-4)


def test_cuts_of_resnet_are_read(conditions: dict[str, TrainingConditions]) -> None:
    program = resnet(None, conditions["TR01"])
    assert isinstance(program, Replicated)
    model, cuts = program.loss.args  # type: ignore[attr-defined]
    assert (model.norm, model.norm_replicas, model.stable) == ("batch", 2, False)
    assert cuts == (2, 4, 5, 7, 9, 12)
    assert program.element["images"].shape == (22, 224, 224, 3)


def test_other_networks_are_not_recognised(conditions: dict[str, TrainingConditions]) -> None:
    assert [recognise(None, conditions["TR37"]) for recognise in (resnet, efficientnet, unet)] == [None, None, None]


@pytest.mark.parametrize(
    ("row", "recognise", "changed", "match"),
    [
        ("TR01", resnet, {"model": "ResNet-18"}, "model is 'ResNet-18': blocks are known of depths 50, 101, 152, not of 18"),
        ("TR01", resnet, {"stage_split": "stage9/unit1"}, "'stage9/unit1' names no unit"),
        ("TR01", resnet, {"stage_split": "somehow"}, "stage_split is 'somehow': it must name units in order"),
        ("TR12", resnet, {"ipus_per_replica": "4"}, "it makes 2 stages, but a replica has 4 IPUs"),
        ("TR08", efficientnet, {"stage_split": "block4a, block2b"}, "it must name blocks in order"),
        ("TR08", efficientnet, {"stage_split": "block4z"}, "'block4z' names no block"),
        ("TR08", efficientnet, {"model": "EfficientNet-B9"}, "there is no B9"),
        ("TR20", unet, {"stage_split": "after encoder_block_7_maxpooling"}, "there is no encoder_block_7_maxpooling"),
    ],
)
def test_what_is_not_known_is_named(
    conditions: dict[str, TrainingConditions], row: str, recognise: Any, changed: dict[str, str], match: str
) -> None:
    with pytest.raises(RowError, match=match):
        recognise(None, replace(conditions[row], **changed))
