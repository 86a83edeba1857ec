"""Models are read from anywhere, within bounds, and from their own folder only."""

import os
import re
import resource
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from tests.unit.onnx.crafted import field
from tests.unit.onnx.models import linear, model, uniform
from tilestep.onnx import OnnxError, UnsafeModelError, UnsupportedOpError, import_onnx
from tilestep.onnx.interpreter import bodies
from tilestep.onnx.interpreter.bodies import body_of, check_in_child
from tilestep.onnx.interpreter.graph import Preparation
from tilestep.onnx.reading import load as loading
from tilestep.onnx.reading import sizes

X = uniform(2, 3)


def with_external(path: Path, made: onnx.ModelProto, location: str, changes: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """`made`, written to `path`, with all initialisers in the file `location`. Args: changes: of the entries of the first one."""
    os.makedirs(path.parent, exist_ok=True)
    external = onnx.ModelProto()
    external.CopyFrom(made)
    with open(path.parent / "weights", "wb") as file:
        for tensor in external.graph.initializer:
            offset = file.tell()
            file.write(tensor.raw_data)
            external_data_helper.set_external_data(tensor, location, offset, file.tell() - offset)
            tensor.ClearField("raw_data")
    for entry in external.graph.initializer[0].external_data:
        entry.value = (changes or {}).get(entry.key, entry.value)
    path.write_bytes(external.SerializeToString())
    return external


@pytest.mark.parametrize("source", [bytes, bytearray, memoryview, "path", "str", "proto"])
def test_a_model_comes_from_anywhere(source: Any, tmp_path: Path) -> None:
    made = linear()
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    given: Any = {"path": path, "str": str(path), "proto": made}.get(source) or source(path.read_bytes())
    found = import_onnx(given)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    np.testing.assert_allclose(found(X)[0], X @ weights["w"] + weights["b"], rtol=1e-6)
    assert len(made.graph.initializer) == 2  # the caller's model is as it was


def test_a_source_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="source is a int: it must be a path"):
        import_onnx(3)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.onnx"):
        import_onnx("nowhere.onnx")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: b"", "has no graph or no version"),
        (lambda m: b"\xff" * 100, "is no ONNX model, or is damaged"),
        (lambda m: m.SerializeToString()[:-3], "is no ONNX model, or is damaged"),
        (lambda m: b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
        (lambda m: (m.ClearField("opset_import"), m)[1], "opset_import is empty"),
        (lambda m: (setattr(m, "ir_version", 99), m)[1], "has version 99 of the file format"),
        (lambda m: (setattr(m.opset_import[0], "version", -1), m)[1], "version below 1"),
        (lambda m: (setattr(m.opset_import[0], "domain", "elsewhere"), m)[1], r"node '' \(MatMul\): its domain 'ai.onnx' has no version"),
        (lambda m: (setattr(m.graph.node[0], "op_type", "Matmul"), m)[1], r"ai.onnx.Matmul of version 17: node 'm'"),
        (lambda m: (m.graph.node[0].input.append("b"), m)[1], "has 3 inputs, and takes 2 to 2"),
        (lambda m: (m.graph.initializer.append(m.graph.initializer[0]), m)[1], "two initialisers named 'w'"),
        (lambda m: (m.graph.input.append(m.graph.input[0]), m)[1], "two inputs of one name"),
        (lambda m: (m.graph.node.append(m.graph.node[0]), m)[1], "makes 'm' again"),
        (lambda m: (m.graph.node[0].input.__setitem__(0, "z"), m)[1], "reads 'z', which no input, initialiser or node before it makes"),
        (lambda m: (m.graph.node.reverse(), m)[1], "it is made after a node that reads it"),
        (lambda m: (m.graph.initializer[0].dims.append(9), m)[1], "tensor 'w' is damaged"),
        (lambda m: (setattr(m.graph.initializer[0], "data_type", 999), m)[1], "tensor 'w' is damaged"),
        (lambda m: (setattr(m.graph.input[0].type.tensor_type, "elem_type", 999), m)[1], "element type of number 999"),
        (lambda m: (setattr(m.graph.output[0], "name", "q"), m)[1], "reads 'q'"),
    ],
)
def test_a_damaged_model_is_an_error_that_says_how(change: Callable[[onnx.ModelProto], Any], message: str, tmp_path: Path) -> None:
    changed = change(linear())
    path = tmp_path / "m.onnx"
    path.write_bytes(changed if isinstance(changed, bytes) else changed.SerializeToString())
    with pytest.raises(OnnxError, match=message):
        import_onnx(path)


def test_all_operators_that_are_missing_are_named_at_once() -> None:
    made = model("(float[2] x) => (float[2] y) { a = other.Foo(x)  b = other.Foo(a)  c = Ba(b)  y = Relu(c) }", imports=', "other": 3')
    with pytest.raises(
        UnsupportedOpError, match=r"(?s)ai.onnx.Ba of version 17: node 'c'.*other.Foo of version 3: nodes 'a', 'b'.*register_op"
    ) as found:
        import_onnx(made)
    assert found.value.operators == (("", "Ba", 17), ("other", "Foo", 3))


