"""The private parts of JAX that tracing uses."""
