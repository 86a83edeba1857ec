"""The name of the platform."""

from typing import Final

PLATFORM: Final = "ipu"
