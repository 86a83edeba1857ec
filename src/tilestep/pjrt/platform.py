"""The name of the platform."""

from __future__ import annotations

from typing import Final

PLATFORM: Final = "ipu"
