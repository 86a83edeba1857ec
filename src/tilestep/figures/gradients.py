"""The scopes that JAX gives to steps of a gradient: of the function itself, backward, and of what is computed again for that."""

from collections.abc import Collection
from typing import Final

_DERIVED: Final = "jvp("  # what jax.grad makes of a function
_BACKWARD: Final = "transpose(jvp"
_AGAIN: Final = "rematted_computation"  # of jax.checkpoint


def of_gradient(scope: str) -> bool:
    """Whether a step is of a function whose gradient is computed, forward or backward."""
    return _DERIVED in scope


def goes_backward(scope: str) -> bool:
    """Whether a step is of the way back from a loss to what it depends on."""
    return _BACKWARD in scope


def could_recompute(scopes: Collection[str]) -> bool:
    """Whether steps of these scopes go backward, and nothing is recomputed for them."""
    return any(map(goes_backward, scopes)) and not any(_AGAIN in scope for scope in scopes)
