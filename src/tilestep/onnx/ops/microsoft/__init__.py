"""The domain com.microsoft, as ONNX Runtime's CPU kernels mean it. An attribute or an input beyond them is an error that names it."""
