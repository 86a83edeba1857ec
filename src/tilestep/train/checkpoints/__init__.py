"""Checkpoints: everything that the continuation of a training run depends on, saved and restored together."""
