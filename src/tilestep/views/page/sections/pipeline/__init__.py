"""What view Pipeline reads."""

from __future__ import annotations
