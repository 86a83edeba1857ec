"""When anchored tensors leave the device, and how often a step runs a model."""

from typing import Any

import pytest

from tests.together import each
from tilestep.popart.dataflow import Anchor, AnchorReturnType, DataFlow, anchors_of
from tilestep.popart.enums import AnchorReturnTypeId, ExchangeStrategy, TileSet
from tilestep.popart.exceptions import popart_exception


@pytest.mark.parametrize("word", [None, 5, b"All"])
def test_a_return_type_that_is_no_text_is_a_type_error(word: Any) -> None:
    with pytest.raises(TypeError, match=r"^anchorReturnTypeString must be one of Final, EveryN, All, Sum, not "):
        AnchorReturnType(word)


def test_anchors_that_are_no_names_are_a_type_error() -> None:
    anchors: Any = 5
    with pytest.raises(TypeError, match=r"^anchorTensors is 5: it must be a list of names, or a dict$"):
        DataFlow(1, anchors)


def test_every_n_has_a_period_and_others_have_none() -> None:
    assert AnchorReturnType("EveryN", 3).rp() == 3
    with pytest.raises(popart_exception, match=r"^A return period should not be supplied for this anchor return type"):
        AnchorReturnType("All").rp()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("most",), "^Invalid anchor return type ID supplied: most"),
        (("EveryN",), "^Must specify return period with option 'EVERYN'"),
        (("EveryN", 0), "^Anchor return period must be greater than zero"),
        (("EveryN", -2), "^Anchor return period must be greater than zero"),
        (("Final", 2), "^A return period should not be supplied"),
    ],
)
def test_a_wrong_return_type_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        AnchorReturnType(*arguments)


@each("number", [2.9, "3", None, float("nan"), AnchorReturnTypeId.All, 2**63])
def test_a_period_or_number_of_batches_that_is_no_whole_number_is_refused(number: Any) -> None:
    with pytest.raises(TypeError, match=r"^batchesPerStep must be a whole number.*, not "):
        DataFlow(number, ["a"])
    if number is not None:
        with pytest.raises(TypeError, match=r"^returnPeriod must be a whole number.*, not "):
            AnchorReturnType("EveryN", number)


def test_the_tile_set_may_stand_where_the_period_does() -> None:
    anchor = AnchorReturnType("All", TileSet.IO, ExchangeStrategy.OverlapInnerLoop)
    assert (anchor.tileSet(), anchor.exchangeStrategy()) == (TileSet.IO, ExchangeStrategy.OverlapInnerLoop)
    assert AnchorReturnType("EveryN", 2, TileSet.IO).tileSet() == TileSet.IO
    assert AnchorReturnType("All", tileSet=TileSet.IO).tileSet() == TileSet.IO
    assert anchor != AnchorReturnType("All")


def test_names_alone_are_returned_by_each_microbatch() -> None:
    flow = DataFlow(4, ["b", "a"])
    assert flow.anchors() == ["a", "b"]
    assert flow.art("a").id() == AnchorReturnTypeId.All
    assert DataFlow(4, ["a"], AnchorReturnType("Sum")).art("a").id() == AnchorReturnTypeId.Sum
    assert (flow.nAnchors(), flow.batchesPerStep(), flow.isAnchored("a"), flow.isAnchored("c")) == (2, 4, True, False)


@pytest.mark.parametrize(
    ("batches", "period", "message"),
    [
        (0, 1, "^'Batches per step' must be greater than zero"),
        (-1, 1, "^'Batches per step' must be greater than zero"),
        (4, 5, "^Return period must be <= to the number of batches per step"),
        (4, 3, "^Return period must be a factor of the number of batches per step"),
    ],
)
def test_a_wrong_number_of_batches_is_refused(batches: int, period: int, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        DataFlow(batches, {"a": AnchorReturnType("EveryN", period)})


def test_a_tensor_that_is_no_anchor_has_no_return_type() -> None:
    with pytest.raises(popart_exception, match=r"^Tensor b is not an anchor"):
        DataFlow(1, ["a"]).art("b")


def test_the_leading_dimensions_of_an_anchor() -> None:
    flow = DataFlow(6, {"a": AnchorReturnType("All"), "b": AnchorReturnType("EveryN", 3), "c": AnchorReturnType("Sum")})
    found = {anchor.name: anchor.leading(batches=6, accumulation=2) for anchor in anchors_of(flow)}
    assert found == {"a": [6, 2, 1], "b": [2, 2, 1], "c": [1]}
    assert Anchor(name="a", kind=AnchorReturnTypeId.Final, period=1).is_stacked is False
