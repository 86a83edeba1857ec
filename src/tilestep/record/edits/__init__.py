"""Edits of what a host program did: as if its author had written it otherwise. The edited calls are played again."""

from __future__ import annotations

from tilestep.record.edits.script import ImpossibleEditError as ImpossibleEditError
from tilestep.record.edits.script import Script as Script
