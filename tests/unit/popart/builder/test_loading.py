from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.unit.popart.session.models import run
from tilestep import popart
from tilestep.popart import Builder, TensorInfo
from tilestep.popart.builder.external import array_of, location_of, take_folder

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
HALVES = np.array([7, 4], np.float16)


def built() -> Builder:
    builder = Builder()
    v, h = builder.addInitializedInputTensor(VALUES, "v"), builder.addInitializedInputTensor(HALVES, "h")
    builder.aiOnnx.add([v, v])
    builder.addOutputTensor(h)
    return builder


def test_a_saved_model_is_read_again(tmp_path: Path) -> None:
    builder = built()
    builder.saveModelProto(str(tmp_path / "model.onnx"))
    assert (
        Builder(str(tmp_path / "model.onnx")).getModelProto() == Builder(builder.getModelProto()).getModelProto() == builder.getModelProto()
    )


@pytest.mark.parametrize("given", ["nothing", b"\xff\xfe" * 20, "x" * 20_000, ""])
def test_what_is_no_model_is_refused(given: str | bytes) -> None:
    with pytest.raises(popart.popart_exception, match=r"^Failed to load a ModelProto from the string '"):
        Builder(given)


def test_versions_that_the_builder_lacks_are_refused() -> None:
    node = onnx.helper.make_node("Abs", ["x"], ["y"])
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([node], "g", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    with pytest.raises(popart.popart_exception, match=r"^Encountered ONNX opset version 13, Maximimum supported opset is 11, minimum 6"):
        Builder(model.SerializeToString())


def test_a_model_that_breaks_onnx_s_rules_is_a_runtime_error() -> None:
    model = onnx.load_from_string(built().getModelProto())
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(RuntimeError, match="NoSuchOperator"):
        Builder(model.SerializeToString())


def test_initialisers_move_into_one_file(tmp_path: Path) -> None:
    builder, file = built(), tmp_path / "tensors.bin"
    builder.saveInitializersExternally(["v", "h"], str(file))
    assert file.read_bytes() == VALUES.tobytes() + HALVES.tobytes()
    first, second = onnx.load_from_string(builder.getModelProto()).graph.initializer
    entries = [{entry.key: entry.value for entry in tensor.external_data} for tensor in (first, second)]
    assert entries == [{"location": str(file), "length": "24", "offset": "0"}, {"location": str(file), "length": "4", "offset": "24"}]
    assert not first.raw_data
    np.testing.assert_array_equal(array_of(first), VALUES)
    np.testing.assert_array_equal(array_of(second), HALVES)
    builder.saveModelProto(str(tmp_path / "model.onnx"))
    assert Builder(str(tmp_path / "model.onnx")).getTensorShape("v") == [2, 3]


def test_what_can_not_move_into_a_file(tmp_path: Path) -> None:
    builder = built()
    builder.addInitializedInputTensor(np.zeros((0, 2), np.float32), "empty")
    file = str(tmp_path / "tensors.bin")
    for id, message in (("Add:0", "is not an initializer"), ("empty", "has no data to save externally")):
        with pytest.raises(popart.popart_exception, match=message):
            builder.saveInitializersExternally([id], file)
    with pytest.raises(popart.popart_exception, match="its parent directory does not exist"):
        builder.saveInitializersExternally(["v"], str(tmp_path / "none" / "tensors.bin"))
    builder.saveInitializersExternally(["v"], file)
    with pytest.raises(popart.popart_exception, match="already has an external data_location"):
        builder.saveInitializersExternally(["v"], file)


def test_a_relative_file_is_one_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    builder = built()
    builder.saveInitializersExternally(["v"], "tensors.bin")
    builder.saveModelProto("model.onnx")
    Builder("model.onnx")
    model = (tmp_path / "model.onnx").read_bytes()
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(RuntimeError, match=r"tensors.bin, but it doesn't exist or is not accessible"):
        Builder(model)


def exported(folder: Path, *, ir_version: int = 10, constant: bool = False) -> str:
    """The name of a file as exporters write it: y = v + v, with v in a file beside it, by its name in their folder."""
    values = onnx.numpy_helper.from_array(VALUES, "v")
    inputs = [onnx.helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, [2, 3])] if ir_version < 4 else []
    nodes = [onnx.helper.make_node("Constant", [], ["v"], value=values)] if constant else []
    nodes.append(onnx.helper.make_node("Add", ["v", "v"], ["y"]))
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])
    graph = onnx.helper.make_graph(nodes, "g", inputs, [output], initializer=[] if constant else [values])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=ir_version)
    folder.mkdir()
    name = str(folder / "model.onnx")
    onnx.save_model(
        model, name, save_as_external_data=True, location="model.onnx.data", size_threshold=0, convert_attribute=constant
    )  # ONNX's own writer
    return name


