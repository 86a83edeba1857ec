"""A last layer that is tied may be a stage on the first stage's IPUs, where what is tied is held once."""

from typing import Any

from tests.unit.planner.small_models import classifier, embed, head, shape
from tilestep.planner.model import Model


def tied_embed(params: Any, tokens: Any, label: Any) -> Any:
    return embed(params["words"], tokens, label)


def tied_head(params: Any, x: Any, label: Any) -> Any:
    return head(params["words"].T @ params["mix"], x, label)


def model() -> Model:
    small = classifier([16, 16])
    words = {"words": shape(32, 16)}
    ties = [((0, ("words",)), (2, ("words",)))]
    layers, params = [tied_embed, small.layers[1], tied_head], [words, small.params[1], {**words, "mix": shape(32, 8)}]
    return Model(layers, params, small.microbatch, None, None, None, ties)


def test_what_is_tied_counts_once_where_it_is_held_once() -> None:
    tied = model()
    assert tied.copied([0, 2], 1) == 32 * 16 * 4
    assert tied.copied([1, 2], 1) == 0
