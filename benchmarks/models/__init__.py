"""Networks written plainly in JAX, as their users would: parameters are arguments, shapes come from `jax.ShapeDtypeStruct`."""

from __future__ import annotations
