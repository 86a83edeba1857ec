"""ONNX models as PyTorch's exporters write them, of the same weights as the networks of `benchmarks/models`."""

from __future__ import annotations
