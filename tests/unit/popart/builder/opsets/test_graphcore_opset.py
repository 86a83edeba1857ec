import importlib
import inspect
from enum import Enum
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.together import each
from tests.unit.popart.builder.opsets.graphcore_cases import CASES, OTHERS, Case
from tests.unit.popart.builder.opsets.plain import plain
from tilestep import popart
from tilestep.onnx import import_onnx
from tilestep.popart import AiGraphcoreOpset1, Builder, TensorInfo

DEBUG_NAMES = {"debugContext", "debug_context", "debugPrefix"}


def node_of(builder: Builder) -> onnx.NodeProto:
    return onnx.load_from_string(builder.getModelProto()).graph.node[-1]


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    values = {one.name: helper.get_attribute_value(one) for one in node.attribute if one.name != "__debug_info_id"}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def inputs_of(builder: Builder, case: Case) -> list[str]:
    return [builder.addInputTensor(TensorInfo(kind, shape)) for kind, shape in case.inputs]


METHODS = [name for name, method in vars(AiGraphcoreOpset1).items() if hasattr(method, "overloads")]


def test_all_58_operators_are_there_and_tested() -> None:
    assert len(METHODS) == 58
    assert set(METHODS) == {*CASES, *OTHERS}
    assert all(inspect.getdoc(getattr(AiGraphcoreOpset1, name)) for name in METHODS)


@each("name", CASES)
def test_signature(name: str) -> None:
    def shown(parameter: inspect.Parameter) -> str:
        default = parameter.default.name if isinstance(parameter.default, Enum) else parameter.default
        return parameter.name if parameter.default is inspect.Parameter.empty else f"{parameter.name}={default}"

    parameters = list(inspect.signature(getattr(AiGraphcoreOpset1, name)).parameters.values())[1:]
    assert " ".join(shown(one) for one in parameters if one.name not in DEBUG_NAMES) == CASES[name].signature
    assert sum(one.name in DEBUG_NAMES and one.default == "" for one in parameters) == 1


@each("name", CASES)
def test_node(name: str) -> None:
    case = CASES[name]
    builder = Builder()
    inputs = inputs_of(builder, case)
    made = getattr(builder.aiGraphcore, name)(inputs[0] if name == "reshape" else inputs, **case.given)
    node = node_of(builder)
    assert (node.domain, node.op_type, list(node.input)) == ("ai.graphcore", case.op_type, inputs)
    written = attributes_of(node)
    assert written.keys() == case.written().keys()
    for key, value in case.written().items():
        assert written[key] == (pytest.approx(value) if isinstance(value, float) else value), key
        assert isinstance(written[key], float) == isinstance(value, float), key
    assert list(node.output) == [f"{case.op_type}:{position}" for position in range(len(node.output))]
    many = len(node.output) > 1 and name != "ctcloss"
    assert made == (list(node.output) if many else node.output[0] if node.output else None)


@each("name, case", [(name, case) for name, case in CASES.items() if case.inputs])
def test_too_few_inputs_are_refused(name: str, case: Case) -> None:
    builder = Builder()
    args: Any = [] if name != "reshape" else "missing"
    with pytest.raises(popart.popart_exception, match=r"has invalid number of inputs 0|Unknown tensor 'missing'"):
        getattr(builder.aiGraphcore, name)(args, **case.given)


# No result; results that depend on replicas; sizes that the builder rounds down, and the program up.
NOT_COMPARED = frozenset({"abort", "replicatedallreduce", "replicatedreducescatter", "subsample"})


@each("name", [name for name in CASES if name not in NOT_COMPARED])
def test_operators_give_what_the_builder_says(name: str) -> None:
    case = CASES[name]
    builder = Builder()
    inputs = inputs_of(builder, case)
    getattr(builder.aiGraphcore, name)(inputs[0] if name == "reshape" else inputs, **case.given)
    outputs = builder.getValueTensorIds()
    assert outputs
    for id in outputs:
        builder.addOutputTensor(id)
    importlib.import_module("tilestep.popart.ops")  # registers the operators
    values = {id: np.ones(shape, TensorInfo(kind, shape).data_type_lcase()) for id, (kind, shape) in zip(inputs, case.inputs, strict=True)}
    made = import_onnx(plain(builder.getModelProto())).run(values)
    for id in outputs:
        assert (list(made[id].shape), made[id].dtype.name) == (builder.getTensorShape(id), builder.getTensorDtypeString(id))


def test_shapes_that_no_program_on_one_ipu_has(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [10, 9]))
    assert builder.getTensorShape(builder.aiGraphcore.replicatedallreduce([x])) == [10, 9]
    assert builder.getTensorShape(builder.aiGraphcore.subsample([x], [2, 4])) == [5, 2]
    with pytest.raises(popart.popart_exception, match="is not known to the builder"):
        builder.getTensorShape(builder.aiGraphcore.replicatedreducescatter([x]))


