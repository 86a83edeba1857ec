"""A model is written back with other parameters, whole or not at all."""

import os
import resource
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tests.unit.onnx.models import linear, model, uniform
from tilestep.onnx import OnnxError, export_onnx, import_onnx
from tilestep.onnx import export as exporting

X = uniform(2, 3)


def of_onnx_runtime(path: Path, *inputs: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(session.run(None, {value.name: array for value, array in zip(session.get_inputs(), inputs, strict=True)}))


@pytest.mark.parametrize("external", [False, True])
def test_onnx_runtime_reads_what_is_written(external: bool, tmp_path: Path) -> None:
    made = model("(float[N,3] x) => (float[N,400] y) { m = MatMul(x, w)  y = Add(m, b) }", w=uniform(3, 400), b=uniform(400))
    found = import_onnx(made)
    params = jax.tree.map(lambda array: jnp.asarray(array) * 2, found.params)
    export_onnx(found, params, tmp_path / "out.onnx", external=external)
    assert len(os.listdir(tmp_path)) == (2 if external else 1)
    written = onnx.load(str(tmp_path / "out.onnx"), load_external_data=False)
    assert [tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in written.graph.initializer] == [external, external]
    assert list(written.graph.node) == list(made.graph.node)
    wanted = X @ params["w"] + params["b"]
    np.testing.assert_allclose(of_onnx_runtime(tmp_path / "out.onnx", X)[0], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(import_onnx(tmp_path / "out.onnx")(X)[0], wanted, rtol=1e-5, atol=1e-6)


def test_all_types_survive(tmp_path: Path) -> None:
    arrays = {
        "half": uniform(600).astype(np.float16),
        "brain": uniform(600).astype(ml_dtypes.bfloat16),
        "eight": uniform(1200).astype(ml_dtypes.float8_e4m3fn),
        "four": np.arange(-8, 8).repeat(200).astype(ml_dtypes.int4),
        "long": np.arange(300),
        "single": np.float32(3),
        "empty": np.zeros((0, 3), np.float32),
    }
    found = import_onnx(model("(float[2] x) => (float[2] y) { y = Relu(x) }", opset=21, **arrays))
    export_onnx(found, found.params, tmp_path / "out.onnx", external=True)
    again = import_onnx(tmp_path / "out.onnx")
    for name, array in arrays.items():
        np.testing.assert_array_equal({**again.params, **again.constants}[name], array)


def test_training_writes_parameters_and_state(tmp_path: Path) -> None:
    made = model(
        "(float[N,3] x) => (float[N,3] y) { y = BatchNormalization(x, s, b, u, v) }",
        **{name: np.full(3, name in "sv", np.float32) for name in "sbuv"},
    )
    found = import_onnx(made, training=True)
    _, state = found.fn(found.params, found.state, X)
    with pytest.raises(OnnxError, match=r"the model is for training: give the state as well"):
        export_onnx(found, found.params, tmp_path / "out.onnx")
    export_onnx(found, found.params, tmp_path / "out.onnx", state=state)
    written = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(str(tmp_path / "out.onnx")).graph.initializer}
    np.testing.assert_array_equal(written["u"], state["u"])
    assert list(written) == ["s", "b", "u", "v"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": uniform(4, 3)}, r"parameter 'w' is float32\[4, 3\], and the model has float32\[3, 4\]"),
        ({"b": np.zeros(4)}, r"parameter 'b' is float64\[4\], and the model has float32\[4\]"),
        ({"z": uniform(3)}, "params has 'z', which the model does not have"),
        ({"b": None}, "params lacks 'b'"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    found = import_onnx(linear())
    params = {name: array for name, array in {**found.params, **change}.items() if array is not None}
    with pytest.raises(OnnxError, match=message):
        export_onnx(found, params, tmp_path / "out.onnx")
    assert os.listdir(tmp_path) == []


def test_what_is_no_array_or_no_model_is_refused(tmp_path: Path) -> None:
    found = import_onnx(linear())
    with pytest.raises(TypeError, match="parameter 'w' is a list: it must be an array"):
        export_onnx(found, {name: array.tolist() for name, array in found.params.items()}, tmp_path / "model.onnx")
    with pytest.raises(TypeError, match="model is a ModelProto: it must be a model of import_onnx"):
        export_onnx(linear(), found.params, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_is_written_over_the_file_that_its_weights_are_views_of(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    made = model("(float[N,3] x) => (float[N,400] y) { y = MatMul(x, w) }", w=uniform(3, 400))
    export_onnx(import_onnx(made), import_onnx(made).params, path, external=True)
    for turn in range(2):
        found = import_onnx(path)
        export_onnx(found, {"w": found.params["w"] + 1}, path, external=True)
        assert len(os.listdir(tmp_path)) == 2, turn
    wanted = numpy_helper.to_array(made.graph.initializer[0]) + 2
    np.testing.assert_allclose(import_onnx(path).params["w"], wanted, rtol=1e-6)
    export_onnx(found, {"w": wanted}, path)
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_a_failure_leaves_the_old_model(tmp_path: Path) -> None:
    path, found = tmp_path / "m.onnx", import_onnx(linear())
    export_onnx(found, found.params, path)
    old = path.read_bytes()

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32, limits[1]))  # bytes of a file; the weights have 64
    try:
        with pytest.raises(OSError, match="File too large"):
            export_onnx(found, {name: array + 1 for name, array in found.params.items()}, path, external=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (os.listdir(tmp_path), path.read_bytes()) == (["m.onnx"], old)
    with pytest.raises(FileNotFoundError):
        export_onnx(found, found.params, tmp_path / "nowhere" / "m.onnx", external=True)


def test_large_weights_stand_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_MOST_OWN_FILE_BYTES", 1000)
    found = import_onnx(model("(float[N,3] x) => (float[N,400] y) { y = MatMul(x, w) }", w=uniform(3, 400)))
    export_onnx(found, found.params, tmp_path / "m.onnx")
    assert len(os.listdir(tmp_path)) == 2
