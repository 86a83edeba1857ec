"""A model in parts: stages of a pipeline, and layers for a plan. Of the modules of `onnx/` only `model` imports it."""