def test_defaults_that_are_not_written(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2, 8, 2, 2]))
    statistics = [builder.addInputTensor(TensorInfo("FLOAT", [8])) for _ in range(4)]
    builder.aiGraphcore.batchnormalization([x, *statistics], 1)
    assert attributes_of(node_of(builder)) == {"unbiased_variance": 0}
    builder.aiGraphcore.groupnormalization([x, *statistics[:2]], 2, 1e-5)
    assert attributes_of(node_of(builder)) == {"num_groups": 2}
    builder.aiGraphcore.groupnormalization([x, *statistics[:2]], 2, 1e-3)
    assert attributes_of(node_of(builder)) == {"num_groups": 2, "epsilon": pytest.approx(1e-3)}
    builder.aiGraphcore.depthtospace([x], 2, "DCR")
    assert attributes_of(node_of(builder)) == {"blocksize": 2}
    builder.aiGraphcore.reducemedian([x])
    assert attributes_of(node_of(builder)) == {"keepdims": 1}
    labels = builder.addInputTensor(TensorInfo("INT32", [2, 8, 2]))
    builder.aiGraphcore.nllloss([x, labels])
    assert attributes_of(node_of(builder)) == {"reduction": "Mean", "inputIsLogProbability": 0}


@pytest.mark.parametrize(("shape", "expected"), [([3, -1], [3, 4]), ([0, 6], [2, 6]), ([-1], [12]), ([2, 2, 3], [2, 2, 3])])
def test_reshape(builder: Builder, shape: list[int], expected: list[int]) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2, 6]))
    assert builder.getTensorShape(builder.aiGraphcore.reshape(x, shape)) == expected


def test_scatter_with_initial_values_has_their_shape(builder: Builder) -> None:
    data, indices, initial = (builder.addInputTensor(TensorInfo(*one)) for one in (("FLOAT", [5]), ("INT32", [5]), ("FLOAT", [9])))
    assert builder.getTensorShape(builder.aiGraphcore.scatterreduce([data, indices, initial], 9)) == [9]


def test_init_writes_popart_s_number_of_the_type(builder: Builder) -> None:
    made = builder.aiGraphcore.init([2, 3], popart.DataType.FLOAT16, popart.InitType.Zero, "name")
    assert attributes_of(node_of(builder)) == {
        "shape": [2, 3],
        "data_type": int(popart.DataType.FLOAT16),
        "init_type": int(popart.InitType.Zero),
        "tensor_type": 0,
        "batch_axis": -1,
    }
    assert (builder.getTensorShape(made), builder.getTensorDtypeString(made), node_of(builder).name) == ([2, 3], "float16", "name")
    builder.aiGraphcore.init([2, 3], popart.DataType.INT32, popart.InitType.NoInit, 1, debugContext="other")
    assert attributes_of(node_of(builder))["batch_axis"] == 1


def test_multiconv_flattens_its_parameters(builder: Builder) -> None:
    data = [builder.addInputTensor(TensorInfo("FLOAT", shape)) for shape in ([1, 2, 8, 8], [1, 3, 9])]
    weights = [builder.addInitializedInputTensor(np.ones(shape, np.float32)) for shape in ((4, 2, 3, 3), (5, 3, 2))]
    bias = builder.addInitializedInputTensor(np.ones(4, np.float32))
    made = builder.aiGraphcore.multiconv(
        [[data[0], weights[0], bias], [data[1], weights[1]]],
        dilations=[[1, 1], [2]],
        pads=[[1, 1, 1, 1], [0, 1]],
        strides=[[2, 2], [1]],
        availableMemoryProportions=[0.8, 0.7],
        partialsTypes=["half", "float"],
        planType="parallel",
        perConvReservedTiles=10,
        cycleBackOff=0.4,
        enableConvDithering=[1, 0],
    )
    node = node_of(builder)
    assert list(node.input) == [data[0], weights[0], bias, data[1], weights[1], ""]
    written = attributes_of(node)
    assert written.pop("cycleBackOff") == pytest.approx(0.4)
    assert written.pop("__available_memory") == pytest.approx([0.8, 0.7])
    assert [text.decode() for text in written.pop("__partials_type")] == ["half", "float"]
    assert written == {
        "dilations": [1, 1, 2],
        "pads": [1, 1, 1, 1, 0, 1],
        "strides": [2, 2, 1],
        "planType": "parallel",
        "perConvReservedTiles": 10,
        "numConvs": 2,
        "__enable_conv_dithering": [1, 0],
    }
    assert [builder.getTensorShape(id) for id in made] == [[1, 4, 4, 4], [1, 5, 8]]


@pytest.mark.parametrize(
    ("convs", "given", "message"),
    [
        ([], {}, "MultiConvOp 'name' has no input tensors. Provide at least one set of inputs"),
        ([["x"]], {}, "Each convolution of MultiConvOp 'name' must have at least two inputs - data and weights"),
        ([["x", "w", "w", "w"]], {}, "Each convolution of MultiConvOp 'name' can have at most three inputs"),
    ],
)
def test_multiconv_checks_its_parameters(builder: Builder, convs: list[list[str]], given: dict[str, Any], message: str) -> None:
    builder.addInputTensor(TensorInfo("FLOAT", [1, 2, 8, 8]), "x")
    builder.addInputTensor(TensorInfo("FLOAT", [4, 2, 3, 3]), "w")
    with pytest.raises(popart.popart_exception, match=message):
        builder.aiGraphcore.multiconv(convs, **given, debugContext="name")
