"""Imported networks are those written by hand: in their values and in XLA's operations."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import onnx
import pytest

from benchmarks import onnx_import
from benchmarks.onnx_models import cases, engine, packaged, synthetic
from benchmarks.onnx_models.cases import Case
from tilestep.onnx import import_onnx


@pytest.fixture(scope="module", params=list(cases.SMALL))
def case(request: pytest.FixtureRequest) -> Case:
    return cases.SMALL[request.param]()


def test_values_are_equal(case: Case) -> None:
    assert case.require_equal() < 1e-4


def test_xla_has_no_more_products_and_transpositions(case: Case) -> None:
    programs = onnx_import.programs(case, frozen=False)
    ours, theirs = (onnx_import.counts(*programs[name]) for name in ("imported", "by_hand"))
    if "ResNet" in case.name:  # products for convolutions of one element; kernels in the file's layout are transposed
        assert ours["dot"] + ours["convolution"] == theirs["dot"] + theirs["convolution"]
        few_windows = 2  # convolutions that are products with channels first: of their windows and their results
        assert ours["transpose"] == ours["convolution"] + 1 + 2 * few_windows  # and the images
    else:
        assert all(ours[opcode] <= theirs[opcode] for opcode in theirs)


def test_the_file_of_a_network_has_no_operator_that_hides_a_pattern(case: Case) -> None:
    found = {node.op_type for node in case.proto.graph.node}
    assert found.isdisjoint({"LayerNormalization", "Gelu", "Attention"})


def test_folded_norms_are_the_norms_of_the_file() -> None:
    stages = ((16, 1, 1), (32, 1, 2))
    assert cases.resnet(stages, 32).require_equal() < 1e-4


def test_different_networks_are_refused() -> None:
    case = cases.SMALL["gpt2"]()
    other = Case(**{**vars(case), "hand_params": {**case.hand_params, "norm1": case.hand_params["norm2"]}})
    with pytest.raises(ValueError, match=r"GPT-2 block: imported and by hand differ by .* standard deviations; at most 0.0001 is rounding"):
        other.require_equal()


def test_synthetic_models(tmp_path: Path) -> None:
    x = np.arange(96, dtype=np.float32).reshape(2, 8, 6)
    proto = synthetic.shape_nodes(40)
    assert len(proto.graph.node) == 40
    np.testing.assert_array_equal(import_onnx(proto)(x)[0], x)
    path = synthetic.write_large(tmp_path, 1)
    large = import_onnx(path)
    (weight,) = large.params.values()
    x = np.ones((1, weight.shape[0]), np.float32)
    np.testing.assert_allclose(large.fn(large.params, x)[0], x @ weight, rtol=1e-3, atol=1e-2)


@pytest.mark.process
def test_an_engine_runs_a_file_in_a_process_of_its_own(tmp_path: Path) -> None:
    x = np.zeros((2, 8, 6), np.float32)
    onnx.save(synthetic.shape_nodes(20), str(tmp_path / "shapes.onnx"))
    np.savez(tmp_path / "shapes.npz", x=x)
    for name in ("frozen", "parameters", "onnxruntime"):
        call = engine.ENGINES[name](str(tmp_path / "shapes.onnx"), {"x": x})
        np.testing.assert_array_equal(jax.tree.leaves(call())[0], x)
    command = [sys.executable, engine.__file__, "import", str(tmp_path / "shapes.onnx"), str(tmp_path / "shapes.npz"), "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "trace_wall_s" in ended.stdout


def test_a_network_of_a_package_is_found_without_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = dataclasses.replace(packaged.PACKAGED[0], module="a_package_of_a_model", file="models/m.onnx")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert network.path() is None
    (tmp_path / network.module / "models").mkdir(parents=True)
    (tmp_path / network.module / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / network.module / network.file).touch()
    assert network.path() == tmp_path / network.module / network.file
