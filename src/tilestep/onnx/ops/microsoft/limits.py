"""What operators of com.microsoft do not do here: an attribute or an input is refused by name unless it changes nothing."""

from collections.abc import Mapping
from typing import Any, Final

MS: Final = "com.microsoft"


def require_inert(given: Mapping[str, Any], **inert: Any) -> None:
    """Raises: ValueError that names an attribute which is none of `inert`, or has another value. Args: inert: name -> the value."""
    for name, value in given.items():
        if name not in inert:
            raise ValueError(f"attribute '{name}' is not supported")
        if value != inert[name]:
            raise ValueError(f"attribute '{name}' is {value!r}, and only {inert[name]!r} is supported")


def require_absent(**inputs: Any) -> None:
    """Raises: ValueError that names an input which is there."""
    for name, value in inputs.items():
        if value is not None:
            raise ValueError(f"input '{name}' is not supported: only a node without it is")
