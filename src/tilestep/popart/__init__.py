"""PopART's Python interface on tilestep: programs written for it run as they are, on any JAX device, and are priced on an emulated IPU."""

from __future__ import annotations

try:
    import onnx as _onnx  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ImportError as error:
    raise ImportError("tilestep.popart needs the package onnx: pip install 'tilestep[onnx]'") from error
