"""ONNX models as plain JAX functions."""
