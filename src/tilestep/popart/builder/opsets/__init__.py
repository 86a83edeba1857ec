"""A method for each operator of ONNX and of ai.graphcore, made from tables. It imports `graph/` alone of the builder's rooms."""
