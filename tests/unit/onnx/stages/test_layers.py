"""A model in layers computes what the model computes, for any number of samples, and plans of it run."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.unit.onnx.models import model, uniform
from tests.unit.onnx.stages.test_stages import WIDTH, network, squares
from tilestep.onnx import OnnxError, import_onnx


def through(layers: Any, params: Any, *values: Any) -> Any:
    for layer, own in zip(layers, params, strict=True):
        result = layer(own, *values)
        values = result if isinstance(result, tuple) else (result,)
    return values[0]


@pytest.mark.parametrize("options", [{"tied": True, "indices": True}, {"norm": True, "dropout": True}])
def test_layers_compute_what_the_model_computes(options: dict[str, bool]) -> None:
    found = import_onnx(network(**options))
    made = found.layers(loss=squares, others=[jax.ShapeDtypeStruct((1, WIDTH), np.float32)])
    for samples in (2, 5):
        x, label = uniform(samples, WIDTH), uniform(samples, WIDTH)
        by_layers, whole = jax.jit(lambda x, label: (through(made.layers, made.params, x, label), found.fn(found.params, x)[0]))(x, label)
        assert by_layers == pytest.approx(float(squares(np.asarray(whole), label)), rel=1e-5)


def test_layers_that_compute_alike_are_one_function() -> None:
    made = import_onnx(network()).layers()
    assert len(made.layers) == len(made.params) > 3
    products = [layer for layer, names in zip(made.layers, made.names, strict=True) if names]
    assert [names for names in made.names if names] == [("w0",), ("w1",), ("w2",), ("w3",)]
    assert products[1] is products[2] is products[3]
    assert products[0] is not products[1]  # which takes the model's inputs
    other = import_onnx(network(indices=True)).layers()
    gathers = [layer for layer, names in zip(other.layers, other.names, strict=True) if not names]
    assert len({id(layer) for layer in gathers}) > 4  # each has indices of its own
    tied = import_onnx(network(tied=True)).layers()
    (tie,) = tied.tied
    assert [tied.names[layer][index] for layer, index in tie] == ["w0", "w0"]


def test_statistics_of_batch_norms_are_no_parameters() -> None:
    made = import_onnx(network(norm=True)).layers()
    assert {name[0] for names in made.names for name in names} == {"w", "s", "b"}


def test_what_cannot_be_cut_is_refused() -> None:
    found = import_onnx(network())
    with pytest.raises(OnnxError, match="loss is 'l', and the model's outputs are out"):
        found.layers(loss="l")
    with pytest.raises(OnnxError, match="import the model without training=True"):
        import_onnx(network(), training=True).layers()
    scalar = import_onnx(model("(float[N,4] x, float s) => (float[N,4] y) { y = Mul(x, s) }"))
    with pytest.raises(OnnxError, match=r"input 's' is float32\[\], and samples are the first dimension .* static=\{'s': \.\.\.\}"):
        scalar.layers()
    with pytest.raises(OnnxError, match="the model has no inputs"):
        import_onnx(model("() => (float[4] y) { y = Relu(w) }", w=uniform(4))).layers()
    unlike = import_onnx(model("(float[2,4] x, float[3,4] z) => (float[N,4] y) { y = Concat <axis = 0> (x, z) }"))
    with pytest.raises(OnnxError, match=r"inputs have 2 \(x\), 3 \(z\) samples: they must have equally many"):
        unlike.layers()
    whole = import_onnx(model("(int64[N,2] x) => (int64[N,2] y) { y = Add(x, x) }")).layers()
    with pytest.raises(OnnxError, match="no output has floating-point numbers"):
        through(whole.layers, whole.params, np.ones((2, 2), np.int32))


def test_a_model_of_one_number_of_samples_says_so() -> None:
    fixed = import_onnx(model("(float[2,4] x) => (float[2,4] y) { y = MatMul(x, w) }", w=uniform(4, 4))).layers()
    assert fixed.microbatch_sizes == [2]
    assert fixed.microbatch[0].shape == (2, 4)
    named = import_onnx(model("(float[N,4] x) => (float[N,4] y) { y = MatMul(x, w) }", w=uniform(4, 4)))
    assert named.layers().microbatch_sizes is None
    assert named.layers(sizes={"N": 6}).microbatch_sizes == [6]
