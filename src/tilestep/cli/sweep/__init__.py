"""`tilestep sweep`: one program in dry runs over a product of settings."""

from __future__ import annotations
