"""A program that needs more memory than its tiles have. It leaves what would not fit."""

import jax


def product(x: jax.Array) -> jax.Array:
    """Too large."""
    return x @ x


try:
    jax.jit(product).lower(jax.ShapeDtypeStruct((20_000, 20_000), "float32")).compile()
except jax.errors.JaxRuntimeError as error:
    print(error)
