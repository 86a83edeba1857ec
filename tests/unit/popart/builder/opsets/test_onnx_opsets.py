from typing import Any

import numpy as np
import onnx
import pytest
from onnx import checker, defs

from tests.together import each
from tilestep import popart
from tilestep.popart import Builder, TensorInfo
from tilestep.popart.builder.opsets.onnx_opsets import OPSETS, VERSIONS, parameters_of, schemas_of

Type = defs.OpSchema.AttrType
VALUES: dict[Any, Any] = {Type.INT: 1, Type.INTS: [1], Type.FLOAT: 0.5, Type.FLOATS: [0.5], Type.STRING: "x", Type.STRINGS: ["x"]}
METHODS = {6: 95, 7: 102, 8: 104, 9: 123, 10: 137, 11: 156}  # counted in the original's bindings


def core_opset(builder: Builder, version: int) -> Any:
    return getattr(builder._impl, f"aiOnnxOpset{version}")


def last_node(builder: Builder) -> onnx.NodeProto:
    return onnx.load_from_string(builder.getModelProto()).graph.node[-1]


@each("version", VERSIONS)
def test_a_version_has_a_method_for_each_operator(version: int) -> None:
    newest = {schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == "" and schema.since_version <= version}
    reserved = {"and", "or", "not", "xor", "if"}
    expected = {f"logical_{name.lower()}" if name.lower() in reserved else name.lower() for name in newest}
    assert set(OPSETS[version].operators) == expected
    assert len(expected) == METHODS[version]


@each("version", VERSIONS)
def test_each_method_writes_a_node_that_the_schema_accepts(version: int) -> None:
    for name, schema in schemas_of(version).items():
        builder = Builder()
        ids = [builder.addInputTensor(TensorInfo("FLOAT", [1])) for _ in range(schema.min_input)]
        given: dict[str, Any] = {}
        for parameter in parameters_of(schema):
            if parameter.name == "args":
                given["args"] = ids
            elif parameter.name == "num_outputs":
                given["num_outputs"] = max(schema.min_output, 1)
            elif parameter.name in schema.attributes and parameter.name != "value":
                given[parameter.name] = _value(schema, parameter.name, builder)
            elif parameter.name == "value":
                given["value"] = 0.5 if schema.attributes["value"].type == Type.FLOAT else np.zeros(1, np.float32)
        try:
            made = getattr(core_opset(builder, version), name)(**given)
        except popart.popart_exception:
            assert schema.name in ("Conv", "Pad", "AveragePool", "MaxPool", "Split"), name  # their parameters are checked against the data
            continue
        node = last_node(builder)
        assert node.op_type == schema.name
        assert list(node.output) == ([made] if isinstance(made, str) else made)
        assert isinstance(made, str) == (schema.max_output == 1)
        if not schema.deprecated:
            checker.check_node(node, _context(version))


def _value(schema: defs.OpSchema, name: str, builder: Builder) -> Any:
    attribute = schema.attributes[name]
    if attribute.type == Type.GRAPH:
        inner = builder.createSubgraphBuilder()
        inner.addOutputTensor(inner.aiOnnx.constant(np.zeros(1, np.float32)))
        return inner
    return "FLOAT" if schema.name == "Cast" else VALUES[attribute.type]


def _context(version: int) -> Any:
    context = checker.C.CheckerContext()
    context.ir_version = 4
    context.opset_imports = {"": version}
    return context


def test_integers_with_a_default_are_written_and_other_defaults_are_not(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [1, 2, 8, 8]))
    w = builder.addInitializedInputTensor(np.ones((4, 2, 3, 3), np.float32))
    builder.aiOnnx.conv([x, w], pads=[])
    assert [attribute.name for attribute in last_node(builder).attribute] == ["__debug_info_id", "group"]
    builder.aiOnnx.elu([x])
    assert [attribute.name for attribute in last_node(builder).attribute] == ["__debug_info_id"]
    builder.aiOnnx.elu([x], alpha=2)
    assert {attribute.name: attribute.f for attribute in last_node(builder).attribute}["alpha"] == 2.0


