"""Dropout in all versions: off in inference, on in training."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import run_node
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpret import Run

F = np.float32
X = np.ones((40, 50), F)
RATIO = np.array(0.25, F)


def old(version: int) -> dict[str, Any]:
    return {"consumed_inputs": [0]} if version == 1 else {}


def training(seed: int = 0) -> Run:
    return Run(training=True, key=jax.random.key(seed))


@each("version", [1, 6])
def test_a_training_run_trains_whatever_the_file_says(version: int) -> None:
    y = run_node("Dropout", [X], version=version, run=training(), is_test=1, **old(version))[0]
    assert (np.asarray(y) == 0).any()


def test_random_numbers_need_a_key() -> None:
    with pytest.raises(OnnxError, match="draws random numbers: give a key"):
        run_node("Dropout", [X], version=7, run=Run(training=True))


@each("ratio", [-0.1, 1.0])
def test_a_ratio_has_bounds(ratio: float) -> None:
    with pytest.raises(OnnxError, match="must be at least 0 and below 1"):
        run_node("Dropout", [X, np.array(ratio, F)], "known", version=12, run=training())


def test_a_ratio_of_zero_draws_nothing() -> None:
    agrees([X], "Dropout", [X], version=7, ratio=0.0, run=Run(training=True))


def test_half_precision_stays() -> None:
    y = run_node("Dropout", [X.astype(np.float16), RATIO], version=13, run=training())[0]
    assert y.dtype == np.float16
