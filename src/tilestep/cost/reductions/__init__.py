"""Reductions: of dimensions, in windows, and in normalisation. It may import `elementwise`, whose rates its functions have."""