def test_axes_of_reductions_are_written_even_if_they_are_empty(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2, 3]))
    builder.aiOnnx.reducesum([x], axes=[])
    assert builder.getInt64VectorNodeAttribute("axes", {"ReduceSum:0"}) == []
    builder.aiOnnx.reducesum([x])
    assert not builder.nodeHasAttribute("axes", {"ReduceSum:0/1"})


def test_cast_takes_a_name(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2]))
    assert builder.getTensorDtypeString(builder.aiOnnx.cast([x], "INT32")) == "int32"
    with pytest.raises(popart.popart_exception, match="no ONNX type WRONG"):
        builder.aiOnnx.cast([x], "WRONG")


def test_a_sparse_constant_is_refused(builder: Builder) -> None:
    with pytest.raises(popart.popart_exception, match="Attributes of type `sparse_tensor' are currently not supported"):
        builder.aiOnnxOpset11.constant(np.zeros(2, np.float32), True)


@pytest.mark.parametrize(
    ("method", "args"), [("add", (0, 0)), ("matmul", (0,) * 7), ("conv", ()), ("add", (["a", "b"], 1, 0, "name")), ("abs", ("x",))]
)
def test_wrong_arguments_are_a_type_error_that_lists_the_right_ones(method: str, args: tuple[Any, ...]) -> None:
    opset = Builder().aiOnnx
    with pytest.raises(TypeError) as caught:
        getattr(opset, method)(*args)
    message = str(caught.value)
    assert message.startswith(
        f"{method}(): incompatible function arguments. The following argument types are supported:\n    1. (self, args: List[str]"
    )
    assert "\n\nInvoked with: " in message


def test_a_wrong_number_of_inputs_names_the_bounds(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2]))
    with pytest.raises(popart.popart_exception, match=r"^Abs has invalid number of inputs 0. Must be between 1..1$"):
        builder.aiOnnx.abs([])
    with pytest.raises(popart.popart_exception, match=r"^Max has invalid number of inputs 0. Must be between 1..inf$"):
        builder.aiOnnx.max([])
    with pytest.raises(popart.popart_exception, match=r"^TopK has invalid number of inputs 1. Must be between 2..2$"):
        builder.aiOnnx.topk([x])
    with pytest.raises(popart.popart_exception, match=r"^Dropout has an invalid number of outputs 3. Must be between 0..2$"):
        builder.aiOnnx.dropout([x], 3)
    with pytest.raises(popart.popart_exception, match=r"^Split has an invalid number of outputs 0. Must be 1 or more$"):
        builder.aiOnnx.split([x], 0)
    for count in (-1, 10**12):
        with pytest.raises(popart.popart_exception, match=rf"^Split has an invalid number of outputs {count}. Must be between 0..100000$"):
            builder.aiOnnx.split([x], count)


def test_an_unknown_input_is_named_with_the_known_ones(builder: Builder) -> None:
    with pytest.raises(popart.popart_exception, match=r"^Unknown tensor 'x' \(there are no valid tensors yet\).$"):
        builder.aiOnnx.abs(["x"])
    builder.addInputTensor(TensorInfo("FLOAT", [2]), "a")
    with pytest.raises(popart.popart_exception, match=r"^Unknown tensor 'x' \(valid tensors are a\).$"):
        builder.aiOnnx.abs(["x"])


def test_an_optional_input_may_be_absent(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [1, 1, 4]))
    roi = builder.aiOnnxOpset11.constant(np.zeros(0, np.float32))
    sizes = builder.aiOnnx.constant(np.array([1, 1, 8], np.int64))
    assert builder.getTensorShape(builder.aiOnnx.resize([x, roi, "", sizes])) == [1, 1, 8]
    high = builder.aiOnnx.constant(np.float32(1))
    assert builder.getTensorShape(builder.aiOnnx.clip([x, "", high])) == [1, 1, 4]


def test_the_file_form_follows_the_version() -> None:
    for version, form in ((6, 3), (8, 3), (9, 4), (11, 4)):
        builder = Builder(opsets={"ai.onnx": version, "ai.graphcore": 1})
        builder.aiOnnx.constant(np.zeros(1, np.float32))
        model = onnx.load_from_string(builder.getModelProto())
        assert (model.ir_version, [(one.domain, one.version) for one in model.opset_import]) == (form, [("", version)])