@pytest.mark.parametrize("kind", [{"ir_version": 3}, {"ir_version": 4}, {"ir_version": 10}, {"constant": True}])
def test_weights_beside_an_exporter_s_file_are_read(tmp_path: Path, kind: dict[str, int]) -> None:
    name = exported(tmp_path / "model", **kind)
    transformer = popart.GraphTransformer(name)
    transformer.removeUnusedInputs()
    for model in (Builder(name).getModelProto(), transformer.getModelProto(), name):
        session = popart.InferenceSession(model, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice())
        session.prepareDevice()
        anchors = run(session, {})
        np.testing.assert_array_equal(anchors["y"], 2 * VALUES)


def test_two_files_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = exported(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    Path("model.onnx.data").write_bytes(bytes(24))
    with pytest.raises(
        popart.popart_exception, match=r"model.onnx.data, and both the model's folder .*/model and the working directory .* have"
    ):
        Builder(name)
    monkeypatch.chdir(tmp_path / "model")
    assert Builder("model.onnx").getTensorShape("v") == [2, 3]


def pointing(location: str, **entries: str) -> onnx.TensorProto:
    """A tensor of two floats in a file."""
    tensor = onnx.TensorProto(name="t", dims=[2], data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def test_a_model_reads_no_files_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    monkeypatch.chdir(work)
    (other / "secret").write_bytes(bytes(8))
    (work / "link").symlink_to(other / "secret")
    for location in (str(other / "secret"), "../other/secret", "link"):
        with pytest.raises(popart.popart_exception, match="is outside of the model's folder and of the working directory"):
            array_of(pointing(location))
    model = onnx.ModelProto(graph=onnx.GraphProto(initializer=[pointing("../other/secret"), pointing("secret")]))
    take_folder(model, work)
    assert [location_of(tensor) for tensor in model.graph.initializer] == ["../other/secret", "secret"]
    take_folder(model, other)
    assert [location_of(tensor) for tensor in model.graph.initializer] == ["../other/secret", str(other / "secret")]
    assert array_of(model.graph.initializer[1]).tolist() == [0, 0]


@pytest.mark.parametrize(
    "entries", [{"length": "4"}, {"offset": "4"}, {"offset": "-4"}, {"length": "x"}, {"offset": "99999999999999999999"}, {"length": "-8"}]
)
def test_a_place_beyond_the_file_is_refused(tmp_path: Path, entries: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tensors").write_bytes(bytes(8))
    with pytest.raises(popart.popart_exception, match=r"for externally stored tensor 't'|externally stored tensor 't' has no numbers"):
        array_of(pointing("tensors", **entries))


def test_inputs_of_a_model_keep_open_sizes_open(builder: Builder) -> None:
    x = builder.addInputTensor(TensorInfo("FLOAT", [2, 3]), "x")
    builder.addOutputTensor(builder.aiOnnx.exp([x]))
    model = onnx.load_from_string(builder.getModelProto())
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(popart.popart_exception, match="The shape of tensor 'x' is not known to the builder"):
        Builder(model.SerializeToString()).getTensorShape("x")
