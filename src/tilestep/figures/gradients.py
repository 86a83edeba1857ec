"""The scopes that JAX gives to steps of a gradient: of the function itself, backward, and of what is computed again for that."""

from collections.abc import Collection
from typing import Final

_GRADIENT_SCOPE: Final = "jvp("
_BACKWARD_SCOPE: Final = "transpose(jvp"
_CHECKPOINT_SCOPE: Final = "rematted_computation"


def of_gradient(scope: str) -> bool:
    """Whether a step is of a function whose gradient is computed, forward or backward."""
    return _GRADIENT_SCOPE in scope


def goes_backward(scope: str) -> bool:
    """Whether a step is of the way back from a loss to what it depends on."""
    return _BACKWARD_SCOPE in scope


def could_recompute(scopes: Collection[str]) -> bool:
    """Whether steps of these scopes go backward, and nothing is recomputed for them."""
    return any(map(goes_backward, scopes)) and not any(_CHECKPOINT_SCOPE in scope for scope in scopes)
