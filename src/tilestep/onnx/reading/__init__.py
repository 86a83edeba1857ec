"""A stranger's model becomes a graph to run: its file, bounds, tensors beside it, what it says of its values. It imports `interpreter/`."""
