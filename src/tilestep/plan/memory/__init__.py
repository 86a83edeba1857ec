"""Bytes of a planned program: of its values from birth to last use, and of its code. It may import `products`, but no pass."""
