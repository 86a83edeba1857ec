"""Gradients of several microbatches, and recomputation."""
