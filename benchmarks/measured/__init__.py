"""Published measurements of IPUs, and what tilestep says of the same runs."""

from __future__ import annotations
