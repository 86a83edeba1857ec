"""The versions of JAX that the platform works with."""

import re
import warnings

from tilestep.errors import UnsupportedError

OLDEST = (0, 10, 2)
NEWEST_TESTED = (0, 12, 0)
PROFILED = ("0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.12.0.1")
"""The versions of jaxlib whose profiler is known to take our table. Another one might end the process with the session."""


def parse(version: str) -> tuple[int, int, int]:
    """(major, minor, patch) of a version such as '0.10.2', '0.12.0.1' or '0.13.0.dev20270101'."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def require_not_too_old(version: str) -> None:
    """Raises: UnsupportedError if this jax lacks names that the platform needs."""
    if parse(version) < OLDEST:
        raise UnsupportedError(f"jax {version} is too old for the ipu platform: it needs jax {_text(OLDEST)} or newer (pip install -U jax)")


def warn_if_untested(version: str) -> None:
    """Warns: UserWarning naming the tested range if this jax is newer than any that the platform was tested with."""
    if parse(version) > NEWEST_TESTED:
        warnings.warn(
            f"jax {version} is newer than any that the ipu platform was tested with ({_text(OLDEST)} to {_text(NEWEST_TESTED)})",
            UserWarning,
            stacklevel=2,
        )


def _text(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
