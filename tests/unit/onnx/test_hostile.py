"""Hostile files end in an error of this package, in little time and memory, and nothing outside of their folder is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python
from tests.unit.onnx import crafted

pytestmark = pytest.mark.process


def read(folder: Path, *words: str) -> list[dict[str, Any]]:
    """What tests.unit.onnx.hostile says of models: first of files, then of damaged ones."""
    done = run_python("-m", "tests.unit.onnx.hostile", str(folder), *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("count", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_crafted_files_are_refused_and_damaged_ones_are_refused_or_run(count: int, tmp_path: Path) -> None:
    crafted.write(tmp_path)
    made, damaged = read(tmp_path / "models", "0", str(count), *(f"{name}.onnx" for name in crafted.files()))
    assert made["wrong"] == []
    assert made["ends"] == {f"{name}.onnx": end for name, (_, end) in crafted.files().items()}
    assert damaged["wrong"] == []
    assert sum(damaged["counts"].values()) == count
    assert damaged["counts"]["sound"] > count // 20  # some damage leaves a model
    assert damaged["counts"]["OnnxError"] > count // 2
