"""Copies of a model over devices, and what they do together."""
