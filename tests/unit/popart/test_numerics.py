"""NumericsReport compares how weights changed."""

from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.numerics import NumericsReport


def saved(path: Path, **weights: np.ndarray) -> str:
    names = list(weights)
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "graph",
        [value],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])],
        [onnx.numpy_helper.from_array(weights[name], name) for name in names],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)]), path)
    return str(path)


def test_the_error_is_that_of_the_changes(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    start = generator.normal(size=(3, 4)).astype(np.float32)
    change_a, change_b = (generator.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
    steps = np.arange(3)
    a0, b0 = (saved(tmp_path / f"{name}0.onnx", w=start, n=steps) for name in "ab")
    a1, b1 = saved(tmp_path / "a1.onnx", w=start + change_a, n=steps), saved(tmp_path / "b1.onnx", w=start + change_b, n=steps + 1)
    report = NumericsReport(a0, a1, b0, b1)
    expected = np.sum((change_a - change_b) ** 2) / (np.linalg.norm(change_a) * np.linalg.norm(change_b) + 1e-8)
    assert report.getRelativeErrors() == {"w": pytest.approx(expected, rel=1e-5)}
    assert report.report("w").startswith("|dA - dB|^2 / (|dA||dB| + 1e-8)  = ")
    assert report.fullReport() == f"\nw : \n{report.report('w')}"
    with pytest.raises(popart_exception, match=r"^No report available for n"):
        report.report("n")


def test_models_that_never_changed_do_not_differ(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.onnx", w=np.ones(3, np.float32))
    assert NumericsReport(path, path, path, path).getRelativeErrors() == {"w": 0.0}


def test_models_that_cannot_be_compared(tmp_path: Path) -> None:
    ones = np.ones(3, np.float32)
    first = saved(tmp_path / "first.onnx", w=ones)
    more = saved(tmp_path / "more.onnx", w=ones, v=ones)
    renamed = saved(tmp_path / "renamed.onnx", v=ones)
    longer = saved(tmp_path / "longer.onnx", w=np.ones(4, np.float32))
    doubles = saved(tmp_path / "doubles.onnx", w=ones.astype(np.float64))
    for other, message in (
        (more, "GraphProtos have different number of initializers"),
        (renamed, "Tensor names do not correspond between TensorProtos: v, w"),
        (longer, r"TensorProto infos differ: w is float32\[4\]"),
        (doubles, r"TensorProto infos differ: w is float64\[3\]"),
        (str(tmp_path), "'.*' is not a regular file"),
    ):
        with pytest.raises(popart_exception, match=f"^{message}"):
            NumericsReport(first, first, first, other)