def test_weights_in_a_file_are_views_of_it(tmp_path: Path) -> None:
    made = linear()
    with_external(tmp_path / "m.onnx", made, "weights")
    found = import_onnx(tmp_path / "m.onnx")
    assert all(not array.flags.writeable and not array.flags.owndata for array in found.params.values())
    np.testing.assert_array_equal(found(X)[0], import_onnx(made)(X)[0])


def test_two_elements_may_share_a_byte_of_a_file(tmp_path: Path) -> None:
    made = model("(float[3] x) => (int4[5] y) { y = Identity(w) }", opset=21)
    made.graph.initializer.append(numpy_helper.from_array(np.array([1, -8, 7, 0, 3]).astype(ml_dtypes.int4), "w"))
    with_external(tmp_path / "m.onnx", made, "weights")
    np.testing.assert_array_equal(import_onnx(tmp_path / "m.onnx")(np.zeros(3, np.float32))[0].astype(int), [1, -8, 7, 0, 3])


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../secret", r"only a file in the model's folder .* without '\.\.'"),
        ("", "only a file in the model's folder"),
        (".", "only a file in the model's folder"),
        ("link", "is no regular file, but a symbolic link"),
        ("hard", "has several names"),
    ],
)
def test_only_files_in_the_models_folder_are_read(location: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s" * 64)
    folder = tmp_path / "m"
    (folder / "inner").mkdir(parents=True)
    (folder / "link").symlink_to("../secret")
    (folder / "linked").symlink_to("..")
    os.link(tmp_path / "secret", folder / "hard")
    os.mkfifo(folder / "fifo")
    with_external(folder / "m.onnx", linear(), location)
    with pytest.raises(UnsafeModelError, match=message):
        import_onnx(folder / "m.onnx")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"location": "missing"}, "is not there"),
        ({"offset": "60"}, r"ends at byte 108 of 'weights', which has 64 B"),
        ({"offset": "-4"}, "is no number of bytes"),
        ({"length": "4"}, r"has 48 B, but its place in 'weights' has 4 B"),
    ],
)
def test_a_place_in_a_file_that_cannot_be_is_an_error(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    with_external(tmp_path / "m.onnx", linear(), "weights", changes)
    with pytest.raises(OnnxError, match=message):
        import_onnx(tmp_path / "m.onnx")


def test_bytes_have_no_folder(tmp_path: Path) -> None:
    made = with_external(tmp_path / "m.onnx", linear(), "weights")
    for source in (made, made.SerializeToString()):
        with pytest.raises(UnsafeModelError, match="came without a folder: give import_onnx the model's path"):
            import_onnx(source)


def test_only_initialisers_of_the_main_graph_stand_in_files() -> None:
    tensor = numpy_helper.from_array(uniform(2), "c")
    external_data_helper.set_external_data(tensor, "weights", 0, 8)
    made = helper.make_model(helper.make_graph([helper.make_node("Constant", [], ["y"], value=tensor)], "g", [], []))
    with pytest.raises(OnnxError, match="stands in another file, which only initialisers"):
        import_onnx(made)


def test_a_sparse_initialiser_becomes_dense() -> None:
    made = model("(float[2,3] x) => (float[2,3] y) { y = Add(x, w) }")
    values, indices = (
        numpy_helper.from_array(np.array([5.0, 7.0], np.float32), "w"),
        numpy_helper.from_array(np.array([[0, 1], [1, 2]]), "i"),
    )
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    np.testing.assert_array_equal(import_onnx(made)(np.zeros((2, 3), np.float32))[0], [[0, 5, 0], [0, 0, 7]])


def test_functions_that_call_functions_are_counted_at_each_call() -> None:
    functions = "\n".join(
        f'<domain: "f", opset_import: ["": 17, "f": 1]> f{k} (x) => (y) {{ a = f.f{k + 1}(x)  y = f.f{k + 1}(a) }}' for k in range(30)
    )
    last = '<domain: "f", opset_import: ["": 17, "f": 1]> f30 (x) => (y) { y = Relu(x) }'
    made = model("(float[2] x) => (float[2] y) { y = f.f0(x) }", imports=', "f": 1', functions=f"{functions}\n{last}")
    with pytest.raises(UnsafeModelError, match="more nodes than are allowed"):
        import_onnx(made)


SHADOWED = """(float[2] x, bool c) => (float[2] y) {
    y = If(c) <then_branch = t () => (float[2] u) <float[1] NAME = {5.0}> { u = Add(x, NAME) },
        else_branch = e () => (float[2] v) { v = Neg(x) }>
    late = Neg(x)
}"""


@pytest.mark.parametrize("name", ["w", "x", "late"])
def test_an_initialiser_of_a_branch_has_a_name_of_its_own(name: str) -> None:
    # ONNX forbids another; ONNX Runtime took the outer value, and the branch's own was taken here.
    text = SHADOWED.replace("NAME", name)
    with pytest.raises(OnnxError, match=rf"graph 't' has an initialiser '{name}', and a graph around it a value of that name"):
        import_onnx(model(text, w=np.float32([7])))
    assert import_onnx(model(SHADOWED.replace("NAME", "own"), w=np.float32([7])))(np.float32([1, 2]), True)[0].tolist() == [6, 7]


def test_a_function_sees_its_own_inputs_only() -> None:
    function = '<domain: "f", opset_import: ["": 17]> f0 (x) => (y) { y = Add(x, w) }'
    with pytest.raises(OnnxError, match="function 'f0' reads 'w'"):
        import_onnx(model("(float[2] x) => (float[2] y) { y = f.f0(x) }", imports=', "f": 1', functions=function, w=uniform(2)))


def test_a_file_that_would_grow_in_memory_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    part = 1024  # of the bounds, and of the files
    for name in ("MOST_PARSED_BYTES", "MOST_MESSAGES"):
        monkeypatch.setattr(sizes, name, getattr(sizes, name) // part)
    for content in (
        field(7, field(1, b"") * (9_000_000 // part)),  # nodes
        field(7, field(1, field(5, field(6, b"")) * (4_000_000 // part))),  # graphs of attributes of a node
        field(7, field(5, b"") * (9_000_000 // part)),  # initialisers
    ):
        with pytest.raises(UnsafeModelError, match=r"B of memory beside its weights, or it has more than"):
            import_onnx(content)


def test_weights_are_no_memory_that_grows() -> None:
    content = model("(float[3] x) => (float[3] y) { y = Add(x, x) }", w=np.zeros(8 << 20, np.float32)).SerializeToString()
    assert len(content) * 105 > sizes.MOST_PARSED_BYTES
    sizes.require_parseable(content)


def test_a_file_that_is_too_large_is_refused_without_reading_it(tmp_path: Path) -> None:
    with open(tmp_path / "m.onnx", "wb") as file:
        file.truncate(8 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnsafeModelError, match=r"'m.onnx' is larger than 2,147,483,648 B"):
        import_onnx(tmp_path / "m.onnx")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3 << 20  # KiB


def test_the_number_of_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MOST_NODES", 3)
    with pytest.raises(UnsafeModelError, match="more nodes than are allowed"):
        import_onnx(linear())


@pytest.mark.process
def test_onnx_checks_a_model_in_another_process() -> None:
    assert check_in_child(linear().SerializeToString()) == ""
    wrong = linear()
    wrong.graph.node[0].op_type = "Nothing"
    assert "No Op registered for Nothing" in check_in_child(wrong.SerializeToString())
    with pytest.raises(OnnxError, match="the checker: ONNX's own code refused it: ValueError: Unable to parse"):
        check_in_child(b"\xff")


@pytest.mark.process
def test_a_crash_of_onnx_is_an_error_and_the_next_question_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    started = bodies._Child.running()
    started._process.kill()
    assert check_in_child(linear().SerializeToString()) == ""
    bodies._Child.running()._process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(bodies, "_TIMEOUT_WALL_S", 0.1)
    with pytest.raises(OnnxError, match="the checker: ONNX's own code failed on it"):
        check_in_child(linear().SerializeToString())
    monkeypatch.undo()
    assert check_in_child(linear().SerializeToString()) == ""


@pytest.mark.process
def test_a_body_that_depends_on_types_comes_from_the_other_process() -> None:
    node = helper.make_node("CenterCropPad", ["x", "s"], ["y"], axes=[0])
    preparation = Preparation(functions={}, left=10)
    prepared = preparation.node(node, {"": 18}, None, 0)
    types = [
        helper.make_tensor_type_proto(kind, shape).SerializeToString()
        for kind, shape in ((TensorProto.FLOAT, [3]), (TensorProto.INT64, [1]))
    ]
    assert len(body_of(prepared, tuple(types)).nodes) > 5


def test_attributes_of_popart_s_that_say_where_a_node_runs_are_left_out() -> None:
    made = linear()
    for node in made.graph.node:
        node.attribute.extend([helper.make_attribute("__debug_info_id", 3), helper.make_attribute("__pipeline_stage", 1)])
    with_them, without = import_onnx(made), import_onnx(linear())
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(with_them.fn(with_them.params, x), without.fn(without.params, x))


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (
            helper.make_node("Relu", ["x"], ["y"], name="r", slope=2),
            "node 'r' (Relu) has an attribute 'slope', which is 2, and the operator",
        ),
        (
            helper.make_node("FastGelu", ["x"], ["y"], domain="com.microsoft", beta=0.5),
            "attribute 'beta', which is 0.5, and the operator takes no",
        ),
        (helper.make_node("Softmax", ["x"], ["y"], axis=1.5), "attribute 'axis' is 1.5 of type FLOAT, and must be of type INT"),
        (helper.make_node("HardSwish", ["x"], ["y"], to=[1]), "node '' (HardSwish) has an attribute 'to', which is (1,), and the operator"),
    ],
)
def test_an_attribute_that_an_operator_lacks_or_that_has_another_type_is_named_before_anything_runs(
    node: onnx.NodeProto, said: str
) -> None:
    made = linear()
    del made.graph.node[:]
    made.graph.node.append(node)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(OnnxError, match=re.escape(said)):
        import_onnx(made)
