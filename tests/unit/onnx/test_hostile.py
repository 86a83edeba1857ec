"""Hostile files end in an error of this package, in little time and memory, and nothing outside of their folder is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python
from tests.unit.onnx import crafted


def read(folder: Path, *words: str) -> dict[str, Any]:
    """What tests.unit.onnx.hostile says of models."""
    done = run_python("-m", "tests.unit.onnx.hostile", str(folder), *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_crafted_files_are_refused(tmp_path: Path) -> None:
    crafted.write(tmp_path)
    found = read(tmp_path / "models", *(f"{name}.onnx" for name in crafted.FILES))
    assert found["wrong"] == []
    assert found["ends"] == {f"{name}.onnx": end for name, (_, end) in crafted.FILES.items()}


@pytest.mark.parametrize("count", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_run(count: int, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(64))
    found = read(tmp_path, "0", str(count))
    assert found["wrong"] == []
    assert sum(found["counts"].values()) == count
    assert found["counts"]["sound"] > count // 20  # some damage leaves a model
    assert found["counts"]["OnnxError"] > count // 2
