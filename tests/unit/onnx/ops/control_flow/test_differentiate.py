"""Gradient, which differentiates a part of its own graph."""

import numpy as np
import pytest

from tests.unit.onnx.models import model
from tilestep.onnx import OnnxError, import_onnx

TEXT = """(float[3] x, float[3] w) => (float[3] dx, float[3] dw, float[3] dh)
{
  h = Mul(x, w)  s = Mul(h, h)  y = ReduceSum(s)
  dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y = "y"> (x, w)
  dh = ai.onnx.preview.training.Gradient <xs = ["h"], y = "y"> (h)
}"""
X, W = np.float32([1, 2, 3]), np.float32([4, -5, 6])
TRAINING = ', "ai.onnx.preview.training": 1'


def test_values_for_other_names_are_constants() -> None:
    text = """(float[3] x, float[3] w) => (float[3] dx)
      { h = Mul(x, w)  dx = ai.onnx.preview.training.Gradient <xs = ["x"], zs = ["w"], y = "h"> (x, w) }"""
    np.testing.assert_allclose(import_onnx(model(text, imports=TRAINING))(X, W)[0], W)


def test_a_gradient_with_other_inputs_than_names_is_an_error() -> None:
    made = import_onnx(model(TEXT.replace("(h)", "(h, h)"), imports=TRAINING))
    with pytest.raises(OnnxError, match="it gets 2 values for 1 names in xs and zs"):
        made(X, W)
