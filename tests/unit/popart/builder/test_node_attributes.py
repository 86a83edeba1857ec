from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilestep import popart
from tilestep.popart import Builder, TensorInfo


@pytest.fixture
def builder() -> Builder:
    builder = Builder()
    x = builder.addInputTensor(TensorInfo("FLOAT", [4]))
    builder.aiOnnx.add([x, x])  # Add:0
    builder.aiOnnx.split([x], 2)  # Split:0, Split:1
    return builder


ONE = {"Add:0"}
KINDS: list[tuple[Any, str]] = [
    (100, "getInt64NodeAttribute"),
    ([100, 200, -1], "getInt64VectorNodeAttribute"),
    (0.5, "getFloatNodeAttribute"),
    ([1.0, -0.5], "getFloatVectorNodeAttribute"),
    ("text", "getStringNodeAttribute"),
    (["a", "b", "a"], "getStringVectorNodeAttribute"),
]


@pytest.mark.parametrize(("value", "getter"), KINDS)
def test_each_kind_comes_back(builder: Builder, value: Any, getter: str) -> None:
    builder.addNodeAttribute("test", value, ONE)
    assert getattr(builder, getter)("test", ONE) == value


@pytest.mark.parametrize("getter", [getter for _, getter in KINDS])
def test_another_kind_is_refused(builder: Builder, getter: str) -> None:
    other = 0.5 if "Int64NodeAttribute" in getter else 3
    builder.addNodeAttribute("test", other, ONE)
    with pytest.raises(popart.popart_exception, match=r"^Attribute test is not an? "):
        getattr(builder, getter)("test", ONE)


def test_numbers_of_numpy_keep_their_kind(builder: Builder) -> None:
    builder.addNodeAttribute("int", np.int32(3), ONE)
    builder.addNodeAttribute("float", np.float32(0.5), ONE)
    builder.addNodeAttribute("bool", True, ONE)
    builder.addNodeAttribute("ints", np.array([1, 2]), ONE)
    assert builder.getInt64NodeAttribute("int", ONE) == 3
    assert builder.getFloatNodeAttribute("float", ONE) == 0.5
    assert builder.getBoolNodeAttribute("bool", ONE) is True
    assert builder.getInt64VectorNodeAttribute("ints", ONE) == [1, 2]


def test_attributes_are_added_once_and_removed(builder: Builder) -> None:
    builder.addNodeAttribute("test", 1.0, ONE)
    assert set(builder.getAllNodeAttributeNames(ONE)) == {"test", "__debug_info_id"}
    with pytest.raises(popart.popart_exception, match=r"^Node already has attribute test.$"):
        builder.addNodeAttribute("test", 1, ONE)
    builder.removeNodeAttribute("test", ONE)
    assert not builder.nodeHasAttribute("test", ONE)
    with pytest.raises(popart.popart_exception, match=r"^Cannot remove attribute test as it does not exist.$"):
        builder.removeNodeAttribute("test", ONE)
    with pytest.raises(popart.popart_exception, match=r"^Node does not have an attribute test.$"):
        builder.getInt64NodeAttribute("test", ONE)


def test_a_node_is_named_by_all_its_outputs(builder: Builder) -> None:
    builder.addNodeAttribute("test", 1, {"Split:0", "Split:1"})
    assert builder.nodeHasAttribute("test", {"Split:1", "Split:0"})
    for outputs in ({"Split:0"}, {"Split:0", "other"}, {"i", "j"}):
        with pytest.raises(popart.popart_exception, match=r"^Could not find a node with outputs .*. Must specify all outputs of a node$"):
            builder.addNodeAttribute("test2", 1, outputs)


@pytest.mark.parametrize("value", [None, [1, "a"], {"a": 1}, np.zeros((2, 2))])
def test_other_values_are_type_errors(builder: Builder, value: Any) -> None:
    with pytest.raises(TypeError, match=r"^addNodeAttribute\(\): incompatible function arguments"):
        builder.addNodeAttribute("test", value, ONE)
    with pytest.raises(TypeError, match=r"^addNodeAttribute\(\): incompatible function arguments"):
        builder.addNodeAttribute("test", 1, "Add:0")
