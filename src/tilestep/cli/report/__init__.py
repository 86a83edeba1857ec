"""The commands of `tilestep report`, a file for each."""

from __future__ import annotations
