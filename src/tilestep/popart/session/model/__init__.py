"""The model of a session before it compiles: its function, tensors, replicas, the stages of its operators."""
