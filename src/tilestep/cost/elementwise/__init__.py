"""Elementwise operations: a whole expression fused, and the bundles of each operation within one. It imports no other room."""
