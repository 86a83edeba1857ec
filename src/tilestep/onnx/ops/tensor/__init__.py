"""Shapes, types, indices and text: operators that move, choose or convert elements."""
