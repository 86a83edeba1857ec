from typing import Any

import numpy as np
import pytest

from tilestep import popart
from tilestep.popart import Builder, TensorInfo


@pytest.fixture
def builder() -> Builder:
    builder = Builder()
    a, b = (builder.addInputTensor(TensorInfo("FLOAT", [4, 4])) for _ in range(2))
    builder.aiOnnx.add([a, a])  # Add:0
    builder.aiOnnx.split([a], 2)  # Split:0, Split:1
    builder.aiOnnx.matmul([a, b])  # MatMul:0
    builder.aiOnnx.exp([a])  # Exp:0
    x, w = (builder.addInputTensor(TensorInfo("FLOAT", shape)) for shape in ([1, 2, 4, 4], [3, 2, 3, 3]))
    builder.aiOnnx.conv([x, w])  # Conv:0
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


def test_the_last_available_memory_proportion_counts(builder: Builder) -> None:
    builder.setAvailableMemoryProportion("MatMul:0", 0.5)
    builder.setAvailableMemoryProportion({"MatMul:0"}, 1)
    assert builder.getFloatNodeAttribute("__available_memory", {"MatMul:0"}) == 1.0


@pytest.mark.parametrize("proportion", [0.0, -0.1, 1.1])
def test_proportions_beyond_the_bounds_are_refused(builder: Builder, proportion: float) -> None:
    with pytest.raises(popart.popart_exception, match=r"^availableMemoryProportion must be in \(0,1\]$"):
        builder.setAvailableMemoryProportion("MatMul:0", proportion)


def test_partials(builder: Builder) -> None:
    assert builder.getPartialsType("MatMul:0") == "FLOAT"
    builder.setPartialsType("MatMul:0", "HALF")
    builder.setPartialsType("Conv:0", "HALF")
    assert builder.getPartialsType("MatMul:0") == builder.getStringNodeAttribute("__partials_type", {"Conv:0"}) == "HALF"
    with pytest.raises(
        popart.popart_exception, match=r"setPartialsType should only be called on operators: Conv, MatMul; but was given: Exp"
    ):
        builder.setPartialsType("Exp:0", "HALF")


def test_dithering_is_for_convolutions(builder: Builder) -> None:
    builder.setEnableConvDithering("Conv:0", 1)
    assert builder.getInt64NodeAttribute("__enable_conv_dithering", {"Conv:0"}) == 1
    with pytest.raises(popart.popart_exception, match="setEnableConvDithering should only be called on convolutions but was given: MatMul"):
        builder.setEnableConvDithering("MatMul:0", 1)
    with pytest.raises(popart.popart_exception, match="enableConvDithering must be a bool value"):
        builder.setEnableConvDithering("Conv:0", 2)


@pytest.mark.parametrize("mode", ["input_channels", "reducing_dim", "output_channels"])
def test_serialised_products(builder: Builder, mode: str) -> None:
    builder.setSerializeMatMul({"MatMul:0"}, mode, 2, True)
    assert builder.getStringNodeAttribute("__serialize_matmul_mode", {"MatMul:0"}) == mode
    assert builder.getInt64NodeAttribute("__serialize_matmul_factor", {"MatMul:0"}) == 2
    assert builder.getInt64NodeAttribute("__serialize_matmul_precision", {"MatMul:0"}) == 1


def test_other_modes_of_serialisation(builder: Builder) -> None:
    builder.setSerializeMatMul({"MatMul:0"}, "none")
    assert builder.getAllNodeAttributeNames({"MatMul:0"}) == ["__debug_info_id"]
    with pytest.raises(
        popart.popart_exception, match=r"^Unsupported mat mul serialization mode 'wrong'. Supported modes are 'input_channels'"
    ):
        builder.setSerializeMatMul({"MatMul:0"}, "wrong")


def test_patterns_and_in_place_variants(builder: Builder) -> None:
    builder.excludePatterns("Exp:0", ["PostNRepl", "InPlace"])
    builder.setInplacePreferences("Exp:0", {"ExpInplace": 10, "Another": -1.5})
    assert builder.getStringVectorNodeAttribute("__exclude_patterns", {"Exp:0"}) == ["PostNRepl", "InPlace"]
    assert builder.getStringVectorNodeAttribute("__inplace_op_names", {"Exp:0"}) == ["Another", "ExpInplace"]
    assert builder.getFloatVectorNodeAttribute("__inplace_op_priorities", {"Exp:0"}) == [-1.5, 10.0]
