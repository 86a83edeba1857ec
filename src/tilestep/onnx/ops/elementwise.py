"""Elementwise operators: arithmetic, comparisons, logic, activations."""

from __future__ import annotations

from typing import Any

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.onnx.values import module_of


@op("Exp")
def exp(call: Call, x: Any) -> Any:
    """e to the power of each element."""
    return module_of(x).exp(x)
