from __future__ import annotations

import pytest

from tilestep import popart
from tilestep.popart import Builder, TensorInfo


@pytest.fixture
def builder() -> Builder:
    builder = Builder()
    a, b = (builder.addInputTensor(TensorInfo("FLOAT", [4, 4])) for _ in range(2))
    builder.aiOnnx.matmul([a, b])  # MatMul:0
    builder.aiOnnx.exp([a])  # Exp:0
    x, w = (builder.addInputTensor(TensorInfo("FLOAT", shape)) for shape in ([1, 2, 4, 4], [3, 2, 3, 3]))
    builder.aiOnnx.conv([x, w])  # Conv:0
    return builder


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
