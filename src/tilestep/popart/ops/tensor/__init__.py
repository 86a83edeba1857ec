"""Graphcore's operators that pick, order, resize or make elements."""
