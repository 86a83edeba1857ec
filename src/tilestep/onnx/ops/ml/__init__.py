"""The domain ai.onnx.ml: features, linear models and support vectors, trees."""
