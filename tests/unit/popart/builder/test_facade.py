from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from tilestep import popart
from tilestep.onnx import register_op
from tilestep.onnx.interpreter.interpret import Call
from tilestep.popart import Builder, TensorInfo

NINE = {"ai.onnx": 9, "ai.graphcore": 1}


def opset_of(builder: Builder) -> dict[str, int]:
    return {one.domain: one.version for one in onnx.load_from_string(builder.getModelProto()).opset_import}


def add(opset: object, builder: Builder) -> str:
    a, b = (builder.addInputTensor(TensorInfo("FLOAT", [1])) for _ in range(2))
    return opset.add([a, b])  # type: ignore[attr-defined]


def test_the_first_access_decides_the_version(builder: Builder) -> None:
    add(builder.aiOnnxOpset8, builder)
    assert str(builder.aiOnnx) == "AiOnnx8"
    add(builder.aiOnnx, builder)
    assert opset_of(builder) == {"": 8}
    with pytest.raises(RuntimeError, match=r"^Invalid opset 'aiOnnxOpset6' selected. Opset for domain ai.onnx already defined as 8$"):
        _ = builder.aiOnnxOpset6


def test_the_constructor_decides_the_version() -> None:
    builder = Builder(opsets=NINE)
    add(builder.aiOnnxOpset9, builder)
    with pytest.raises(RuntimeError, match="Invalid opset 'aiOnnxOpset10' selected"):
        _ = builder.aiOnnxOpset10
    assert builder.aiOnnx.version == 9


def test_the_constructor_needs_both_domains() -> None:
    with pytest.raises(KeyError, match=r"ai\.graphcore"):
        Builder(opsets={"ai.onnx": 9})
    with pytest.raises(ValueError, match=r"Unsupported or unrecognized ai\.Onnx version: 12"):
        Builder(opsets={"ai.onnx": 12, "ai.graphcore": 1})
    with pytest.raises(ValueError, match=r"Unsupported or unrecognized ai\.graphcore version: 2"):
        Builder(opsets={"ai.onnx": 9, "ai.graphcore": 2})


def test_a_model_that_was_read_keeps_its_version() -> None:
    first = Builder(opsets=NINE)
    first.addOutputTensor(add(first.aiOnnx, first))
    second = Builder(first.getModelProto())
    with pytest.raises(
        popart.popart_exception, match=r"Invalid opset 10 used to add an operation. Opset for domain ai.onnx already defined as 9"
    ):
        add(second.aiOnnxOpset10, second)


def test_unknown_names_are_attribute_errors(builder: Builder) -> None:
    for name in ("nothing", "aiOnnxOpset12", "aiOnnxOpsetX"):
        with pytest.raises(AttributeError, match=name):
            getattr(builder, name)
    with pytest.raises(AttributeError, match="nothing"):
        builder.aiOnnx.nothing([])


def test_custom_operators_carry_their_attributes(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [1]))
    given = {"text": "a", "number": 3, "factor": 0.5, "numbers": [1, 2], "factors": [0.5, 1.5]}
    made = builder.customOp("Twice", 1, "com.acme", [x], given, 2, "name")
    assert made == ["Twice:0", "Twice:1"]
    node = onnx.load_from_string(builder.getModelProto()).graph.node[0]
    assert (node.domain, node.op_type, node.name) == ("com.acme", "Twice", "name")
    assert builder.getStringNodeAttribute("text", set(made)) == "a"
    assert builder.getInt64NodeAttribute("number", set(made)) == 3
    assert builder.getFloatVectorNodeAttribute("factors", set(made)) == [0.5, 1.5]
    assert opset_of(builder) == {"com.acme": 1}
    with pytest.raises(popart.popart_exception, match="Invalid or mismatched python list type provided in custom op attribute 'mixed'"):
        builder.customOp(opName="Twice", opVersion=1, domain="com.acme", inputs=[x], attributes={"mixed": [1, 2.0]})
    with pytest.raises(popart.popart_exception, match="Invalid type provided in custom op attribute 'none'"):
        builder.customOp(opName="Twice", opVersion=1, domain="com.acme", inputs=[x], attributes={"none": None})
    with pytest.raises(popart.popart_exception, match="The shape of tensor 'Twice:0' is not known"):
        builder.getTensorShape("Twice:0")


@register_op("com.acme.shapes", "Halves", 1)
def halves(call: Call, x: Any, *, axis: int = 0) -> Any:
    return tuple(jnp.split(x, 2, axis=axis))


@register_op("com.acme.shapes", "Tiled", 1, needs=[1])
def tiled(call: Call, x: Any, counts: Any) -> Any:
    return jnp.tile(x, counts.tolist())


@register_op("com.acme.shapes", "Noisy", 1, random=True)
def noisy(call: Call, x: Any) -> Any:
    return x + jax.random.normal(call.key(), x.shape).astype(x.dtype)


def test_registered_operators_have_shapes_and_so_has_what_is_behind_them(builder: Builder) -> None:
    """Shapes as the handlers' own functions of NumPy and JAX define them: halves along an axis, tiles, element by element."""

    def custom(name: str, inputs: list[str], count: int = 1, **attributes: Any) -> list[str]:
        with builder.nameScope("scope"):
            return builder.customOp(name, 1, "com.acme.shapes", inputs, attributes, count)

    x = builder.addInputTensor(TensorInfo("FLOAT16", [4, 6]))
    left, right = custom("Halves", [x], 2, axis=1)
    assert builder.getTensorShape(left) == builder.getTensorShape(right) == [4, 3]
    assert builder.getTensorDtypeString(right) == "float16"
    counts = builder.aiOnnx.constant(np.array([2, 3], np.int64))
    (many,) = custom("Noisy", custom("Tiled", [left, counts]))
    assert builder.getTensorShape(many) == [8, 9]
    w = builder.addInitializedInputTensor(np.ones((9, 5), np.float16))
    y = builder.aiOnnx.matmul([many, w])
    assert builder.getTensorShape(y) == [8, 5]
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice())
    assert session.getInfo(many).shape() == [8, 9]


def test_an_operator_that_refuses_its_inputs_has_no_shape(builder: Builder) -> None:
    odd = builder.addInputTensor(TensorInfo("FLOAT", [3]))
    made = builder.customOp("Halves", 1, "com.acme.shapes", [odd], {}, 2)
    unknown = builder.customOp("Tiled", 1, "com.acme.shapes", [odd, builder.addInputTensor(TensorInfo("INT64", [1]))], {})
    for id in (made[0], unknown[0]):
        with pytest.raises(
            popart.popart_exception, match=r"The shape of tensor '\w+:0' is not known to the builder: what its node gives can't"
        ):
            builder.getTensorShape(id)
