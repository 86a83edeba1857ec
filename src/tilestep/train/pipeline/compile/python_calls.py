"""Finds stages that call Python."""

from __future__ import annotations

import functools
import re
from typing import Final

from tilestep.train.pipeline.compile.stage import Stage

_CALLS_PYTHON: Final = re.compile(r"(callback|debug_print)\[")  # in a program as JAX writes it: it may fail after it was started


def calls_python(stage: Stage, *, training: bool) -> bool:
    """Whether a stage calls Python, which may raise. Args: training: whether its gradient is computed, too."""
    return _is_call_in(stage.text) or (training and _is_call_in(stage.gradient_text))


@functools.lru_cache(maxsize=256)
def _is_call_in(text: str) -> bool:
    return bool(_CALLS_PYTHON.search(text))
