"""Arithmetic, activations and losses, matrix products, sums along axes, and signals."""
