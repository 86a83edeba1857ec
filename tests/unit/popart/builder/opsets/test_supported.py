import pytest

from tilestep import popart
from tilestep.popart import DataType, OperatorIdentifier

pytestmark = pytest.mark.filterwarnings("error")


def test_supported_and_unsupported_operators_are_apart() -> None:
    supported = {(one.type, one.version) for one in popart.getSupportedOperations(False)}
    assert {("Constant", 9), ("Shape", 1), ("ConstantOfShape", 9), ("Conv", 1), ("Conv", 11)} <= supported
    unsupported = {(one.type, one.version) for one in popart.getUnsupportedOperations(10)}
    assert ("NonZero", 9) in unsupported
    assert not supported & unsupported


def test_definitions_say_types() -> None:
    definitions = popart.getSupportedOperationsDefinition(False)
    assert set(definitions) == set(popart.getSupportedOperations(False))
    reshape = definitions[OperatorIdentifier("ai.onnx", "Reshape", 5)]
    assert [one.name for one in reshape.inputs] == ["data", "shape"]
    assert [one.constant for one in reshape.inputs] == [False, True]
    assert reshape.inputs[1].supportedTensors == (DataType.INT64,)
    assert {DataType.FLOAT, DataType.FLOAT16} <= set(reshape.outputs[0].supportedTensors)
    conv = definitions[OperatorIdentifier("ai.onnx", "Conv", 1)]
    assert set(conv.attributes) == {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}
    assert conv.attributes["group"].supportedValuesRegex == ".*"
