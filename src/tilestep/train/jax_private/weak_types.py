"""Arrays of weak type, which JAX makes of numbers and lets nobody make of arrays: a private name of JAX, used here alone."""

from __future__ import annotations

from typing import Any

import jax


def weak(array: jax.Array) -> jax.Array:
    """The same values with a weak type; as they are where JAX has that function no more."""
    try:
        from jax._src.lax import lax

        convert: Any = lax._convert_element_type
        return convert(array, array.dtype, weak_type=True)
    except (ImportError, AttributeError, TypeError):
        return array
