"""The backend that onnx's own runner takes."""

import numpy as np
import pytest
from onnx import helper
from onnx.backend.base import Backend

from tests.unit.onnx.models import linear, model, uniform
from tilestep.onnx import OnnxError, backend

X = uniform(2, 3)


def test_it_is_a_backend() -> None:
    assert issubclass(backend.TilestepBackend, Backend)
    assert backend.is_compatible(linear())
    assert not backend.is_compatible(model("(float[2] x) => (float[2] y) { y = Nothing(x) }"))


@pytest.mark.parametrize("inputs", [[X], (X,), {"x": X}, X])
def test_inputs_come_by_position_or_by_name(inputs: object) -> None:
    (y,) = backend.run_model(linear(), inputs)
    assert y.shape == (2, 4)
    np.testing.assert_array_equal(backend.prepare(linear()).run(inputs)[0], y)


def test_an_initialiser_that_is_an_input_may_be_given() -> None:
    made = model("(float[2] x, float[2] w) => (float[2] y) { y = Mul(x, w) }")
    made.graph.initializer.extend(model("() => () {}", w=np.float32([2, 3])).graph.initializer)
    x = np.ones(2, np.float32)
    assert backend.run_model(made, [x])[0].tolist() == [2, 3]
    assert backend.run_model(made, [x, np.float32([4, 5])])[0].tolist() == [4, 5]
    with pytest.raises(OnnxError, match="3 inputs are given, and the model takes 2"):
        backend.run_model(made, [x, x, x])


def test_one_node_runs_by_itself() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    np.testing.assert_allclose(backend.run_node(node, [X])[0].sum(-1), 1, rtol=1e-6)
    coerced = backend.run_node(helper.make_node("Softmax", ["x"], ["y"], axis=0), [X], opset_version=11)[0]
    np.testing.assert_allclose(coerced.sum(), 1, rtol=1e-6)  # before version 13 axes from 0 on are one
    y, mask = backend.run_node(helper.make_node("Dropout", ["x"], ["y", "mask"]), [X])
    assert (y.shape, mask.dtype) == ((2, 3), np.bool_)


def test_devices_are_those_of_jax() -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CPU:9999")
    assert not backend.supports_device("TPUX")
    with pytest.raises(ValueError, match="there is no device 'abacus'"):
        backend.prepare(linear(), "abacus")
