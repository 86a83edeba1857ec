"""Attributes of operators, and options of sessions, change how single operators are planned."""

import re

import numpy as np
import onnx
import pytest

from tilestep import popart
from tilestep.popart.session.model.tuning import tuning_by_output

SIZE = 256
X = np.full((SIZE, SIZE), 0.01, np.float16)


def test_a_products_gradient_is_tuned_as_it_is(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, 4]))
    hidden = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(X[:4, :4])])
    builder.setPartialsType(hidden, "half")
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([hidden, hidden])], 0.1)
    made = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, {}), loss, popart.ConstSGD(0.1), popart.DeviceManager().createCpuDevice()
    )
    made.prepareDevice()
    dots = [line for line in made.getSerializedGraph().decode().splitlines() if "dot_general" in line]
    assert len(dots) > 2
    assert sum("ipu_partials_type" in line for line in dots) == 2  # the product, and that for the weight


def test_an_option_with_a_wrong_value_is_an_error_of_prepare_device(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, 4]))
    out = builder.aiOnnx.matmul([x, x])
    options = popart.SessionOptions()
    options.matmulOptions = {"availableMemoryProportion": "much"}
    device = popart.DeviceManager().createCpuDevice()
    made = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), device, userOptions=options)
    with pytest.raises(popart.poplar_exception, match=r"'availableMemoryProportion'\] is 'much': it must be a number"):
        made.prepareDevice()


def test_a_wrong_value_names_the_operator_and_the_bound(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [SIZE, SIZE]))
    out = builder.aiOnnx.matmul([x, x])
    builder.addNodeAttribute("__available_memory", 1.5, {out})
    message = "Operator MatMul 'MatMul:0': ipu_available_memory_proportion is 1.5: it must be more than 0 and at most 1"
    with pytest.raises(popart.popart_exception, match=re.escape(message)):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), popart.DeviceManager().createCpuDevice())


def test_the_tightest_values_of_a_multiconv_hold_for_all_its_convolutions() -> None:
    node = onnx.helper.make_node(
        "MultiConv", [], ["y"], domain="ai.graphcore", __available_memory=[0.4, 0.2], __partials_type=["HALF", "FLOAT"]
    )
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
    stated = tuning_by_output(model, popart.SessionOptions())["y"]
    assert stated["partials_type"] == "float"
    assert stated["available_memory_proportion"] == pytest.approx(0.2)
