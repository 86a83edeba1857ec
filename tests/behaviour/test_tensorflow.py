"""Programs for TensorFlow for the IPU, unchanged, under `tilestep run --tensorflow`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.processes import ROOT, run_python

pytestmark = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow: make test-tensorflow")
PAGE = ROOT / "docs" / "how-to" / "tensorflow.md"


def run(folder: Path, program: str, *options: str) -> tuple[str, str]:
    """(stdout, stderr) of a program that ends well."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = run_python("-m", "tilestep", "run", *options, "program.py", folder=folder, strict=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def program_of_page(number: int) -> str:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[number]


def test_the_program_without_a_loop_learns_and_is_one_program_on_the_ipu(tmp_path: Path) -> None:
    out, err = run(tmp_path, program_of_page(0), "--tensorflow")
    losses = [float(value) for value in re.findall(r"[\d.]+(?=\)\])", out)]
    assert len(losses) == 3
    assert losses[0] == 1
    assert losses == sorted(losses, reverse=True)
    assert "looks like one of TensorFlow 1; --tensorflow=2 says otherwise" in err
    assert "jit_step" in err
