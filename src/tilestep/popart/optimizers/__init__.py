"""Optimisers by PopART's formulas, as optax transformations."""
